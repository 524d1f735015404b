from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import pytest

from collector.logs.log import Committed, Record, Stored
from collector.logs.memory import MemoryLog
from collector.measured import Backlog, MeasuredJudge
from collector.telemetry import Telemetry
from evaluators.errors import JudgeReplyInvalid
from evaluators.judge import Prompt
from evaluators.scale import Reply
from evaluators.testing import ScriptedJudge


class Said(Reply):
    word: str


async def test_requests_to_a_judge_are_counted_by_what_came_of_them():
    telemetry = Telemetry()
    judge = MeasuredJudge(ScriptedJudge([{"word": "yes"}, JudgeReplyInvalid("no")]), "main", telemetry)
    assert (await judge.ask(Prompt("?"), Said)).reply.word == "yes"
    with pytest.raises(JudgeReplyInvalid):
        await judge.ask(Prompt("?"), Said)

    def value(name: str, **labels: str) -> float | None:
        return telemetry.registry.get_sample_value(name, {"judge": "main", **labels})

    assert value("evalstream_judge_requests_total", result="ok") == 1
    assert value("evalstream_judge_requests_total", result="judge_reply_invalid") == 1
    assert value("evalstream_judge_request_duration_seconds_count") == 2
    assert value("evalstream_judge_in_flight") == 0


class Taker:
    due_at = None
    low_watermark = None
    note = ""

    async def replay(self, records: Sequence[Stored]) -> None: ...

    async def deliver(self, records: Sequence[Stored]) -> None: ...


async def test_a_reader_is_behind_by_what_it_has_not_been_given():
    telemetry, log = Telemetry(), MemoryLog("turns", partitions=1)
    backlog = Backlog(telemetry, clock=lambda: 1060.0)

    @asynccontextmanager
    async def open_fold(partition: int, committed: Committed | None) -> AsyncGenerator[Taker]:
        del partition, committed
        yield Taker()

    def value(name: str) -> float | None:
        return telemetry.registry.get_sample_value(name, {"reader": "evaluate", "log": "turns"})

    measured = backlog.measured("evaluate", log, open_fold)
    await log.append([Record(None, b"x", partition=0) for _ in range(5)])
    async with measured(0, None) as fold:
        await fold.deliver([Stored(0, position, 1000.0, None, b"x") for position in range(2)])
        await backlog.look()
        assert value("evalstream_stage_backlog_records") == 3
        assert value("evalstream_stage_oldest_seconds") == 60
        await fold.deliver([Stored(0, position, 1050.0, None, b"x") for position in range(2, 5)])
        await backlog.look()
        assert value("evalstream_stage_backlog_records") == 0
        assert value("evalstream_stage_oldest_seconds") == 0
    await log.append([Record(None, b"x", partition=0)])
    await backlog.look()
    assert value("evalstream_stage_backlog_records") == 0, "what somebody else owns is somebody else's"


async def test_a_reader_may_come_while_the_others_are_looked_at():
    backlog = Backlog(Telemetry())

    @asynccontextmanager
    async def open_fold(_partition: int, _committed: Committed | None) -> AsyncGenerator[Taker]:
        yield Taker()

    class Slow(MemoryLog):
        """While its end is asked for, another stage starts."""

        async def end(self, partition: int) -> int:
            backlog.measured("export", MemoryLog("evaluations", partitions=1), open_fold)
            return await super().end(partition)

    async with backlog.measured("evaluate", Slow("turns", partitions=1), open_fold)(0, Committed(0, 0)):
        await backlog.look()
