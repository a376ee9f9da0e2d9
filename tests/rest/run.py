#!/usr/bin/env python3
"""The REST API by its document: generated clients in two languages, and schemathesis.

See README.md beside this file. Exit code: 0 every check holds, 1 one does not, or something could not be started, 2 wrong
arguments.
"""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from pathlib import Path

import cases
import generated
from lab import Lab, tools_of

from checks import arguments, run_checks

CHECKS = (*generated.CHECKS, *cases.CHECKS)


def main() -> int:
    parser = arguments(__doc__, CHECKS)
    for name, maker in (("rest", "tests/rest/install"), ("peers", "scripts/peers")):
        variable = f"SWITCHYARD_{name.upper()}"
        parser.add_argument(f"--{name}", type=Path, default=os.environ.get(variable), help=f"what {maker} prints")
    asked = parser.parse_args()

    def world(out: Path):
        return nullcontext(Lab(asked.binary.resolve(), *tools_of((asked.rest, asked.peers)), out))

    return run_checks("rest", asked, CHECKS, world)


if __name__ == "__main__":
    sys.exit(main())
