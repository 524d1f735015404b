"""What `compare evaluators` says of the cost of both sides."""

from __future__ import annotations

import pytest
from evaluation_samples import scored

from collector.commands.replay.replay import compared_evaluators


def test_audits_of_the_old_side_are_no_part_of_its_cost() -> None:
    """A new evaluation has none: a judge that costs 20 times as much would seem to cost three times as much."""
    audit = {"audit": {"outcome": "scored", "score": 0.5, "probability": 0.3, "version": "v"}}
    pairs = [
        (
            scored(n, cost_usd=0.0063 if n % 3 == 0 else 0.0003, details=audit if n % 3 == 0 else {}),
            scored(n, cost_usd=0.006),
        )
        for n in range(30)
    ]
    old, new = compared_evaluators(pairs)
    assert (old.cost_usd, new.cost_usd) == (pytest.approx(30 * 0.0003), pytest.approx(30 * 0.006))
    plain, _ = compared_evaluators([pair for pair in pairs if not pair[0].details])
    assert plain.cost_usd == pytest.approx(20 * 0.0003)
