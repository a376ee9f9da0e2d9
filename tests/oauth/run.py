#!/usr/bin/env python3
"""Logins through Switchyard with real parts: `oidc-provider`, a FastMCP server, the SDKs' clients.

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

import inbound
import logins
import tokens
from lab import Failed, Peers, lab

CHECKS = (*logins.CHECKS, *tokens.CHECKS, *inbound.CHECKS)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--binary", type=Path, required=True, help="the gateway")
    parser.add_argument(
        "--check", action="append", choices=[one.__name__ for one in CHECKS], help="only this one; may be repeated"
    )
    parser.add_argument("--full", action="store_true", help="an outage of 60 s in place of 12 s; two minutes more")
    parser.add_argument(
        "--peers", type=Path, default=os.environ.get("SWITCHYARD_PEERS"), help="what scripts/peers prints"
    )
    parser.add_argument("--out", type=Path, help="a folder for logs; default: a new one")
    return parser.parse_args()


def main() -> int:
    asked = arguments()
    if not asked.peers:
        print("oauth: SWITCHYARD_PEERS is not set: set it to what `scripts/peers` prints", file=sys.stderr)
        return 1
    out = (asked.out or Path(tempfile.mkdtemp(prefix="oauth-"))).resolve()
    wanted = [one for one in CHECKS if not asked.check or one.__name__ in asked.check]
    began, failed = time.monotonic(), 0
    try:
        with lab(asked.binary.resolve(), Peers(Path(asked.peers).resolve()), out) as world:
            world.is_full = asked.full
            for one in wanted:
                started = time.monotonic()
                try:
                    one(world)
                    verdict = "ok"
                except Exception as error:  # noqa: BLE001  the other checks still say something
                    verdict, failed = f"FAILED\n      {type(error).__name__}: {error}", failed + 1
                print(f"{one.__name__.replace('_', ' '):<56} {time.monotonic() - started:5.1f} s  {verdict}", flush=True)
    except Failed as error:
        print(f"oauth: {error}", file=sys.stderr)
        return 1
    print(f"\n{len(wanted) - failed} of {len(wanted)} checks hold; logs: {out}\n{time.monotonic() - began:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
