"""Labels of the log: which one of a person counts."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from evaluation_samples import START

from collector.logs.log import TICK, Record
from collector.logs.memory import MemoryLog
from collector.past.labels import labels_in, newest_labels
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


async def test_the_later_label_of_a_person_counts() -> None:
    assert await newest(later("second"), DRAWN) == ["second"]
    assert await newest(DRAWN, later("of bob", given_by="bob")) == ["drawn", "of bob"]


async def test_what_the_person_picked_does_not_replace_what_was_drawn() -> None:
    assert await newest(DRAWN, later("picked", label_probability=None)) == ["drawn"]
    assert await newest(later("picked", label_probability=None), DRAWN) == ["drawn"]


async def test_labels_of_one_evaluator() -> None:
    assert await newest(DRAWN, later("other", evaluator="polite", evaluation_id="e2"), evaluator="polite") == ["other"]
