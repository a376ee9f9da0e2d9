#!/usr/bin/env python3
"""The official conformance suite against a server and against Switchyard in front of it: the difference.

See README.md beside this file. Exit code: 0 no difference that counts, 1 there is one or a run had no
result, 2 wrong arguments.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent.parent / "lab"))

import suite  # noqa: E402
from differences import Check, Difference, Run, Score, differences, score
from programs import (
    Failed,
    Gateway,
    Peers,
    everything,
    free_port,
    start_listening,
    start_skills_peer,
    start_tasks_peer,
)
from settled import Settled, reason, stale

HERE = Path(__file__).resolve().parent
#: How the everything server is reached; `+noise`: two other servers beside it, all through `/mcp`.
SERVER_LEGS = ("http", "sse", "stdio", "http+noise", "sse+noise", "stdio+noise")
#: A server of our own, because the everything server has no tasks.
TASKS_LEGS = ("tasks", "tasks+noise")
#: Another one, because it has no skills either. The scenarios of skills are of the newest revision only.
SKILLS_LEGS = ("skills", "skills+noise")
SKILLS_SET = "2026-07-28"
CLIENT_LEG = "client"
LEGS = (*SERVER_LEGS, *TASKS_LEGS, *SKILLS_LEGS, CLIENT_LEG)
#: Enough to keep two cores busy; more makes the suite's own clocks run out.
AT_A_TIME = 3


@dataclass(frozen=True)
class Settings:
    """What this run is about."""

    binary: Path
    examples: Path
    peers: Peers
    out: Path
    scenarios: tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """One line of the table: a leg under one set of requirements."""

    leg: str
    revision: str
    direct: Score
    gateway: Score
    found: list[Difference]

    def settled(self, one: Difference) -> str | None:
        """Why `one` is as it should be, if it is."""
        return reason(self.leg, self.revision, one)

    def counting(self) -> list[Difference]:
        """What must be looked at."""
        return [one for one in self.found if one.counts and not self.settled(one)]


# Servers -----------------------------------------------------------------------------------------


def fixture(leg: str) -> str:
    """What stands behind the gateway in a leg: a transport of the everything server, `tasks` or `skills`."""
    return leg.partition("+")[0]


def direct_fixture(leg: str) -> str:
    """What the direct run of a leg is made against. The everything server is tested over HTTP, whatever the leg."""
    return fixture(leg) if leg in (*TASKS_LEGS, *SKILLS_LEGS) else "http"


def upstream(settings: Settings, kind: str, folder: Path, stack: ExitStack) -> dict[str, Any]:
    """The entry of a server in a registry, and the server itself where it has a port."""
    if kind == "tasks":
        peer = stack.enter_context(start_tasks_peer(settings.examples, folder / "server.log"))
        return {"url": f"http://127.0.0.1:{peer.first_line()}/mcp"}
    if kind == "skills":
        port = free_port()
        stack.enter_context(start_skills_peer(port, folder / "server.log", settings.peers))
        return {"url": f"http://127.0.0.1:{port}/mcp"}
    if kind == "stdio":
        program, *arguments = everything(settings.peers, kind, 0)
        return {"command": program, "args": arguments}
    port = free_port()
    command = everything(settings.peers, kind, port)
    stack.enter_context(start_listening("everything", command, port, folder / "server.log", settings.peers))
    path = {"http": "mcp", "sse": "sse"}[kind]
    return {"url": f"http://127.0.0.1:{port}/{path}", "transport": kind}


def noise(settings: Settings, folder: Path) -> dict[str, Any]:
    """Two servers whose names, resources and prompts must not be seen in the results."""
    environment = {"PATH": settings.peers.env()["PATH"]}
    memory = {**environment, "MEMORY_FILE_PATH": str(folder / "memory.jsonl")}
    return {
        "other": {"command": settings.peers.program("mcp-server-everything"), "args": ["stdio"], "env": environment},
        "memory": {"command": settings.peers.program("mcp-server-memory"), "env": memory},
    }


@contextmanager
def direct_server(settings: Settings, kind: str, folder: Path) -> Iterator[str]:
    """A fixture alone; its URL. The everything server is tested over HTTP, whatever the leg."""
    with ExitStack() as stack:
        entry = upstream(settings, kind, folder, stack)
        yield entry["url"].replace("127.0.0.1", "localhost")


@contextmanager
def gateway_server(settings: Settings, leg: str, folder: Path) -> Iterator[str]:
    """A fixture behind the gateway; the URL under test.

    A server over HTTP+SSE speaks the legacy era only, so at its own endpoint the modern set has no discovery.
    """
    with ExitStack() as stack:
        folder.mkdir(parents=True, exist_ok=True)
        servers = {"peer": upstream(settings, fixture(leg), folder, stack)}
        if leg.endswith("+noise"):
            servers |= noise(settings, folder)
        gateway = stack.enter_context(Gateway(settings.binary, servers, folder / "gateway.log"))
        is_merged = len(servers) > 1 or fixture(leg) == "sse"
        yield gateway.url if is_merged else f"{gateway.url}/peer"


def server_scenarios(settings: Settings, leg: str, revision: str) -> tuple[list[str], list[str]]:
    """The scenarios that are the score of a leg, and those that only run. Tasks and skills have legs of their own."""
    wanted = settings.scenarios
    if leg in SKILLS_LEGS:
        names = suite.of_skills(settings.peers) if revision == SKILLS_SET else []
        return [name for name in names if not wanted or name in wanted], []
    scored, unscored = suite.required(settings.peers, "server", revision)
    tasks = [name for name in unscored if name.startswith("tasks-")]
    both = (tasks, []) if leg in TASKS_LEGS else (scored, [name for name in unscored if name not in tasks])
    scored, unscored = ([name for name in names if not wanted or name in wanted] for names in both)
    return scored, unscored


def test_server(
    settings: Settings, leg: str, server: AbstractContextManager[str], revisions: Sequence[str], folder: Path
) -> dict[str, Run]:
    """Starts a server and runs the sets against it, one after the other. If it does not start, nothing passes."""
    try:
        with server as url:
            return {revision: test_set(settings, leg, url, revision, folder / revision) for revision in revisions}
    except Failed as error:
        print(f"conformance: {leg}: {error}", file=sys.stderr)
        return {revision: {} for revision in revisions}


def test_leg(settings: Settings, leg: str, revisions: Sequence[str]) -> dict[str, Run]:
    """The sets against the gateway."""
    folder = settings.out / leg
    return test_server(settings, leg, gateway_server(settings, leg, folder), revisions, folder)


def test_set(settings: Settings, leg: str, url: str, revision: str, folder: Path) -> Run:
    """One set in one run of the suite, or scenario by scenario where only some of it are wanted."""
    scored, unscored = server_scenarios(settings, leg, revision)
    is_whole = not settings.scenarios and leg not in (*TASKS_LEGS, *SKILLS_LEGS)
    some = [] if is_whole else [*scored, *unscored]
    if not is_whole and not some:
        return {}
    run = suite.test_server(settings.peers, url, revision, folder, some)
    return {name: checks for name, checks in run.items() if name in scored or name in unscored}


# Clients -----------------------------------------------------------------------------------------


def client_scenarios(settings: Settings, revision: str) -> list[str]:
    """All of a set, scored or not."""
    scored, unscored = suite.required(settings.peers, "client", revision)
    return [name for name in [*scored, *unscored] if not settings.scenarios or name in settings.scenarios]


def test_client(settings: Settings, through_gateway: bool, revision: str, scenario: str) -> list[Check]:
    """One scenario with the SDK's client, direct or through a gateway. Through a gateway, the gateway logs in."""
    which = "gateway" if through_gateway else "direct"
    folder = settings.out / CLIENT_LEG / which / revision / scenario
    folder.mkdir(parents=True, exist_ok=True)
    command = f"{settings.peers.program('peer-python')} {settings.peers.client}"
    if through_gateway:
        program = "login_client.py" if scenario.startswith("auth/") else "client.py"
        command = f"{sys.executable} {HERE / program}"
    env = {
        "SWITCHYARD_BINARY": str(settings.binary),
        "SWITCHYARD_PEERS": str(settings.peers.bin.parent),
        "SWITCHYARD_LOGS": str(folder),
    }
    run = suite.test_client(settings.peers, command, revision, folder, scenario, env)
    return list(run.get(scenario, ()))


