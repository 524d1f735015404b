"""Feedback in traces reaches the labels log whenever it comes: once each, with what it is about, in every dialect."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from evaluation_samples import scored
from feedback_forms import DIALECTS, EVENT, SAID, with_feedback
from made_up import TRACE, Trace, chat

from collector.assemble.fold import AssembleFold, SideLogs
from collector.assemble.open_traces import TraceLimits
from collector.assemble.stage import AssembleStage
from collector.assemble.trace import Assembler
from collector.calibration.judged_subjects import JudgedSubjects, LogPlace
from collector.dialects.registry import Dialects
from collector.link.turn_router import TurnRouter
from collector.logs.log import TICK, StoredRecord
from collector.logs.memory import MemoryLog
from collector.records.feedback import FeedbackEntry, parse_feedback_entry
from collector.records.json import turn_from_json
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import LATE_FEEDBACK, TURNS_ASSEMBLED
from evaluators.results import Subject

ASSEMBLER = Assembler(Dialects.installed())


def asked(attributes: dict[str, Any] | None = None) -> Trace:
    return Trace().span(1, "chat", attributes or chat("Are you open?", "Yes.", **{"gen_ai.response.id": "r-1"}))


async def pour(fold: AssembleFold, trace: Trace, time: float) -> None:
    for number, piece in enumerate(trace.pieces()):
        position = int(time) * 10 + number
        headers = (("signal", piece.signal.encode()),)
        await fold.deliver([StoredRecord(0, position, time, b"ab" * 16, piece.value, headers)])
    await fold.deliver([StoredRecord(0, int(time) * 10 + 9, time + 10.0, None, b"", TICK)])


async def entries_in(labels: MemoryLog) -> list[FeedbackEntry]:
    return [parse_feedback_entry(each.value) async for batch in labels.read(0, 0) for each in batch]


async def test_feedback_after_its_turn_is_counted_and_stored_whether_the_trace_lingers_or_is_forgotten() -> None:
    turns, labels, telemetry = MemoryLog("turns", partitions=1), MemoryLog("labels", partitions=1), Telemetry()

    def assembled() -> float:
        return telemetry.counter(TURNS_ASSEMBLED, "otel_genai", "complete", "")._value.get()

    def late() -> float:
        return telemetry.counter(LATE_FEEDBACK)._value.get()

    feedback = Trace().record(None, EVENT, None, SAID)
    limits = TraceLimits(quiet=5.0, linger=60.0)
    stage = AssembleStage(ASSEMBLER, TurnRouter(turns), limits, telemetry=telemetry, side_logs=SideLogs(labels=labels))
    async with stage.open_fold(0, None) as fold:
        await pour(fold, asked().record(None, EVENT, None, SAID), 100.0)
        assert (assembled(), late()) == (1, 0), "in time"
        await pour(fold, feedback, 500.0)
        assert late() == 1, "its trace is forgotten"
        await pour(fold, asked(), 900.0)
        await pour(fold, feedback, 920.0)
        assert late() == 2, "its trace lingers"
        await pour(fold, feedback, 940.0)
        assert late() == 2, "the same again"
    assert await turns.end_offset(0) == assembled() == 2, "a trace that closes again counts no turn again"
    entries = await entries_in(labels)
    assert len(entries) == 3
    assert len({each.feedback_id for each in entries}) == 1, "the same feedback whenever it is read"
    assert {each.response_id for each in entries} == {"r-1"}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("when", ["before", "with", "after", "a day after"])
async def test_feedback_of_a_dialect_is_about_its_turn_whenever_it_comes(dialect: str, when: str) -> None:
    attributes, form = DIALECTS[dialect]
    turns, labels = MemoryLog("turns", partitions=1), MemoryLog("labels", partitions=1)
    stage = AssembleStage(
        ASSEMBLER, TurnRouter(turns), TraceLimits(quiet=5.0, linger=60.0), side_logs=SideLogs(labels=labels)
    )
    at = {"before": 10.0, "with": 100.0, "after": 130.0, "a day after": 86_500.0}[when]
    async with stage.open_fold(0, None) as fold:
        if when == "with":
            await pour(fold, with_feedback(asked(attributes), form, attributes), at)
        else:
            parts = sorted(
                [(100.0, asked(attributes)), (at, with_feedback(Trace(), form, attributes))], key=lambda e: e[0]
            )
            for time, trace in parts:
                await pour(fold, trace, time)
    first, *_ = [each async for batch in turns.read(0, 0) for each in batch]
    turn = turn_from_json(first.value)
    entries = {each.feedback_id: each for each in await entries_in(labels)}
    [entry] = entries.values()
    assert (entry.name, entry.score(), entry.source) == ("thumbs", 1.0, "code" if form == "record" else "user")
    subject = Subject(
        conversation_id=turn.conversation_id or TRACE,
        turn_id=turn.turn_id,
        trace_id=turn.trace_id,
        span_id=turn.span_id,
        response_id=turn.response_id,
    )
    judged = JudgedSubjects()
    judged.add(replace(scored(), evaluation_id="mine", subject=subject), LogPlace(0, 0), 0.0)
    other = replace(subject, turn_id="other", span_id="99" * 8, response_id="r-9")
    judged.add(replace(scored(), evaluation_id="other", subject=other), LogPlace(0, 1), 0.0)
    matches = judged.matches(entry)
    assert [each.turn_id for each in matches.subjects] == [turn.turn_id]
    assert matches.exact
