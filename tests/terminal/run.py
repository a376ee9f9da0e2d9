#!/usr/bin/env python3
"""The commands for people, typed into a real terminal (tmux), and what its screens show.

See README.md beside this file. Exit code: 0 every check holds, 1 one does not, or something could not be started, 2 wrong
arguments.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

import flows
from lab import Lab


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--binary", type=Path, required=True, help="the gateway")
    names = [one.__name__ for one in flows.CHECKS]
    parser.add_argument("--check", action="append", choices=names, help="only this one; may be repeated")
    return parser.parse_args()


def main() -> int:
    asked = arguments()
    if shutil.which("tmux") is None:
        print("terminal: tmux is missing; on Debian: apt-get install tmux", file=sys.stderr)
        return 1
    out = Path(tempfile.mkdtemp(prefix="terminal-"))
    wanted = [one for one in flows.CHECKS if not asked.check or one.__name__ in asked.check]
    began, failed = time.monotonic(), 0
    for one in wanted:
        started = time.monotonic()
        try:
            one(Lab(asked.binary.resolve(), out))
            verdict = "ok"
        except Exception as error:  # noqa: BLE001  the other checks still say something
            verdict, failed = f"FAILED\n      {type(error).__name__}: {error}", failed + 1
        print(f"{one.__name__.replace('_', ' '):<56} {time.monotonic() - started:5.1f} s  {verdict}", flush=True)
    print(f"\n{len(wanted) - failed} of {len(wanted)} checks hold; files: {out}\n{time.monotonic() - began:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