# The whole ---------------------------------------------------------------------------------------


def compare(settings: Settings, leg: str, revision: str, scored: Sequence[str], direct: Run, gateway: Run) -> Row:
    """The line of one leg and set. A direct run without results is an error of the harness."""
    if not any(direct.values()):
        raise Failed(f"the direct run of {leg} {revision} had no result, see {settings.out}")
    return Row(leg, revision, score(direct, scored), score(gateway, scored), differences(direct, gateway))


def run_servers(settings: Settings, legs: Sequence[str], revisions: Sequence[str], pool: Executor) -> list[Row]:
    """The direct runs and all legs beside each other; within a leg the sets run one by one."""
    sets = {leg: [one for one in revisions if any(server_scenarios(settings, leg, one))] for leg in legs}
    direct = {leg: direct_fixture(leg) for leg in legs}
    servers = {kind: direct_server(settings, kind, settings.out / f"direct-{kind}") for kind in set(direct.values())}
    bases = {
        kind: pool.submit(test_server, settings, kind, server, revisions, settings.out / f"direct-{kind}")
        for kind, server in servers.items()
    }
    jobs = {leg: pool.submit(test_leg, settings, leg, sets[leg]) for leg in legs if sets[leg]}
    return [
        compare(
            settings,
            leg,
            revision,
            server_scenarios(settings, leg, revision)[0],
            bases[direct[leg]].result()[revision],
            job.result()[revision],
        )
        for leg, job in jobs.items()
        for revision in sets[leg]
    ]


