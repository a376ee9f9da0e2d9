#!/usr/bin/env peer-python
"""Switchyard in front of a real R2R and a real Chroma with real embeddings: what is promised of them, from outside.

See README.md beside this file. Exit code: 0 every check holds, 1 one does not, or something could not be started, 2 wrong
arguments.
"""

import signal
import sys

import chroma
import handbook
import r2r
from world import World

from checks import arguments, run_checks

CHECKS = (*r2r.CHECKS, *chroma.CHECKS, *handbook.CHECKS)


def main() -> int:
    asked = arguments(__doc__, CHECKS).parse_args()
    # Ended from outside, what was started here is ended too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    return run_checks("backends", asked, CHECKS, lambda out: World(asked.binary.resolve(), out))


if __name__ == "__main__":
    sys.exit(main())
