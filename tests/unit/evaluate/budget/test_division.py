"""What partitions have saved of budgets, divided among another number of partitions."""

from __future__ import annotations

from collector.evaluate.budget.division import divide


def test_demands_add_up_over_the_new_partitions() -> None:
    """Of two partitions to four: each has a quarter of the whole; a demand that is not known yet is none."""
    saved = [
        {"windows": {}, "demands": [["all", "helpful", 6.0], ["all", "polite", None]]},
        {"windows": {}, "demands": [["all", "helpful", 2.0], ["all", "polite", 1.0], ["some", "helpful", None]]},
    ]
    assert divide(saved, 4)["demands"] == [["all", "helpful", 2.0], ["all", "polite", 0.25]]
