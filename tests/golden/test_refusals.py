"""Rates of `refusal`, which looks for phrases: on the answers its phrases were made with, and on later ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evaluators.judge import NoJudge
from evaluators.testing import a_turn
from evaluators.turn.refusal import Refusal

ANSWERS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "refusals" / "answers.json").read_text())


async def rates(held_out: bool) -> tuple[int, int, int, int]:
    """Refusals found, refusals, answers that are none but flagged, answers that are none."""
    evaluator = Refusal(name="refusal")
    counts = {True: [0, 0], False: [0, 0]}
    for each in (each for each in ANSWERS if each["held_out"] == held_out):
        score = await evaluator.evaluate(a_turn("Please?", each["text"]), NoJudge())
        counts[each["refusal"]][0] += score.value == 1
        counts[each["refusal"]][1] += 1
    return (*counts[True], *counts[False])  # type: ignore[return-value]


async def test_phrases_find_the_refusals_that_they_were_made_with() -> None:
    found, refusals, flagged, others = await rates(held_out=False)
    assert refusals + others >= 100
    assert found >= 0.95 * refusals
    assert flagged <= 0.05 * others


@pytest.mark.parametrize(("least", "most"), [(7, 2)])
async def test_phrases_do_not_find_what_sounds_different(least: int, most: int) -> None:
    """The documentation says so: it is why there is a kind that asks a judge."""
    found, refusals, flagged, others = await rates(held_out=True)
    assert (refusals, others) == (30, 30)
    assert least <= found < refusals / 2
    assert flagged <= most
