"""Rates of `attack_signs`, which looks for words: on the texts its words were made with, and on others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evaluators.attacks.attack_detection import detect_attack

HERE = Path(__file__).parent / "attacks"
ATTACKS, CLEAN = ([*json.loads((HERE / f"{name}.json").read_text())] for name in ("attacks", "clean"))


def marked(cases: list[dict[str, Any]], *, held_out: bool) -> tuple[int, int]:
    """How many of one part of the cases have signs, and how many there are."""
    part = [each for each in cases if each["held_out"] == held_out]
    return sum(bool(detect_attack(each["text"], by_user=each["by"] == "user")) for each in part), len(part)


def test_words_find_the_attacks_that_they_were_made_with() -> None:
    (found, attacks), (flagged, others) = marked(ATTACKS, held_out=False), marked(CLEAN, held_out=False)
    assert (attacks, others) == (35, 40)
    assert (found, flagged) == (35, 0)


def test_words_do_not_find_what_sounds_different() -> None:
    """The documentation says so: it is why there is a kind that asks a judge."""
    (found, attacks), (flagged, others) = marked(ATTACKS, held_out=True), marked(CLEAN, held_out=True)
    assert (attacks, others) == (57, 60)
    assert 14 <= found < attacks / 2
    assert flagged <= 3


@pytest.mark.parametrize("by", ["user", "passage"])
def test_an_attack_in_the_middle_of_words_is_found_too(by: str) -> None:
    around = "The train leaves at nine, and a seat can be reserved at the counter. " * 100
    texts = [each["text"] for each in ATTACKS if each["by"] == by and not each["held_out"]]
    missed = [text for text in texts if not detect_attack(f"{around}\n{text}\n{around}", by_user=by == "user")]
    assert len(missed) <= 1, missed
