"""Which label of a person counts where there are several of one evaluation, in whichever order the log has them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from evaluation_samples import label

from collector.commands.align.reading import _newer

DRAWN = replace(label(), label_probability=0.2, score=1.0)
PICKED = replace(DRAWN, label_probability=None, score=0.0)
DAY = timedelta(days=1)


@pytest.mark.parametrize("later", [DAY, -DAY], ids=["picked later", "drawn later"])
def test_what_was_drawn_counts_before_what_was_picked_whichever_is_read_first(later: timedelta) -> None:
    picked = replace(PICKED, given_at=DRAWN.given_at + later)
    assert _newer(DRAWN, picked) == DRAWN
    assert _newer(picked, DRAWN) == DRAWN


@pytest.mark.parametrize("kind", [DRAWN, PICKED], ids=["drawn", "picked"])
def test_of_one_kind_the_later_one_counts(kind: object) -> None:
    assert kind in (DRAWN, PICKED)
    first = DRAWN if kind is DRAWN else PICKED
    second = replace(first, given_at=first.given_at + DAY)
    assert _newer(first, second) == second
    assert _newer(second, first) == second
