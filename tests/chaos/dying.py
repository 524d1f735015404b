"""`evalstream run` that dies by SIGKILL at a named step. The ports are wrapped here; nothing in the product knows of it."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import orjson
from workers import evalstream

from collector.evaluate.recovery.control_records import CONTROL_HEADERS
from collector.logs.log import Committed, Fold, FoldWrapper, Log, OpenFold, Record, StoredRecord
from collector.service.open_logs import Logs
from evaluators.judge import Judge, Prompt, R, Verdict
from evaluators.judges.wrapper import JudgeWrapper
from evaluators.results import Evaluation

STEPS = ("after_poll", "after_judge", "after_ledger", "after_export", "before_commit")
"""In the order in which a turn comes to them."""

CHANGES = ("before_taken", "after_taken", "before_stopped", "after_stopped", "before_switch", "after_switch")
"""In the order in which another configuration comes to them: it is written, a fold stops, and the next one switches."""


class Death:
    """Waits at a step, and comes when it is reached for the `times`-th time."""

    def __init__(self, step: str, times: int) -> None:
        assert step in (*STEPS, *CHANGES)
        self._step = step
        self._left = times

    def reached(self, step: str) -> None:
        if step == self._step:
            self._left -= 1
            if not self._left:
                os.kill(os.getpid(), signal.SIGKILL)


class DyingFold(FoldWrapper):
    """The fold of the evaluate stage. What is committed is read from `metadata` after `low_watermark`."""

    def __init__(self, fold: Fold, death: Death, written: set[bytes]) -> None:
        super().__init__(fold)
        self._state, self.stateful = self.stateful, self  # the layers around it ask it for the state
        self._death = death
        self._written = written

    @property
    def due_at(self) -> float | None:
        return self._state.due_at

    @property
    def low_watermark(self) -> int | None:
        return self._state.low_watermark

    @property
    def metadata(self) -> str:
        if self._written:  # there is something new to commit
            self._written.clear()
            self._death.reached("before_commit")
        return self._state.metadata

    async def deliver(self, records: Sequence[StoredRecord]) -> None:
        if not all(record.is_tick for record in records):
            self._death.reached("after_poll")
        await super().deliver(records)


class DyingLog:
    """A log around a log."""

    def __init__(self, log: Log, death: Death, written: set[bytes]) -> None:
        self._log = log
        self._death = death
        self._written = written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    async def append(self, records: Sequence[Record]) -> None:
        change = _change_in(records)
        if change:
            self._death.reached(f"before_{change}")
        await self._log.append(records)
        if change:
            self._death.reached(f"after_{change}")
        if self._log.name == "evaluations" and any(record.headers != CONTROL_HEADERS for record in records):
            self._death.reached("after_ledger")
            self._written.update(record.key or b"" for record in records)

    async def follow(self, group: str, open_fold: OpenFold) -> None:
        @asynccontextmanager
        async def dying(partition: int, committed: Committed | None) -> AsyncGenerator[Fold]:
            async with open_fold(partition, committed) as fold:
                yield DyingFold(fold, self._death, self._written)

        await self._log.follow(group, dying if group == "evaluate" else open_fold)


def _change_in(records: Sequence[Record]) -> str | None:
    """What a record has to do with a changed configuration; the first configuration of all is none."""
    for each in records:
        if each.key is not None and each.key.startswith(b"configuration/") and each.key != b"configuration/1":
            return "taken"
        if each.headers == CONTROL_HEADERS:
            control = orjson.loads(each.value)
            if control.get("configuration", 1) > 1:
                return "switch"
            if control.get("stopped"):
                return "stopped"
    return None


class DyingJudge(JudgeWrapper):
    """A judge around a judge."""

    def __init__(self, judge: Judge, death: Death) -> None:
        super().__init__(judge)
        self._death = death

    async def ask(self, prompt: Prompt, reply: type[R], *, logprobs: bool = False, samples: int = 1) -> Verdict[R]:
        verdict = await self.inner.ask(prompt, reply, logprobs=logprobs, samples=samples)
        self._death.reached("after_judge")
        return verdict


class DyingExporter:
    """An exporter around an exporter."""

    def __init__(self, exporter: Any, death: Death) -> None:
        self._exporter = exporter
        self._death = death

    async def export(self, batch: Sequence[Evaluation]) -> int | None:
        rejected = await self._exporter.export(batch)
        self._death.reached("after_export")
        return rejected


def evalstream_dying_at(step: str, times: int, arguments: Sequence[str], stderr: str) -> None:
    """What the command `evalstream` does, until the step is reached for the `times`-th time."""
    from collector.service import app
    from collector.service.live import exchange

    death, written = Death(step, times), set[bytes]()
    real: Any = app
    live: Any = exchange
    open_logs, open_judges, open_exporters = real.open_logs, live.open_judges, real.open_exporters

    @asynccontextmanager
    async def dying_logs(settings: Any, **options: Any) -> AsyncGenerator[Logs]:
        async with open_logs(settings, **options) as logs:
            yield Logs(**{each.name: DyingLog(each, death, written) for each in logs})

    @asynccontextmanager
    async def dying_judges(*arguments: Any, **options: Any) -> AsyncGenerator[Mapping[str, Judge]]:
        async with open_judges(*arguments, **options) as judges:
            yield {name: DyingJudge(judge, death) for name, judge in judges.items()}

    @asynccontextmanager
    async def dying_exporters(*arguments: Any) -> AsyncGenerator[Any]:
        async with open_exporters(*arguments) as exporters:
            for stage in exporters.stages:
                stage.exporter = DyingExporter(stage.exporter, death)
            yield exporters

    real.open_logs, live.open_judges, real.open_exporters = dying_logs, dying_judges, dying_exporters
    evalstream(arguments, stderr)
