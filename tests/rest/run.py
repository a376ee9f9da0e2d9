#!/usr/bin/env python3
"""The REST API by its document: generated clients in two languages, and schemathesis.

See README.md beside this file. Exit code: 0 every check holds, 1 one does not, or something could not be started, 2 wrong
arguments.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

import cases
import generated
from lab import Failed, Lab, tools_of

CHECKS = (*generated.CHECKS, *cases.CHECKS)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--binary", type=Path, required=True, help="the gateway")
    parser.add_argument(
        "--check", action="append", choices=[one.__name__ for one in CHECKS], help="only this one; may be repeated"
    )
    for name, maker in (("rest", "tests/rest/install"), ("peers", "scripts/peers")):
        variable = f"SWITCHYARD_{name.upper()}"
        parser.add_argument(f"--{name}", type=Path, default=os.environ.get(variable), help=f"what {maker} prints")
    parser.add_argument("--out", type=Path, help="a folder for logs; default: a new one")
    return parser.parse_args()


def main() -> int:
    asked = arguments()
    out = (asked.out or Path(tempfile.mkdtemp(prefix="rest-"))).resolve()
    out.mkdir(parents=True, exist_ok=True)
    wanted = [one for one in CHECKS if not asked.check or one.__name__ in asked.check]
    began, failed = time.monotonic(), 0
    try:
        lab = Lab(asked.binary.resolve(), *tools_of((asked.rest, asked.peers)), out)
    except Failed as error:
        print(f"rest: {error}", file=sys.stderr)
        return 1
    for one in wanted:
        started = time.monotonic()
        try:
            one(lab)
            verdict = "ok"
        except Exception as error:  # noqa: BLE001  the other checks still say something
            verdict, failed = f"FAILED\n      {type(error).__name__}: {error}", failed + 1
        print(f"{one.__name__.replace('_', ' '):<66} {time.monotonic() - started:5.1f} s  {verdict}", flush=True)
    print(f"\n{len(wanted) - failed} of {len(wanted)} checks hold; logs: {out}\n{time.monotonic() - began:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
