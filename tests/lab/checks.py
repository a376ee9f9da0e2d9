"""What the suites share: suites of functions that fail, and a key for the gateway."""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from programs import Failed

#: One check of a suite, which gets the world of the suite.
Check = Callable[[Any], None]
#: Makes the world of a suite, whose logs go to the folder.
World = Callable[[Path], AbstractContextManager[Any]]


class Wrong(Exception):
    """A check did not hold."""


def check(holds: object, what: str) -> None:
    """Fails with `what` unless it holds."""
    if not holds:
        raise Wrong(what)


def new_key(binary: Path, name: str, role: str) -> tuple[str, dict[str, str]]:
    """A key for the gateway, and its entry in the configuration file."""
    command = [str(binary), "key", "new", "--id", name, "--role", role]
    words = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    key = next(word for word in words if word.startswith(f"swy_{name}_"))
    digest = next(word for word in words if word.startswith("sha256:"))
    return key, {"id": name, "hash": digest, "role": role}


def arguments(
    about: str | None, checks: Sequence[Check], tested: str = "binary", what: str = "the gateway"
) -> argparse.ArgumentParser:
    """The arguments that every suite of `checks` has, and the path that is `tested`."""
    parser = argparse.ArgumentParser(description=(about or "").partition("\n")[0])
    parser.add_argument(f"--{tested}", type=Path, required=True, help=what)
    names = [one.__name__ for one in checks]
    parser.add_argument("--check", action="append", choices=names, help="only this one; may be repeated")
    parser.add_argument("--out", type=Path, help="a folder for logs; default: a new one")
    return parser


def run_checks(suite: str, asked: argparse.Namespace, checks: Sequence[Check], world: World) -> int:
    """Runs the checks in the world that is made for them, and prints a line for each. The exit code."""
    out = (asked.out or Path(tempfile.mkdtemp(prefix=f"{suite}-"))).resolve()
    out.mkdir(parents=True, exist_ok=True)
    wanted = [one for one in checks if not asked.check or one.__name__ in asked.check]
    began, failed = time.monotonic(), 0
    try:
        with world(out) as lab:
            for one in wanted:
                started = time.monotonic()
                try:
                    one(lab)
                    verdict = "ok"
                except Exception as error:  # noqa: BLE001  the other checks still say something
                    while isinstance(error, ExceptionGroup):
                        error = error.exceptions[0]
                    verdict, failed = f"FAILED\n      {type(error).__name__}: {error}", failed + 1
                print(f"{one.__name__.replace('_', ' '):<66} {time.monotonic() - started:5.1f} s  {verdict}", flush=True)
    except Failed as error:
        print(f"{suite}: {error}", file=sys.stderr)
        return 1
    print(f"\n{len(wanted) - failed} of {len(wanted)} checks hold; logs: {out}\n{time.monotonic() - began:.0f} s")
    return 1 if failed else 0
