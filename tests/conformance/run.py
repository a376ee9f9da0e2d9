#!/usr/bin/env python3
"""The official conformance suite against a server and against Switchyard in front of it: the difference.

See README.md beside this file. Exit code: 0 no difference that counts, 1 there is one or a run had no
result, 2 wrong arguments.
"""

import argparse
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
from differences import Difference, reason, stale  # noqa: E402
from programs import Failed, Gateway, Peers, Program, free_port, start_listening  # noqa: E402
from settled import SETTLED  # noqa: E402
from verdicts import Check, Run, compared, message, score  # noqa: E402

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
OTHER_TRANSPORTS = "from mcp_everything_server.server import mcp; mcp.run({})"
#: Enough to keep two cores busy; more makes the suite's own clocks run out.
AT_A_TIME = 3


@dataclass(frozen=True)
class Settings:
    """What this run is about."""

    binary: Path
    examples: Path
    peers: Peers
    out: Path


@dataclass(frozen=True)
class Row:
    """One line of the table: a leg under one set of requirements."""

    pair: str
    direct: str
    through: str
    found: list[tuple[Difference, bool]]
    gateway: Run

    def reason(self, one: Difference) -> str | None:
        """Why `one` is as it should be, if it is."""
        return reason(self.pair, one, SETTLED)

    def counting(self) -> list[Difference]:
        """What must be looked at."""
        return [one for one, counts in self.found if counts and not self.reason(one)]


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
        # It chooses its port itself.
        peer = stack.enter_context(Program("tasks_peer", [str(settings.examples / "tasks_peer")], folder / "server.log"))
        return {"url": f"http://127.0.0.1:{peer.first_line()}/mcp"}
    port, python = free_port(), settings.peers.program("peer-python")
    command = {
        "skills": [python, str(HERE / "skills_peer.py"), str(port)],
        "http": [settings.peers.program("mcp-everything-server"), "--port", str(port)],
        # The server's own command has Streamable HTTP only.
        "sse": [python, "-c", OTHER_TRANSPORTS.format(f"'sse', port={port}")],
        "stdio": [python, "-c", OTHER_TRANSPORTS.format("'stdio'")],
    }[kind]
    if kind == "stdio":
        return {"command": command[0], "args": command[1:]}
    stack.enter_context(start_listening(kind, command, port, folder / "server.log", settings.peers.env()))
    if kind == "sse":
        return {"url": f"http://127.0.0.1:{port}/sse", "transport": "sse"}
    return {"url": f"http://127.0.0.1:{port}/mcp"}


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
    if leg in SKILLS_LEGS:
        return (suite.of_skills(settings.peers) if revision == SKILLS_SET else []), []
    scored, unscored = suite.required(settings.peers, "server", revision)
    tasks = [name for name in unscored if name.startswith("tasks-")]
    return (tasks, []) if leg in TASKS_LEGS else (scored, [name for name in unscored if name not in tasks])


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
    """One set in one run of the suite, or scenario by scenario where it is a part of a set."""
    scored, unscored = server_scenarios(settings, leg, revision)
    if not scored:
        return {}
    some = scored if leg in (*TASKS_LEGS, *SKILLS_LEGS) else []
    run = suite.test_server(settings.peers, url, revision, folder, some)
    return {name: checks for name, checks in run.items() if name in scored or name in unscored}


# Clients -----------------------------------------------------------------------------------------


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
    return Row(f"{leg}/{revision}", score(direct, scored), score(gateway, scored), compared(direct, gateway), gateway)


def run_servers(settings: Settings, legs: Sequence[str], pool: Executor) -> list[Row]:
    """The direct runs and all legs beside each other; within a leg the sets run one by one."""
    sets = {leg: [one for one in suite.SETS if any(server_scenarios(settings, leg, one))] for leg in legs}
    bases = {
        kind: pool.submit(test_server, settings, kind, direct_server(settings, kind, folder), suite.SETS, folder)
        for kind in {direct_fixture(leg) for leg in legs}
        if (folder := settings.out / f"direct-{kind}")
    }
    jobs = {leg: pool.submit(test_leg, settings, leg, sets[leg]) for leg in legs}
    rows = []
    for leg, job in jobs.items():
        for revision in sets[leg]:
            scored = server_scenarios(settings, leg, revision)[0]
            direct = bases[direct_fixture(leg)].result()[revision]
            rows.append(compare(settings, leg, revision, scored, direct, job.result()[revision]))
    return rows


def run_clients(settings: Settings, pool: Executor) -> list[Row]:
    """Every scenario of its own, direct and through a gateway."""
    required = {revision: suite.required(settings.peers, "client", revision) for revision in suite.SETS}
    jobs = {
        (revision, through, scenario): pool.submit(test_client, settings, through, revision, scenario)
        for revision, (scored, unscored) in required.items()
        for scenario in [*scored, *unscored]
        for through in (False, True)
    }
    rows = []
    for revision, (scored, _) in required.items():
        direct, gateway = (
            {name: job.result() for (of, through, name), job in jobs.items() if (of, through) == (revision, side)}
            for side in (False, True)
        )
        rows.append(compare(settings, CLIENT_LEG, revision, scored, direct, gateway))
    return rows


def report(rows: Sequence[Row], unneeded: Sequence[object], out: Path) -> None:
    """The table, then each difference."""
    print(f"\n{'leg/set':<23} {'direct':<16} {'gateway':<16} {'differences':<12} settled or failing direct too")
    for row in rows:
        count = len(row.counting())
        print(f"{row.pair:<23} {row.direct:<16} {row.through:<16} {count:<12} {len(row.found) - count}")
    for row in rows:
        for one, counts in row.found:
            more = f"\n      {message(row.gateway, one)}" if counts else " (does not count)"
            print(f"\n{row.pair}: {one}{more}" + (f"\n      SETTLED: {why}" if (why := row.reason(one)) else ""))
    for entry in unneeded:
        print(f"\nsettled.py: no difference needs this any more, remove it: {entry}")
    print(f"\nresults and logs: {out}")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--leg", action="append", choices=LEGS, help="only this one; may be repeated")
    parser.add_argument("--binary", type=Path, required=True, help="the gateway")
    parser.add_argument("--examples", type=Path, required=True, help="where our own peer with tasks is")
    asked = parser.parse_args()
    began, legs = time.monotonic(), asked.leg or list(LEGS)
    try:
        out = Path(tempfile.mkdtemp(prefix="conformance-"))
        settings = Settings(asked.binary.resolve(), asked.examples.resolve(), Peers.of_environment(), out)
        with ThreadPoolExecutor(AT_A_TIME) as pool:
            rows = run_servers(settings, [leg for leg in legs if leg != CLIENT_LEG], pool)
            rows += run_clients(settings, pool) if CLIENT_LEG in legs else []
    except Failed as error:
        print(f"conformance: {error}", file=sys.stderr)
        return 1
    found = [(row.pair, one) for row in rows for one, _ in row.found]
    unneeded = stale(found, [row.pair for row in rows], SETTLED)
    report(rows, unneeded, out)
    print(f"{time.monotonic() - began:.0f} s")
    return 1 if not rows or unneeded or any(row.counting() for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
