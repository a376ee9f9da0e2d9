#!/usr/bin/env python3
"""Installs each package in a clean place, starts its program, calls a tool, and removes it again.

  tests/packages/run.py --packages FOLDER [--work FOLDER] [--peers FOLDER] [NAME…]

See README.md beside this file. Exit code: 0 all passed, 1 one did not. Nothing here asks a registry for our own name.
"""

import argparse
import pathlib
import shutil
import sys
import tempfile
import time
import traceback

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).resolve().parent))

import kinds
import transcripts
from gateway import Failed, Packages


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packages", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, default=None, help="keeps the clean Debian, default a temporary folder")
    parser.add_argument("--peers", type=pathlib.Path, default=None, help="what scripts/peers installed, for the transcripts")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    tests = kinds.TESTS | (transcripts.tests(options.peers) if options.peers else {})
    unknown = set(options.names) - set(tests)
    if unknown:
        sys.exit(f"no such test: {', '.join(sorted(unknown))}; there are {', '.join(tests)}")
    rows = [row(name, tests[name], options) for name in options.names or tests]
    print("\n".join(f"{name:28} {verdict:7} {seconds:5.1f} s" for name, verdict, seconds in rows))
    failed = sum(verdict != "ok" for _, verdict, _ in rows)
    print(f"{len(rows) - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


def row(name, test, options):
    """Runs one test in a folder of its own; its time is that of the test, or what the test says that it took."""
    print(f"--> {name}: {(test.__doc__ or '').splitlines()[0]}", flush=True)
    folder, began, verdict, told = pathlib.Path(tempfile.mkdtemp(prefix="switchyard-package-")), time.monotonic(), "ok", None
    try:
        told = test(Packages(options.packages.resolve(), options.work), folder)
    except Failed as error:
        verdict = "FAILED"
        print(f"    {error}")
    except Exception:
        verdict = "FAILED"
        traceback.print_exc()
    seconds = told or time.monotonic() - began
    shutil.rmtree(folder, ignore_errors=True)
    return name, verdict, seconds


if __name__ == "__main__":
    main()
