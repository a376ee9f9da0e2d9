#!/usr/bin/env python3
"""The commands for people, typed into a real terminal (tmux), and what its screens show.

See README.md beside this file. Exit code: 0 every check holds, 1 one does not, or something could not be started, 2 wrong
arguments.
"""

import shutil
import sys
from contextlib import nullcontext

import flows
import tutorial
from lab import Lab

from checks import arguments, run_checks


def main() -> int:
    checks = flows.CHECKS + tutorial.CHECKS
    asked = arguments(__doc__, checks).parse_args()
    if shutil.which("tmux") is None:
        print("terminal: tmux is missing; on Debian: apt-get install tmux", file=sys.stderr)
        return 1
    return run_checks("terminal", asked, checks, lambda out: nullcontext(Lab(asked.binary.resolve(), out)))


if __name__ == "__main__":
    sys.exit(main())
