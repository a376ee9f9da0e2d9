"""What `budget.py` makes of a profile, and of a difference."""
import contextlib, io, unittest

import budget


class Budget(unittest.TestCase):
    def test_all_instructions_of_a_profile_count_and_none_is_a_failure(self):
        self.assertEqual(budget.total("events: Ir\nfn=(1) main\n+3 10\n\ntotals: 70\n"), 70)
        for nothing in ("events: Ir\n", "totals: 0\n"):
            self.assertRaises(SystemExit, budget.total, nothing)

    def test_growth_counts_from_beyond_the_tolerance(self):
        words = {now: budget.verdict(1000, now, 5)[0] for now in (949, 950, 1000, 1050, 1051)}
        self.assertEqual(words, {949: "shrunk", 950: "as it was", 1000: "as it was", 1050: "as it was", 1051: "GROWN"})
        self.assertEqual(budget.verdict(None, 7, 5), ("new", 0.0))

    def test_the_report_names_sequence_both_counts_and_the_share(self):
        with contextlib.redirect_stdout(io.StringIO()) as said:
            budget.report("modern", 100_000, 120_000, 5, 40_000)
        for part in ("modern", "120,000", "100,000", "+20.0 %", "GROWN", "3.00 x"):
            self.assertIn(part, said.getvalue())

    def test_a_sequence_that_costs_too_much_more_than_another_is_named(self):
        with contextlib.redirect_stdout(io.StringIO()) as said:
            self.assertEqual(budget.compare({"a": ("b", 3)}, {"a": 103, "b": 100}), [])
            self.assertEqual(budget.compare({"a": ("b", 3)}, {"a": 104, "b": 100}), ["a"])
            self.assertEqual(budget.compare({"a": ("b", 3)}, {"a": 104}), [])
        for part in ("+3.0 %", "+4.0 %", "TOO MUCH", "against b"):
            self.assertIn(part, said.getvalue())

    def test_every_sequence_of_the_program_has_a_budget(self):
        names = (budget.HERE / "sequence.rs").read_text().split("Sequence::new(\"")[1:]
        budgets = budget.json.loads(budget.BUDGET.read_text())
        self.assertEqual([name.split('"')[0] for name in names], list(budgets["instructions_per_call"]))
        self.assertEqual(list(budgets["bare_hop"]), budget.BARE)
