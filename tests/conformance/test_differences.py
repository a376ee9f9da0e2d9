"""The comparison itself: `python3 -m unittest discover tests/conformance`."""

from __future__ import annotations

import unittest
from typing import Any

from differences import Run, differences, passes, score
from settled import SETTLED, reason, stale


def check(name: str, status: str, message: str | None = None) -> dict[str, Any]:
    return {"id": name, "status": status, "errorMessage": message}


class Differences(unittest.TestCase):
    def test_equal_runs_do_not_differ(self) -> None:
        run = {"ping": [check("a", "SUCCESS"), check("a", "SUCCESS"), check("log", "INFO")]}
        other = {"ping": [check("log", "INFO"), check("log", "INFO"), *run["ping"]]}
        self.assertEqual(differences(run, other), [])

    def test_a_failure_where_the_direct_run_passed_counts(self) -> None:
        found = differences({"ping": [check("a", "SUCCESS")]}, {"ping": [check("a", "FAILURE", "no\n answer")]})
        self.assertEqual([(one.check, one.message, one.counts) for one in found], [("a", "no answer", True)])

    def test_one_of_several_verdicts_for_an_id_is_enough(self) -> None:
        found = differences(
            {"h": [check("a", "SUCCESS"), check("a", "SUCCESS")]}, {"h": [check("a", "SUCCESS"), check("a", "FAILURE")]}
        )
        self.assertEqual([(one.direct, one.gateway) for one in found], [("2×SUCCESS", "1×FAILURE 1×SUCCESS")])

    def test_what_was_not_checked_counts_as_a_difference(self) -> None:
        others: list[Run] = [{}, {"ping": []}, {"ping": [check("a", "SKIPPED")]}]
        for missing in others:
            self.assertTrue(differences({"ping": [check("a", "SUCCESS")]}, missing)[0].counts, missing)

    def test_a_new_failing_check_counts(self) -> None:
        found = differences({"p": [check("a", "SUCCESS")]}, {"p": [check("a", "SUCCESS"), check("wire", "FAILURE")]})
        self.assertEqual([(one.check, one.direct, one.counts) for one in found], [("wire", "nothing", True)])

    def test_each_request_of_an_authorization_is_checked_but_not_counted(self) -> None:
        direct = {"auth/x": [check("token-request", "SUCCESS"), check("token-request", "SUCCESS")]}
        self.assertEqual(differences(direct, {"auth/x": [check("token-request", "SUCCESS")]}), [])
        worse = {"auth/x": [check("token-request", "SUCCESS"), check("token-request", "FAILURE")]}
        self.assertTrue(differences(direct, worse)[0].counts)
        self.assertTrue(differences(direct, {"auth/x": [check("token-request", "WARNING")]})[0].counts)

    def test_a_check_that_fails_direct_does_not_count(self) -> None:
        direct = {"tasks": [check("a", "FAILURE"), check("b", "FAILURE")]}
        found = differences(direct, {"tasks": [check("a", "SUCCESS")]})
        self.assertEqual([one.counts for one in found], [False, False])


class Scores(unittest.TestCase):
    def test_a_scored_scenario_that_did_not_run_has_failed(self) -> None:
        run = {"ping": [check("a", "SUCCESS")], "extra": [check("b", "FAILURE")]}
        self.assertEqual(str(score(run, ["ping", "gone"])), "1/2 (1/1)")

    def test_nothing_checked_is_not_passed(self) -> None:
        self.assertFalse(passes([]))
        self.assertFalse(passes([check("a", "SUCCESS"), check("b", "FAILURE")]))
        self.assertTrue(passes([check("a", "SUCCESS"), check("b", "SKIPPED"), check("c", "INFO")]))


class SettledOnes(unittest.TestCase):
    def test_an_entry_excuses_its_own_check_and_goes_stale_without_it(self) -> None:
        entry = SETTLED[0]
        name = entry.checks[0]
        found = differences({entry.scenario: [check(name, "SUCCESS")]}, {entry.scenario: [check(name, "FAILURE")]})
        self.assertEqual(reason("sse+noise", entry.revision, found[0]), entry.reason)
        self.assertIsNone(reason("http", entry.revision, found[0]))
        self.assertIsNone(reason("sse", "2025-11-25", found[0]))
        needed = [("sse", entry.revision, found[0])]
        self.assertNotIn(entry, stale(needed, [("sse", entry.revision)]))
        self.assertIn(entry, stale([], [("sse", entry.revision)]))
        self.assertEqual(stale([], [("http", "2025-11-25")]), [])


if __name__ == "__main__":
    unittest.main()
