"""Which configuration counts at an offset, and which ones counted before."""

from __future__ import annotations

from typing import Any, cast

from collector.evaluate.recovery.configurations import Configurations

NO_PLAN = cast("Any", None)


def test_the_number_at_an_offset_and_those_before_it() -> None:
    taken = Configurations([(0, 1), (10, 2), (20, 3), (30, 2)], NO_PLAN)
    assert [taken.number_at(offset) for offset in (0, 9, 10, 35)] == [1, 1, 2, 2]
    assert [taken.past_at(offset) for offset in (5, 15, 25, 35)] == [(), (1,), (1, 2), (1, 2, 3)]
    assert taken.past_at(5, resumed=[7]) == (7,)


def test_no_more_than_eight_of_the_past_are_remembered() -> None:
    taken = Configurations([(offset, offset + 1) for offset in range(12)], NO_PLAN)
    assert taken.past_at(20) == tuple(range(4, 12))
