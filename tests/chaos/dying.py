"""`evalstream run` that dies by SIGKILL at a named step. The ports are wrapped here; nothing in the product knows of it."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from workers import evalstream

from collector.evaluate.decisions import DECISION
from collector.logs.around import FoldAround
from collector.logs.log import Committed, Fold, Log, OpenFold, Record, Stored
from collector.opening import Logs
from evaluators.judge import Judge, Prompt, R, Verdict
from evaluators.outcome import Evaluation

STEPS = ("after_poll", "after_judge", "after_ledger", "after_export", "before_commit")
"""In the order in which a turn comes to them."""


class Death:
    """Waits at a step, and comes when it is reached for the `times`-th time."""

    def __init__(self, step: str, times: int) -> None:
        assert step in STEPS
        self._step = step
        self._left = times

    def reached(self, step: str) -> None:
        if step == self._step:
            self._left -= 1
            if not self._left:
                os.kill(os.getpid(), signal.SIGKILL)


class DyingFold(FoldAround):
    """The fold of the evaluate stage. What is committed is read from `note` after `low_watermark`."""

    def __init__(self, fold: Fold, death: Death, written: set[bytes]) -> None:
        super().__init__(fold)
        self._death = death
        self._written = written

    @property
    def note(self) -> str:
        if self._written:  # there is something new to commit
            self._written.clear()
            self._death.reached("before_commit")
        return super().note

    async def deliver(self, records: Sequence[Stored]) -> None:
        if not all(record.is_tick for record in records):
            self._death.reached("after_poll")
        await super().deliver(records)


class DyingLog:
    """A log around a log."""

    def __init__(self, log: Log, death: Death, written: set[bytes]) -> None:
        self._log = log
        self._death = death
        self._written = written

    @property
    def name(self) -> str:
        return self._log.name

    @property
    def partitions(self) -> int:
        return self._log.partitions

    async def append(self, records: Sequence[Record]) -> None:
        await self._log.append(records)
        if self.name == "evaluations" and any(record.headers != DECISION for record in records):
            self._death.reached("after_ledger")
            self._written.update(record.key or b"" for record in records)

    async def end(self, partition: int) -> int:
        return await self._log.end(partition)

    def read(self, partition: int, start: int) -> AsyncIterator[Sequence[Stored]]:
        return self._log.read(partition, start)

    async def follow(self, group: str, open_fold: OpenFold) -> None:
        @asynccontextmanager
        async def dying(partition: int, committed: Committed | None) -> AsyncGenerator[Fold]:
            async with open_fold(partition, committed) as fold:
                yield DyingFold(fold, self._death, self._written)

        await self._log.follow(group, dying if group == "evaluate" else open_fold)

    async def truncate(self, before: float, readers: Collection[str] = ()) -> int:
        return await self._log.truncate(before, readers)

    async def close(self) -> None:
        await self._log.close()


class DyingJudge:
    """A judge around a judge."""

    def __init__(self, judge: Judge, death: Death) -> None:
        self._judge = judge
        self._death = death

    @property
    def model(self) -> str:
        return self._judge.model

    async def ask(self, prompt: Prompt, reply: type[R], *, logprobs: bool = False, samples: int = 1) -> Verdict[R]:
        verdict = await self._judge.ask(prompt, reply, logprobs=logprobs, samples=samples)
        self._death.reached("after_judge")
        return verdict


class DyingExporter:
    """An exporter around an exporter."""

    def __init__(self, exporter: Any, death: Death) -> None:
        self._exporter = exporter
        self._death = death

    async def export(self, batch: Sequence[Evaluation]) -> None:
        await self._exporter.export(batch)
        self._death.reached("after_export")


def evalstream_dying_at(step: str, times: int, arguments: Sequence[str], stderr: str) -> None:
    """What the command `evalstream` does, until the step is reached for the `times`-th time."""
    from collector import app

    death, written = Death(step, times), set[bytes]()
    real: Any = app
    open_logs, open_judges, open_exporters = real.open_logs, real.open_judges, real.open_exporters

    @asynccontextmanager
    async def dying_logs(settings: Any, **options: Any) -> AsyncGenerator[Logs]:
        async with open_logs(settings, **options) as logs:
            yield Logs(*(DyingLog(each, death, written) for each in logs))

    @asynccontextmanager
    async def dying_judges(*arguments: Any) -> AsyncGenerator[Mapping[str, Judge]]:
        async with open_judges(*arguments) as judges:
            yield {name: DyingJudge(judge, death) for name, judge in judges.items()}

    @asynccontextmanager
    async def dying_exporters(*arguments: Any) -> AsyncGenerator[Sequence[Any]]:
        async with open_exporters(*arguments) as stages:
            for stage in stages:
                stage._exporter = DyingExporter(stage._exporter, death)
            yield stages

    real.open_logs, real.open_judges, real.open_exporters = dying_logs, dying_judges, dying_exporters
    evalstream(arguments, stderr)
