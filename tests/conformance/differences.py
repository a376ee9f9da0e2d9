"""What differs between two runs of the conformance suite: pure, no files and no processes.

A run is a mapping from scenario to its checks as the suite writes them into `checks.json`. One check id
may stand there several times, so what is compared is how often each verdict was given for an id. `INFO`
entries are a log of the suite, not verdicts. Scenarios of authorization have a check for each request that arrives, and a
gateway may make other requests than the SDK, so only the kinds of verdicts count there.

A difference *counts* when the direct run gave the check its blessing and the run through the gateway did
not. Any other one (a check that fails in another way, or passes only through the gateway) is told, and
does not count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Check = Mapping[str, Any]
Run = Mapping[str, Sequence[Check]]

#: Verdicts that leave a scenario passed.
GOOD = frozenset({"SUCCESS", "SKIPPED", "WARNING"})


@dataclass(frozen=True)
class Difference:
    """One check id with other verdicts than the direct run gave."""

    scenario: str
    check: str
    direct: str
    gateway: str
    message: str
    counts: bool

    def __str__(self) -> str:
        mark = "" if self.counts else " (does not count)"
        return (
            f"{self.scenario} / {self.check}: direct {self.direct}, gateway {self.gateway}{mark}\n      {self.message}"
        )


@dataclass(frozen=True)
class Score:
    """Scenarios and checks that passed, of how many."""

    scenarios: int
    of_scenarios: int
    checks: int
    of_checks: int

    def __str__(self) -> str:
        return f"{self.scenarios}/{self.of_scenarios} ({self.checks}/{self.of_checks})"


def score(run: Run, scored: Sequence[str]) -> Score:
    """The score of `run` over the scenarios that are scored; one that did not run has failed."""
    passed = [name for name in scored if name in run and passes(run[name])]
    verdicts = [check["status"] for name in scored for check in run.get(name, ())]
    good, bad = verdicts.count("SUCCESS"), verdicts.count("FAILURE")
    return Score(len(passed), len(scored), good, good + bad)


def passes(checks: Sequence[Check]) -> bool:
    """As the suite has it: something was checked, and nothing failed."""
    return bool(checks) and all(check["status"] in GOOD for check in verdicts(checks))


def verdicts(checks: Sequence[Check]) -> list[Check]:
    """The checks without the suite's log."""
    return [check for check in checks if check["status"] != "INFO"]


def differences(direct: Run, gateway: Run) -> list[Difference]:
    """Every check id whose verdicts differ, in the order of the direct run."""
    found = []
    for scenario in dict.fromkeys([*direct, *gateway]):
        found += _in_scenario(scenario, direct.get(scenario, ()), gateway.get(scenario, ()))
    return found


def _in_scenario(scenario: str, direct: Sequence[Check], gateway: Sequence[Check]) -> list[Difference]:
    before, after = _by_id(direct), _by_id(gateway)
    found = []
    for check in dict.fromkeys([*before, *after]):
        there, here = (_count(scenario, run.get(check, [])) for run in (before, after))
        if there != here:
            message = _message(after.get(check, []))
            # What passed direct, or was not even looked at there, must not fail here.
            worse = here["FAILURE"] > there["FAILURE"] or here["SUCCESS"] < there["SUCCESS"]
            counts = worse and there["FAILURE"] == 0
            found.append(Difference(scenario, check, _words(there), _words(here), message, counts))
    return found


def _by_id(checks: Sequence[Check]) -> dict[str, list[Check]]:
    found: dict[str, list[Check]] = {}
    for check in verdicts(checks):
        found.setdefault(check["id"], []).append(check)
    return found


def _count(scenario: str, checks: Sequence[Check]) -> Counter[str]:
    given = [check["status"] for check in checks]
    return Counter(set(given) if scenario.startswith("auth/") else given)


def _words(count: Counter[str]) -> str:
    return " ".join(f"{number}×{verdict}" for verdict, number in sorted(count.items())) or "nothing"


def _message(checks: Sequence[Check]) -> str:
    for check in checks:
        if check["status"] != "SUCCESS":
            said = check.get("errorMessage") or check.get("description") or check.get("name") or "no message"
            return " ".join(str(said).split())
    return "the check was not made"
