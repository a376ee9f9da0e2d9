#!/usr/bin/env python3
"""Logins through Switchyard with real parts: `oidc-provider`, a FastMCP server, the SDKs' clients.

See README.md beside this file. Exit code: 0 every check holds, 1 one does not, or something could not be started, 2 wrong
arguments.
"""

import sys

import inbound
import issuer_logins
import logins
from lab import Peers, lab

from checks import arguments, run_checks

CHECKS = (*logins.CHECKS, *inbound.CHECKS, *issuer_logins.CHECKS)


def main() -> int:
    asked = arguments(__doc__, CHECKS).parse_args()
    return run_checks("oauth", asked, CHECKS, lambda out: lab(asked.binary.resolve(), Peers.of_environment(), out))


if __name__ == "__main__":
    sys.exit(main())
