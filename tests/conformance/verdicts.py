"""The verdicts of the conformance suite, and whether a difference between two runs counts: pure, no files and no processes.

A run is a mapping from scenario to its checks as the suite writes them into `checks.json`. One check id may stand there several
times, so what is compared is how often each verdict was given for an id. `INFO` entries are a log of the suite, not verdicts.
Scenarios of authorization have a check for each request that arrives, and a gateway may make other requests than the SDK, so only
the kinds of verdicts count there.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from differences import Difference, differences

Check = Mapping[str, Any]
Run = Mapping[str, Sequence[Check]]

#: Verdicts that leave a scenario passed.
GOOD = frozenset({"SUCCESS", "SKIPPED", "WARNING"})


def score(run: Run, scored: Sequence[str]) -> str:
    """How many of the scenarios that are scored passed, and of their checks. One that did not run has failed."""
    passed = sum(passes(run.get(name, ())) for name in scored)
    verdicts = Counter(check["status"] for name in scored for check in run.get(name, ()))
    good = verdicts["SUCCESS"]
    return f"{passed}/{len(scored)} ({good}/{good + verdicts['FAILURE']})"


def passes(checks: Sequence[Check]) -> bool:
    """As the suite has it: something was checked, and nothing failed."""
    return bool(checks) and all(check["status"] in GOOD | {"INFO"} for check in checks)


def compared(direct: Run, gateway: Run) -> list[tuple[Difference, bool]]:
    """Every check id whose verdicts differ, and whether that counts: what passed direct, or was not even looked at there, must not
    fail through the gateway."""
    runs = [[(scenario, _by_id(scenario, run.get(scenario, ()))) for scenario in dict.fromkeys([*direct, *gateway])] for run in (direct, gateway)]
    before, after = map(dict, runs)
    found = []
    for one in differences(*([(name, {id: _words(count) for id, count in ids.items()}) for name, ids in run] for run in runs)):
        there, here = (run[one.item].get(one.path, Counter()) for run in (before, after))
        is_worse = here["FAILURE"] > there["FAILURE"] or here["SUCCESS"] < there["SUCCESS"]
        found.append((one, is_worse and not there["FAILURE"]))
    return found


def message(run: Run, one: Difference) -> str:
    """What the suite says of the first check that did not succeed."""
    for check in run.get(one.item, ()):
        if check["id"] == one.path and check["status"] not in ("SUCCESS", "INFO"):
            return " ".join(str(check.get("errorMessage") or check.get("description") or check.get("name")).split())
    return "the check was not made"


def _by_id(scenario: str, checks: Sequence[Check]) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = {}
    for check in checks:
        if check["status"] != "INFO":
            found.setdefault(check["id"], Counter())[check["status"]] += 1
    if scenario.startswith("auth/"):
        return {id: Counter(set(count)) for id, count in found.items()}
    return found


def _words(count: Counter[str]) -> str:
    return " ".join(f"{number}×{verdict}" for verdict, number in sorted(count.items()))
