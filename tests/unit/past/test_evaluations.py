"""Past evaluations: which ones count, and which ones a time range selects."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from evaluation_samples import START, bare

from collector.logs.log import Record
from collector.logs.memory import MemoryLog
from collector.past.evaluations import (
    REPLAY_OF,
    EvaluationFilter,
    PastEvaluation,
    evaluations_in,
    parse_moment,
    select,
    selected_in,
)
from collector.records.epochs import claim_record, stamped
from collector.records.json import evaluation_to_json
from evaluators.results import Evaluation

NOW = START


def record(evaluation: Evaluation, partition: int, epoch: int | None = None) -> Record:
    value = stamped(evaluation_to_json(evaluation), epoch)
    return Record(evaluation.evaluation_id.encode(), value, partition=partition)


async def test_all_partitions_are_read_without_what_does_not_count() -> None:
    log = MemoryLog("evaluations", partitions=2)
    await log.append(
        [
            record(bare(1, 0.1), 1),
            claim_record("old", 1, 0, 0),
            record(bare(2, 0.2), 0, epoch=1),
            claim_record("new", 2, 0, 0),
            record(bare(3, 0.3), 0, epoch=1),
            Record(b"e4", b"{", partition=1),
            record(bare(5, 0.5, attributes={REPLAY_OF: "e1"}), 1),
        ]
    )
    past = [past async for past in evaluations_in(log)]
    assert [(each.evaluation.evaluation_id, each.partition) for each in past] == [("e2", 0), ("e1", 1), ("e5", 1)]
    assert [each.evaluation.evaluation_id async for each in evaluations_in(log, [1])] == ["e1", "e5"]
    selected = [each.evaluation_id async for each in selected_in(log, EvaluationFilter())]
    assert selected == ["e2", "e1"], "a replay is not selected"


def test_the_newest_of_each_subject_is_taken_and_nothing_that_was_superseded() -> None:
    later = NOW + timedelta(hours=1)
    past = [
        bare(1, 0.1),
        bare(1, 0.2, evaluation_id="again", ended_at=later),
        bare(2, None),
        bare(3, 0.3, evaluator="other"),
        bare(4, 0.4, attributes={REPLAY_OF: "e9"}),
        bare(5, 0.5, monitor="elsewhere"),
        bare(6, 0.6),
        bare(7, 0.7, evaluation_id="longer", supersedes=("e6",)),
        bare(8, 0.8, ended_at=NOW - timedelta(days=2)),
    ]
    selection = EvaluationFilter(since=NOW - timedelta(days=1), monitors=["all"], evaluators=["helpful"])
    found = select(map(PastEvaluation, past), selection, {})
    assert [each.evaluation.evaluation_id for each in found.scored] == ["again", "longer"]
    assert (len(found.unscored), found.read) == (1, 9)
    assert len(select(map(PastEvaluation, past), EvaluationFilter(until=NOW), {}).scored) == 1


def test_moments() -> None:
    assert parse_moment("24h", NOW) == NOW - timedelta(hours=24)
    assert parse_moment("2026-11-20T09:00", NOW) == datetime(2026, 11, 20, 9, tzinfo=UTC)
    assert parse_moment("2026-11-20 09:00:07 +0000 UTC", NOW) == datetime(2026, 11, 20, 9, 0, 7, tzinfo=UTC), "a rule's"
    assert parse_moment("2026-11-20 09:00 UTC", NOW) == datetime(2026, 11, 20, 9, tzinfo=UTC), "the watcher's"
    assert parse_moment("2026-11-20T09:00+02:00", NOW) == datetime(2026, 11, 20, 7, tzinfo=UTC)
    with pytest.raises(ValueError, match="Invalid isoformat"):
        parse_moment("yesterday", NOW)
