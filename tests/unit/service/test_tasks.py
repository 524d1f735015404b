"""The tasks of a service: stopped newest first, and under one rule for what an unexpected failure means."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Never

import pytest

from collector.errors import BadInput, ConfigError, EvalstreamError
from collector.logs.journal.guard import Guard
from collector.logs.log import Committed, InstanceInUse, LogError, LogUnavailable, Record, StoredRecord
from collector.logs.memory import MemoryLog
from collector.service.tasks import TASKS, Tasks, open_tasks
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import TASK_FAILURES

TASKS_PAGE = Path("deploy/docs/inside.md")
ENDING = sorted(kind for kind, failing in TASKS.items() if failing == "ends the process")
OTHERS = sorted(set(TASKS) - set(ENDING))
ERRORS: Sequence[Exception] = (
    KeyError("retention.ms"), ValueError("Counters can only be incremented"), TypeError(), AttributeError("x"),
    IndexError(), ZeroDivisionError(), OverflowError(), RuntimeError(), OSError(5, "Input/output error"),
    TimeoutError(), UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), RecursionError(), AssertionError(),
    EvalstreamError("x"), LogError("x"), LogUnavailable("x"), BadInput("x"),
    ExceptionGroup("several", [KeyError("a"), ValueError("b")]),
)  # fmt: skip


async def test_tasks_stop_newest_first_and_know_that_the_service_stops() -> None:
    stopped: list[tuple[str, bool]] = []

    async def work(name: str, tasks: Tasks) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append((name, tasks.stopping))

    async with open_tasks(Telemetry()) as tasks:
        for name in ("export", "evaluate", "receive"):
            tasks.start(name, lambda name=name: work(name, tasks))
        await asyncio.sleep(0)
        assert not tasks.stopping
    assert stopped == [("receive", True), ("evaluate", True), ("export", True)]


@pytest.mark.parametrize("kind", ENDING)
async def test_a_task_without_which_nothing_goes_on_ends_the_process_with_its_own_error(kind: str) -> None:
    for error in ERRORS:
        first = error.exceptions[0] if isinstance(error, ExceptionGroup) else error
        with pytest.raises(type(first)) as raised:
            await _serve_until_it_ends(kind, error)
        assert raised.value is first


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
async def test_every_other_task_survives_every_exception(kind: str, error: Exception) -> None:
    """It is counted, told, tried again after growing waits, and forgotten when it has run for a minute."""
    telemetry, now, waits, fails = Telemetry(), [1000.0], list[float](), [True]

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        now[0] += seconds
        fails[0] = len(waits) < 8

    async def work() -> None:
        if fails[0]:
            raise error.with_traceback(None)  # else its traceback grows with every test that raises it
        await asyncio.Event().wait()

    async with asyncio.TaskGroup() as group:
        tasks = Tasks(group, telemetry, sleep=sleep, clock=lambda: now[0])
        tasks.start(kind, work, "some name")
        while fails[0]:
            await asyncio.sleep(0)
        assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
        assert "some name failed" in (tasks.problem() or "")
        now[0] += 61.0
        assert tasks.problem() is None
        await tasks.stop()
    assert telemetry.registry.get_sample_value(TASK_FAILURES.name, {"task": "some name"}) == 8


@pytest.mark.parametrize("kind", sorted(TASKS))
@pytest.mark.parametrize(
    "error", [ConfigError("x"), InstanceInUse("x"), MemoryError()], ids=["config", "taken", "memory"]
)
async def test_what_no_repetition_mends_ends_the_process(
    kind: str, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """`task export.jsonl failed and starts again in 1 s`, seven times, before another process had its place."""
    with pytest.raises(type(error)):
        await _serve_until_it_ends(kind, error)
    assert not caplog.messages


async def _serve_until_it_ends(kind: str, error: Exception) -> Never:
    async def work() -> None:
        raise error

    async with open_tasks(Telemetry()) as tasks:
        tasks.start(kind, work)
        await asyncio.Event().wait()
    raise AssertionError


class _Poisoned:
    """A fold that fails in one record, however often it comes."""

    due_at = None
    low_watermark = None
    metadata = ""

    def __init__(self, taken: list[bytes]) -> None:
        self._taken = taken

    async def replay(self, records: Sequence[StoredRecord]) -> None: ...

    async def deliver(self, records: Sequence[StoredRecord]) -> None:
        for record in records:
            if record.value == b"poison":
                raise ZeroDivisionError
            self._taken.append(record.value)


async def test_a_record_in_which_a_pausing_consumer_fails_again_and_again_is_left_out() -> None:
    """An exporter that fails in a record passes over it after three failures, and the process goes on all the while."""
    taken, left_out, guard, log = list[bytes](), list[StoredRecord](), Guard(), MemoryLog("evaluations", 1)
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    @asynccontextmanager
    async def open_fold(_partition: int, _committed: Committed | None) -> AsyncGenerator[Any]:
        yield _Poisoned(taken)

    await log.append([Record(b"k", value) for value in (b"1", b"poison", b"2")])
    guarded = guard.guarding("export.x", log.name, open_fold, lambda record, _error: left_out.append(record))
    async with asyncio.TaskGroup() as group, asyncio.timeout(10):
        tasks = Tasks(group, Telemetry(), guard=guard, sleep=sleep)
        tasks.follow("export", log, "export.x", guarded)
        while b"2" not in taken:
            await asyncio.sleep(0.001)
        await tasks.stop()
    assert [record.value for record in left_out] == [b"poison"]
    assert len(waits) == 3


def test_the_page_of_concepts_lists_every_task_with_its_rule() -> None:
    """Its table is the one in the code."""
    rows: dict[str, str] = {}
    failing = ""
    for line in TASKS_PAGE.read_text().splitlines():
        if line.startswith("A task that ") and (bold := re.search(r"\*\*(.+)\*\*", line)):
            failing = bold[1]
        elif listed := re.match(r"- `([^`]+)` ", line):
            rows[listed[1]] = failing
    assert {kind: rows.get(kind) for kind in TASKS} == TASKS
