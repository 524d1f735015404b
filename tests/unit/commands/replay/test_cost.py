"""What `compare evaluators` says of the cost of both sides."""

from __future__ import annotations

from dataclasses import replace

import pytest
from evaluation_samples import scored

from collector.commands.replay.replay import compared_evaluators
from collector.wording import cost_text
from evaluators.results import Usage


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


def test_a_cost_that_is_not_known_of_all_is_said_to_be_a_part() -> None:
    """24 of 72 were made before their judge had a price: their cost looked like that of all."""
    pairs = [(scored(n, cost_usd=0.003 if n % 3 else None), scored(n, cost_usd=0.006)) for n in range(30)]
    old, new = compared_evaluators(pairs)
    assert (old.unpriced, new.unpriced) == (10, 0)
    shown = ["at least 0.060 USD", "0.18 USD"]
    assert [cost_text(side.cost_usd, side.unpriced) for side in (old, new)] == shown
    nothing, _ = compared_evaluators([(replace(pair[0], cost_usd=None), pair[1]) for pair in pairs])
    assert cost_text(nothing.cost_usd, nothing.unpriced) == "–"
    code = {"judge": None, "usage": None, "cost_usd": None}
    free, _ = compared_evaluators([(replace(pair[0], **code), pair[1]) for pair in pairs])
    assert (free.unpriced, free.cost_usd) == (0, None)
    shed, _ = compared_evaluators([(replace(pair[0], usage=Usage(), cost_usd=None), pair[1]) for pair in pairs])
    assert shed.unpriced == 0, "no request was made, as while a circuit breaker is open"
