"""Labels of the log: which one of a person counts."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from evaluation_samples import START

from collector.logs.log import TICK, Record
from collector.logs.memory import MemoryLog
from collector.past.turns import labels_in, newest_labels
from collector.records.json import label_to_json
from evaluators.results import Label, Subject

DRAWN = Label(
    label_id="drawn",
    evaluation_id="e1",
    evaluator="helpful",
    evaluator_version="v",
    scope="turn",
    monitor="all",
    subject=Subject(conversation_id="c1", turn_id="t1"),
    given_by="ann",
    given_at=START,
    score=0.0,
    label_probability=0.5,
)


def later(label_id: str, **changes: Any) -> Label:
    return replace(DRAWN, label_id=label_id, given_at=START + timedelta(hours=1), **changes)


async def log_of(*labels: Label) -> MemoryLog:
    log = MemoryLog("labels", partitions=2)
    records = [Record(None, label_to_json(label), partition=number % 2) for number, label in enumerate(labels)]
    await log.append([Record(None, b"", TICK, 0), *records, Record(None, b"{}", partition=1)])
    return log


async def newest(*labels: Label, evaluator: str | None = None) -> list[str]:
    return sorted(label.label_id for label in await newest_labels(await log_of(*labels), evaluator))


async def test_all_partitions_are_read_without_what_is_no_label() -> None:
    log = await log_of(DRAWN, later("second"))
    assert [label.label_id async for label in labels_in(log)] == ["drawn", "second"]


@pytest.mark.parametrize("probability", [0.5, None], ids=["drawn", "picked"])
async def test_of_one_kind_the_later_label_of_a_person_counts(probability: float | None) -> None:
    first = replace(DRAWN, label_id="first", label_probability=probability)
    second = later("second", label_probability=probability)
    assert await newest(first, second) == ["second"]
    assert await newest(second, first) == ["second"]


async def test_each_person_has_a_label_of_their_own() -> None:
    assert await newest(DRAWN, later("of bob", given_by="bob")) == ["drawn", "of bob"]


@pytest.mark.parametrize("hours", [1, -1], ids=["picked later", "drawn later"])
async def test_what_was_drawn_counts_before_what_was_picked_whichever_is_read_first(hours: int) -> None:
    picked = later("picked", label_probability=None)
    picked = replace(picked, given_at=START + timedelta(hours=hours))
    assert await newest(DRAWN, picked) == ["drawn"]
    assert await newest(picked, DRAWN) == ["drawn"]


async def test_labels_of_one_evaluator() -> None:
    assert await newest(DRAWN, later("other", evaluator="polite", evaluation_id="e2"), evaluator="polite") == ["other"]
