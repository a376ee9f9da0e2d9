#!/usr/bin/env python3
"""The same steps with a server directly and with Switchyard in front of it: every difference.

See README.md beside this file. Exit code: 0 no difference without a reason and no reason without a difference, 1 there
is one or a run had no result, 2 wrong arguments.
"""

import argparse
import json
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "lab"))

from differences import Difference, Run, differences, reason, stale  # noqa: E402
from matrix import CLIENTS, SERVERS, Client, Server, environment, pairs, prepare, target  # noqa: E402
from normalize import normalized, notices  # noqa: E402
from programs import Failed, Peers, output  # noqa: E402
from settled import SETTLED  # noqa: E402

#: Most of a run is waiting for notices, so more than one for each core.
AT_A_TIME = 6
#: Seconds for all steps of one run.
PATIENCE = 150


@dataclass(frozen=True)
class Pair:
    """One server and one client."""

    server: Server
    client: Client

    def __str__(self) -> str:
        return f"{self.server.name}/{self.client.name}"


@dataclass(frozen=True)
class Row:
    """What came of a pair."""

    pair: Pair
    items: int
    found: list[Difference]
    failed: str | None = None

    def counting(self) -> list[Difference]:
        return [one for one in self.found if not reason(str(self.pair), one, SETTLED)]


def run(pair: Pair, peers: Peers, folder: Path, binary: Path | None) -> Run:
    """All steps of a pair in one run; what the client printed, without what belongs to this run."""
    files = folder / "files"
    prepare(files)
    steps = pair.server.steps(files)
    with target(pair.server, peers, files, binary) as where:
        ask = {"target": where, "steps": steps, "mode": pair.client.mode}
        (folder / "steps.json").write_text(json.dumps(ask, indent=1))
        command = [peers.program(pair.client.program), str(HERE / "clients" / pair.client.file), "steps.json"]
        with (folder / "client.log").open("wb") as log:
            printed = output(command, PATIENCE, cwd=folder, env=environment(peers), stderr=log)
    heard = {step["item"] for step in steps if step["do"] == "heard"}
    found = [(item, normalized(outcome, str(files))) for item, outcome in json.loads(printed.splitlines()[-1])]
    for item, outcome in found:
        if item in heard and "result" in outcome:
            outcome["result"] = notices(outcome["result"])
    (folder / "outcomes.json").write_text(json.dumps(found, indent=1, ensure_ascii=False))
    return found


def compare(pair: Pair, peers: Peers, out: Path, binary: Path) -> Row:
    """Both runs of a pair, one after the other."""
    try:
        runs = []
        for side, program in (("direct", None), ("through", binary)):
            folder = out / str(pair).replace("/", "-") / side
            folder.mkdir(parents=True)
            runs.append(run(pair, peers, folder, program))
        return Row(pair, len(runs[0]), differences(*runs))
    except (Failed, ValueError) as error:
        return Row(pair, 0, [], str(error))


def report(rows: list[Row], unneeded: list[Any]) -> None:
    """The table, then each difference with all pairs that have it."""
    print(f"\n{'server/client':<36} {'items':>5} {'differences':>11} {'settled':>7}")
    places: dict[tuple[str, str], list[tuple[Pair, Difference]]] = {}
    for row in rows:
        counting = row.counting()
        settled = len(row.found) - len(counting)
        print(f"{row.pair!s:<36} {row.items:>5} {len(counting):>11} {settled:>7}  {row.failed or ''}".rstrip())
        for one in counting:
            places.setdefault((one.item, one.path), []).append((row.pair, one))
    for having in places.values():
        print(f"\n{having[0][1]}\n      with:    {' '.join(str(pair) for pair, _ in having)}")
    for entry in unneeded:
        print(f"\nsettled.py: no difference needs this any more, remove it: {entry}")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    names = [server.name for server in SERVERS], [client.name for client in CLIENTS]
    parser.add_argument("--server", action="append", choices=names[0], help="only this one; may be repeated")
    parser.add_argument("--client", action="append", choices=names[1], help="only this one; may be repeated")
    parser.add_argument("--binary", type=Path, required=True, help="the gateway")
    asked = parser.parse_args()
    began, out = time.monotonic(), Path(tempfile.mkdtemp(prefix="compare-"))
    peers, binary = Peers.of_environment(), asked.binary.resolve()
    wanted = [
        Pair(server, client)
        for server, client in pairs()
        if (not asked.server or server.name in asked.server) and (not asked.client or client.name in asked.client)
    ]
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        rows = list(pool.map(lambda pair: compare(pair, peers, out, binary), wanted))
    ran = [str(row.pair) for row in rows if not row.failed]
    unneeded = stale([(str(row.pair), one) for row in rows for one in row.found], ran, SETTLED)
    report(rows, unneeded)
    print(f"\noutcomes and logs: {out}\n{time.monotonic() - began:.0f} s")
    return 1 if unneeded or any(row.failed or row.counting() for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