def run_clients(settings: Settings, revisions: Sequence[str], pool: Executor) -> list[Row]:
    """Every scenario of its own, direct and through a gateway."""
    jobs = {
        (revision, through, scenario): pool.submit(test_client, settings, through, revision, scenario)
        for revision in revisions
        for scenario in client_scenarios(settings, revision)
        for through in (False, True)
    }
    rows = []
    for revision in revisions:
        direct, gateway = (
            {name: job.result() for (of, through, name), job in jobs.items() if (of, through) == (revision, side)}
            for side in (False, True)
        )
        if direct:
            scored = [name for name in suite.required(settings.peers, "client", revision)[0] if name in direct]
            rows.append(compare(settings, CLIENT_LEG, revision, scored, direct, gateway))
    return rows


def report(rows: Sequence[Row], unneeded: Sequence[Settled], settings: Settings) -> None:
    """The table, then each difference."""
    print(f"\n{'leg':<12} {'set':<11} {'direct':<16} {'gateway':<16} {'differences':<12} settled or failing direct too")
    for row in rows:
        count = len(row.counting())
        print(
            f"{row.leg:<12} {row.revision:<11} {row.direct!s:<16} {row.gateway!s:<16}"
            f" {count:<12} {len(row.found) - count}"
        )
    for row in rows:
        for number, one in enumerate(row.found):
            if number == 0:
                print(f"\n{row.leg} {row.revision}:")
            print(f"  {one}" + (f"\n      SETTLED: {why}" if (why := row.settled(one)) else ""))
    for entry in unneeded:
        print(f"\nsettled.py: no difference needs this any more, remove it: {entry}")
    if failing := next(((row, one) for row in rows for one in row.counting()), None):
        row, one = failing
        print(f"\none again: tests/conformance/run.py --binary … --leg {row.leg} --set {row.revision} --scenario {one.scenario}")
    print(f"\nresults and logs: {settings.out}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--leg", action="append", choices=LEGS, help="only this one; may be repeated")
    parser.add_argument("--set", action="append", choices=suite.SETS, help="only this revision; may be repeated")
    parser.add_argument("--scenario", action="append", default=[], help="only this one; may be repeated")
    parser.add_argument("--binary", type=Path, required=True, help="the gateway")
    parser.add_argument("--examples", type=Path, help="where our own peers are; default: beside the gateway")
    parser.add_argument(
        "--peers", type=Path, default=os.environ.get("SWITCHYARD_PEERS"), help="what scripts/peers prints"
    )
    parser.add_argument("--out", type=Path, help="a folder for results and logs; default: a new one")
    return parser.parse_args()


def main() -> int:
    asked = arguments()
    began = time.monotonic()
    try:
        if not asked.peers:
            raise Failed("SWITCHYARD_PEERS is not set: set it to what `scripts/peers` prints")
        binary = asked.binary
        out = (asked.out or Path(tempfile.mkdtemp(prefix="conformance-"))).resolve()
        examples = (asked.examples or binary.parent / "examples").resolve()
        peers = Peers(Path(asked.peers).resolve())
        settings = Settings(binary.resolve(), examples, peers, out, tuple(asked.scenario))
        legs = asked.leg or list(LEGS)
        with ThreadPoolExecutor(AT_A_TIME) as pool:
            servers = [leg for leg in legs if leg != CLIENT_LEG]
            rows = run_servers(settings, servers, asked.set or suite.SETS, pool) if servers else []
            rows += run_clients(settings, asked.set or suite.SETS, pool) if CLIENT_LEG in legs else []
    except Failed as error:
        print(f"conformance: {error}", file=sys.stderr)
        return 1
    # Of a single scenario it can not be told which entries nobody needs.
    found = [(row.leg, row.revision, one) for row in rows for one in row.found]
    unneeded = [] if asked.scenario else stale(found, [(row.leg, row.revision) for row in rows])
    report(rows, unneeded, settings)
    print(f"{time.monotonic() - began:.0f} s")
    return 1 if not rows or unneeded or any(row.counting() for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
