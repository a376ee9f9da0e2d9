"""The comparison itself: `python3 -m unittest discover tests/lab`."""

import unittest
from typing import Any

from differences import NOTHING, Difference, Settled, differences, reason, stale


def found(direct: Any, through: Any) -> list[tuple[str, str, str]]:
    return [(one.path, one.direct, one.through) for one in differences([("item", direct)], [("item", through)])]


class Differences(unittest.TestCase):
    def test_equal_outcomes_do_not_differ(self) -> None:
        self.assertEqual(found({"result": [1, {"a": None}]}, {"result": [1, {"a": None}]}), [])

    def test_a_difference_names_its_place(self) -> None:
        direct, through = ({"result": {"a": [{"b": number}]}} for number in (1, 2))
        self.assertEqual(found(direct, through), [("result.a[0].b", "1", "2")])

    def test_a_missing_member_and_a_new_one_are_differences(self) -> None:
        self.assertEqual(found({"a": 1}, {"b": None}), [("a", "1", NOTHING), ("b", NOTHING, "null")])

    def test_true_is_not_one(self) -> None:
        self.assertEqual(found({"a": True}, {"a": 1}), [("a", "true", "1")])

    def test_definitions_are_compared_by_name(self) -> None:
        direct = [{"name": "x"}, {"name": "y", "title": "Y"}]
        self.assertEqual(found(direct, [{"name": "y"}]), [("x", '{"name": "x"}', NOTHING), ("y.title", '"Y"', NOTHING)])

    def test_another_order_of_definitions_is_a_difference(self) -> None:
        self.assertEqual(
            found([{"name": "x"}, {"name": "y"}], [{"name": "y"}, {"name": "x"}]),
            [(".order", '["x", "y"]', '["y", "x"]')],
        )

    def test_a_shorter_list_is_a_difference(self) -> None:
        self.assertEqual(found([1, 2], [1]), [(".length", "2", "1")])

    def test_an_item_without_outcome_is_a_difference(self) -> None:
        self.assertEqual([one.item for one in differences([("a", {}), ("b", {})], [("a", {})])], ["b"])

    def test_a_name_of_two_items_is_refused(self) -> None:
        with self.assertRaises(ValueError):
            differences([("a", {}), ("a", {})], [])


class SettledOnes(unittest.TestCase):
    entries = (Settled(("*/new", "s/old"), ("a: list *",), ("result.tools[*].x",), "because"),)

    def difference(self, item: str = "a: list Tools", path: str = "result.tools[3].x") -> Difference:
        return Difference(item, path, "1", "2")

    def test_an_entry_excuses_its_own_place_with_its_own_pairs(self) -> None:
        self.assertEqual(reason("t/new", self.difference(), self.entries), "because")
        self.assertEqual(reason("s/old", self.difference(), self.entries), "because")
        self.assertIsNone(reason("t/old", self.difference(), self.entries))
        self.assertIsNone(reason("t/new", self.difference(item="b: list Tools"), self.entries))
        self.assertIsNone(reason("t/new", self.difference(path="result.tools[3].xy"), self.entries))

    def test_a_pattern_that_no_difference_needs_is_named(self) -> None:
        needed = [("t/new", self.difference())]
        self.assertEqual([pattern for pattern, _ in stale(needed, ["t/new", "s/old"], self.entries)], ["s/old"])
        self.assertEqual(stale(needed, ["t/new"], self.entries), [])
        self.assertEqual([pattern for pattern, _ in stale([], ["t/new"], self.entries)], ["*/new"])

    def test_a_difference_of_timing_may_be_absent(self) -> None:
        entry = Settled(("*",), ("*",), ("*",), "because", racing=True)
        self.assertEqual(stale([], ["t/new"], [entry]), [])

    def test_only_the_expected_value_is_excused(self) -> None:
        entry = Settled(("*",), ("*",), ("*",), "because", ("1", "-3*"))
        self.assertIsNone(reason("t/new", self.difference(), [entry]))
        self.assertEqual(reason("t/new", Difference("i", "p", "1", "-32602"), [entry]), "because")
