"""The conformance suite as a command: what it requires, one run of it, and the checks of that run."""

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from programs import Failed, Peers, output
from verdicts import Check

#: The requirement sets, oldest first; each runs in the wire format of its revision.
SETS = ("2025-11-25", "2026-07-28")

#: `server-tools-list-2026-11-21T19-39-43-391Z`, and `tools_call-…` of a client run.
_RESULTS = re.compile(r"(?:server-)?(?P<scenario>.+)-\d{4}-\d\d-\d\dT[\d-]+Z")

#: Seconds for a whole run; the suite itself gives each scenario half a minute.
_PATIENCE = 300


@cache
def required(peers: Peers, side: str, revision: str) -> tuple[list[str], list[str]]:
    """The scenarios of `side` (`server` or `client`) that `revision` scores, and those that only run."""
    text = _output([peers.program("conformance"), "list", f"--{side}", "--requirements", revision], peers)
    section, _, unscored = text.partition("Run and reported, but never scored")
    scored = section.partition(f"{side.capitalize()} scenarios")[2].partition("scenarios (")[0]
    names = re.findall(r"^  - (\S+)$", scored, re.MULTILINE)
    if not names:
        raise Failed(f"the suite names no {side} scenarios for {revision}:\n{text}")
    return names, re.findall(rf"^    - (\S+) \[{side}\]$", unscored, re.MULTILINE)


@cache
def of_skills(peers: Peers) -> list[str]:
    """The server scenarios of skills (SEP-2640), which are in no set of requirements."""
    text = _output([peers.program("conformance"), "list", "--server"], peers)
    return re.findall(r"^  - (sep-2640-\S+)", text, re.MULTILINE)


def test_server(
    peers: Peers, url: str, revision: str, results: Path, scenarios: Sequence[str] = ()
) -> dict[str, list[Check]]:
    """Runs the whole set of `revision` against a server, or only `scenarios` of it."""
    command = [peers.program("conformance"), "server", "--url", url, "-o", str(results)]
    if not scenarios:
        _run([*command, "--requirements", revision], peers, results)
    for scenario in scenarios:
        _run([*command, "--scenario", scenario, "--spec-version", revision, "--force"], peers, results)
    return read(results)


def test_client(
    peers: Peers, client: str, revision: str, results: Path, scenario: str, env: Mapping[str, str]
) -> dict[str, list[Check]]:
    """Runs one scenario against the client that the command `client` starts."""
    command = [peers.program("conformance"), "client", "--command", client, "-o", str(results)]
    _run([*command, "--scenario", scenario, "--spec-version", revision, "--force"], peers, results, env)
    return read(results)


def read(results: Path) -> dict[str, list[Check]]:
    """The checks of every scenario below a folder of results."""
    found: dict[str, list[Check]] = {}
    for file in sorted(results.glob("**/checks.json")):
        if name := _RESULTS.fullmatch(str(file.parent.relative_to(results))):
            found[name["scenario"]] = json.loads(file.read_text())
    return found


def _run(command: list[str], peers: Peers, results: Path, env: Mapping[str, str] | None = None) -> None:
    """Runs the suite. Its exit code says that something failed, which the checks say better."""
    results.mkdir(parents=True, exist_ok=True)
    text = _output(command, peers, env)
    with (results / "suite.log").open("a") as log:
        log.write(text)


def _output(command: list[str], peers: Peers, env: Mapping[str, str] | None = None) -> str:
    return output(command, _PATIENCE, None, env={**peers.env(), **(env or {})})
