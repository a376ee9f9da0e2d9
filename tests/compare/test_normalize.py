"""What is replaced before the comparison, and the names of the steps: `python3 -m unittest discover tests/compare`."""

import unittest

from actions import everything, filesystem, state
from normalize import normalized, notices


class Normalized(unittest.TestCase):
    def test_what_belongs_to_a_run_is_replaced(self) -> None:
        text = "/run/files/one at 127.0.0.1:40123, 2026-11-23T10:00:00.123Z, 6dfc4bd4-7bb3-4de2-a5d8-7d5b0b6b4f7e"
        self.assertEqual(normalized(text, "/run/files"), "<folder>/one at <address>, <time>, <uuid>")

    def test_other_text_stays(self) -> None:
        text = "2 of 10 steps, version 1.2.3, UmVzdWx0"
        self.assertEqual(normalized({"a": [text]}, "/run"), {"a": [text]})

    def test_a_simulated_line_loses_its_level_only(self) -> None:
        line = {"level": "alert", "data": "Alert level-message - SessionId x"}
        self.assertEqual(normalized(line, "/run"), {"level": "<drawn>", "data": "<drawn> message - SessionId x"})
        self.assertEqual(normalized({"level": "alert", "data": "fire"}, "/run"), {"level": "alert", "data": "fire"})

    def test_only_the_last_notice_of_progress_is_left_out(self) -> None:
        told = {"progress": [{"progress": 1, "total": 2}, {"progress": 2, "total": 2}]}
        self.assertEqual(normalized(told, "/run"), {"progress": [{"progress": 1, "total": 2}]})

    def test_notices_lose_number_and_order(self) -> None:
        self.assertEqual(notices([{"b": 1}, {"a": 1}, {"b": 1}]), [{"a": 1}, {"b": 1}])


class Steps(unittest.TestCase):
    def test_every_item_has_a_name_of_its_own(self) -> None:
        for steps in (everything(), filesystem("/run"), state()):
            names = [step["item"] for step in steps if "item" in step]
            self.assertEqual(len(names), len(set(names)))
