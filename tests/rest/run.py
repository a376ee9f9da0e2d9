#!/usr/bin/env python3
"""The REST API by its document: generated clients in two languages, and schemathesis.

See README.md beside this file. Exit code: 0 every check holds, 1 one does not, or something could not be started, 2 wrong
arguments.
"""

import os
import sys
from contextlib import nullcontext
from pathlib import Path

import cases
import generated
from lab import Failed, Lab, Peers

from checks import arguments, run_checks

CHECKS = (*generated.CHECKS, *cases.CHECKS)


def main() -> int:
    asked = arguments(__doc__, CHECKS).parse_args()

    def world(out: Path):
        if not (tools := os.environ.get("SWITCHYARD_REST")):
            raise Failed("SWITCHYARD_REST is not set: set it to what `tests/rest/install` prints")
        return nullcontext(Lab(asked.binary.resolve(), Path(tools).resolve(), Peers.of_environment().bin / "node", out))

    return run_checks("rest", asked, CHECKS, world)


if __name__ == "__main__":
    sys.exit(main())
