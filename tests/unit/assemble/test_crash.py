"""A trace that hits a bug in the assembler: it is dropped and counted, and the partition goes on."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from log_doubles import FailingLog, PickyLog
from made_up import Trace, chat

from collector.assemble.open_traces import TraceLimits
from collector.assemble.stage import AssembleStage
from collector.assemble.trace import Assembler
from collector.backoff import Backoff
from collector.dialects.dialect import Coverage, Dialect
from collector.dialects.registry import Dialects
from collector.link.turn_router import TurnRouter
from collector.logs.log import TICK, LogUnavailable, StoredRecord
from collector.logs.memory import MemoryLog
from collector.otlp.span import LogRecord, Span
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import DROPS


def read_with_a_bug(span: Span, _records: Sequence[LogRecord]) -> None:
    if "boom" in str(span.attributes):
        raise SystemExit if "exit" in str(span.attributes) else ZeroDivisionError


BUGGY = Dialect(name="buggy", rank=0, read=read_with_a_bug, evidence=("gen_ai.*",), coverage=Coverage(libraries=""))


@pytest.mark.parametrize("question", ["boom", "boom: exit"])
async def test_a_trace_that_hits_a_bug_is_a_drop_and_the_next_one_is_assembled(
    question: str, caplog: pytest.LogCaptureFixture
) -> None:
    turns, telemetry = MemoryLog("turns", partitions=1), Telemetry()
    assembler = Assembler(Dialects((BUGGY, *Dialects.installed().all)))
    stage = AssembleStage(assembler, TurnRouter(turns), TraceLimits(quiet=5.0), telemetry=telemetry)
    records = [
        StoredRecord(0, position, 100.0, key * 16, piece.value, (("signal", piece.signal.encode()),))
        for position, (key, text) in enumerate([(b"ab", question), (b"cd", "Are you open?")])
        for piece in Trace().span(1, "chat", chat(text, "Yes.")).pieces()
    ]
    async with stage.open_fold(0, None) as fold:
        await fold.deliver([*records, StoredRecord(0, 9, 200.0, None, b"", TICK)])
    assert telemetry.counter(DROPS, "assemble", "crashed")._value.get() == 1
    assert await turns.end_offset(0) == 1
    assert "boom" not in caplog.text


def closed_traces(*texts: str) -> list[StoredRecord]:
    """The records of traces with one question each, and the tick that closes them."""
    records = [
        StoredRecord(0, offset, 100.0, f"{offset:032x}".encode(), piece.value, (("signal", piece.signal.encode()),))
        for offset, text in enumerate(texts)
        for piece in Trace().span(1, "chat", chat(text, "Yes.")).pieces()
    ]
    return [*records, StoredRecord(0, 99, 200.0, None, b"", TICK)]


async def test_a_turn_that_the_log_can_never_take_is_a_drop_and_the_others_are_appended() -> None:
    turns, telemetry = PickyLog(limit=2000), Telemetry()
    assembler = Assembler(Dialects.installed())
    stage = AssembleStage(assembler, TurnRouter(turns), TraceLimits(quiet=5.0), telemetry=telemetry)
    async with stage.open_fold(0, None) as fold:
        await fold.deliver(closed_traces("Are you open?", "Why? " * 1000, "And tomorrow?"))
    assert telemetry.counter(DROPS, "assemble", "too_large")._value.get() == 1
    assert await turns.end_offset(0) == 2


async def test_a_log_that_cannot_be_written_is_waited_for() -> None:
    turns, waits = FailingLog(*[LogUnavailable("database or disk is full")] * 3), list[float]()

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    router = TurnRouter(turns, backoff=Backoff(sleep=sleep))
    stage = AssembleStage(Assembler(Dialects.installed()), router, TraceLimits(quiet=5.0))
    async with stage.open_fold(0, None) as fold:
        await fold.deliver(closed_traces("Are you open?"))
    assert await turns.end_offset(0) == 1
    assert len(waits) == 3
