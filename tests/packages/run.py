#!/usr/bin/env python3
"""Installs each package in a clean place, starts its program, calls a tool, and removes it again.

See README.md beside this file. Exit code: 0 every check holds, 1 one does not, 2 wrong arguments. Nothing here asks a registry
for our own name.
"""

import sys

sys.dont_write_bytecode = True

import kinds
import transcripts
from gateway import Packages

from checks import arguments, run_checks

CHECKS = (*kinds.CHECKS, *transcripts.CHECKS)


def main():
    asked = arguments(__doc__, CHECKS, "packages", "what `scripts/package` made").parse_args()
    return run_checks("packages", asked, CHECKS, lambda out: Packages(asked.packages.resolve(), out))


if __name__ == "__main__":
    sys.exit(main())
