#!/usr/bin/env python3
"""Logins through Switchyard with real parts: `oidc-provider`, a FastMCP server, the SDKs' clients.

See README.md beside this file. Exit code: 0 every check holds, 1 one does not, or something could not be started, 2 wrong
arguments.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import inbound
import issuer_logins
import logins
import tokens
from lab import Peers, lab

from checks import arguments, run_checks

CHECKS = (*logins.CHECKS, *tokens.CHECKS, *inbound.CHECKS, *issuer_logins.CHECKS)


def main() -> int:
    parser = arguments(__doc__, CHECKS)
    peers = os.environ.get("SWITCHYARD_PEERS")
    parser.add_argument("--peers", type=Path, default=peers, help="what scripts/peers prints")
    asked = parser.parse_args()
    if not asked.peers:
        print("oauth: SWITCHYARD_PEERS is not set: set it to what `scripts/peers` prints", file=sys.stderr)
        return 1

    def world(out: Path):
        return lab(asked.binary.resolve(), Peers(asked.peers.resolve()), out)

    return run_checks("oauth", asked, CHECKS, world)


if __name__ == "__main__":
    sys.exit(main())
