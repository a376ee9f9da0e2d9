"""What `budget.py` makes of a profile, and of a difference."""
import contextlib, io, unittest

import budget

PROFILE = """events: Ir
fn=(1) main
+3 10
cfn=(2) switchyard_mcp_gateway::work
calls=2 +5
+1 60
fn=(2)
* 40
cfn=(3) switchyard_mcp_gateway::work'2
calls=1 +9
* 20
fn=(3)
+4 20

totals: 70
"""


class Budget(unittest.TestCase):
    def test_a_profile_is_summed_by_function_whatever_the_depth_of_recursion(self):
        own, inclusive = budget.parse(PROFILE)
        self.assertEqual(own, {"main": 10, "switchyard_mcp_gateway::work": 60})
        self.assertEqual(inclusive, {"main": 70, "switchyard_mcp_gateway::work": 60})

    def test_functions_of_the_crates_of_the_workspace_are_ours(self):
        _, ours = budget.table(*budget.parse(PROFILE), 5).split("ours, ")
        self.assertIn("switchyard_mcp_gateway::work", ours)
        self.assertNotIn("main", ours)

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


if __name__ == "__main__":
    unittest.main()
