"""What counts as a difference: `python3 -m unittest discover tests/conformance`."""

import sys
import unittest
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent.parent / "lab"))

from verdicts import compared, message, passes, score  # noqa: E402


def check(name: str, status: str, text: str | None = None) -> dict[str, Any]:
    return {"id": name, "status": status, "errorMessage": text}


def counts(direct: Any, gateway: Any) -> list[bool]:
    return [does for _, does in compared(direct, gateway)]


class Differences(unittest.TestCase):
    def test_equal_runs_do_not_differ(self) -> None:
        run = {"ping": [check("a", "SUCCESS"), check("a", "SUCCESS"), check("log", "INFO")]}
        other = {"ping": [check("log", "INFO"), check("log", "INFO"), *run["ping"]]}
        self.assertEqual(compared(run, other), [])

    def test_a_failure_where_the_direct_run_passed_counts(self) -> None:
        gateway = {"ping": [check("a", "FAILURE", "no\n answer")]}
        [(one, does)] = compared({"ping": [check("a", "SUCCESS")]}, gateway)
        self.assertEqual((one.path, does, message(gateway, one)), ("a", True, "no answer"))

    def test_one_of_several_verdicts_for_an_id_is_enough(self) -> None:
        direct = {"h": [check("a", "SUCCESS"), check("a", "SUCCESS")]}
        [(one, does)] = compared(direct, {"h": [check("a", "SUCCESS"), check("a", "FAILURE")]})
        self.assertEqual((one.direct, one.through, does), ('"2×SUCCESS"', '"1×FAILURE 1×SUCCESS"', True))

    def test_what_was_not_checked_counts_as_a_difference(self) -> None:
        for missing in ({}, {"ping": []}, {"ping": [check("a", "SKIPPED")]}):
            self.assertEqual(counts({"ping": [check("a", "SUCCESS")]}, missing), [True], missing)

    def test_a_new_failing_check_counts(self) -> None:
        direct = {"p": [check("a", "SUCCESS")]}
        self.assertEqual(counts(direct, {"p": [check("a", "SUCCESS"), check("wire", "FAILURE")]}), [True])

    def test_each_request_of_an_authorization_is_checked_but_not_counted(self) -> None:
        direct = {"auth/x": [check("token-request", "SUCCESS"), check("token-request", "SUCCESS")]}
        self.assertEqual(counts(direct, {"auth/x": [check("token-request", "SUCCESS")]}), [])
        for worse in ([check("token-request", "SUCCESS"), check("token-request", "FAILURE")], [check("token-request", "WARNING")]):
            self.assertEqual(counts(direct, {"auth/x": worse}), [True])

    def test_a_check_that_fails_direct_does_not_count(self) -> None:
        direct = {"tasks": [check("a", "FAILURE"), check("b", "FAILURE")]}
        self.assertEqual(counts(direct, {"tasks": [check("a", "SUCCESS")]}), [False, False])


class Scores(unittest.TestCase):
    def test_a_scored_scenario_that_did_not_run_has_failed(self) -> None:
        run = {"ping": [check("a", "SUCCESS")], "extra": [check("b", "FAILURE")]}
        self.assertEqual(score(run, ["ping", "gone"]), "1/2 (1/1)")

    def test_nothing_checked_is_not_passed(self) -> None:
        self.assertFalse(passes([]))
        self.assertFalse(passes([check("a", "SUCCESS"), check("b", "FAILURE")]))
        self.assertTrue(passes([check("a", "SUCCESS"), check("b", "SKIPPED"), check("c", "INFO")]))
