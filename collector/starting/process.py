"""What the stages of one process share, and the tasks that it runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from collector.config.loading import Config
from collector.errors import first_of
from collector.evaluate.plan import Plan
from collector.guards import Guards
from collector.logs.clock import SteadyClock
from collector.logs.log import Log, OpenFold
from collector.measured import Backlog
from collector.opening import Logs
from collector.telemetry import Telemetry


class Tasks:
    """The tasks of a service in the order of their start; they stop the other way round, one after the other."""

    def __init__(self, group: asyncio.TaskGroup, backlog: Backlog) -> None:
        self._group = group
        self._backlog = backlog
        self._tasks: list[asyncio.Task[None]] = []
        self._before_stop: list[Callable[[], None]] = []

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a task; if it dies, the service ends."""
        self._tasks.append(self._group.create_task(work))

    def follow(self, log: Log, group: str, open_fold: OpenFold) -> None:
        """Start a task that follows a log, measured."""
        self.start(log.follow(group, self._backlog.measured(group, log, open_fold)))

    def before_stop(self, tell: Callable[[], None]) -> None:
        """Have this called when the service stops, before the first task does."""
        self._before_stop.append(tell)

    async def stop(self) -> None:
        """Stop all tasks, the newest first."""
        for tell in self._before_stop:
            tell()
        for task in reversed(self._tasks):
            task.cancel()
            await asyncio.wait([task])


@asynccontextmanager
async def open_tasks(telemetry: Telemetry) -> AsyncGenerator[Tasks]:
    """Run tasks until left; the first of them that dies ends all, and its error is raised."""
    backlog = Backlog(telemetry)
    try:
        async with asyncio.TaskGroup() as group:
            tasks = Tasks(group, backlog)
            tasks.start(backlog.look_forever())
            try:
                yield tasks
            finally:
                await tasks.stop()
    except BaseExceptionGroup as failures:
        raise first_of(failures) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """What the stages of one process share.

    What a stage enters on `stack` is left before the tasks stop: what listens closes first. By the `clock` (s since the
    epoch) money is spent and things wait: setting the machine's must neither open nor close a budget.
    """

    config: Config
    plan: Plan
    logs: Logs
    telemetry: Telemetry
    guards: Guards
    tasks: Tasks
    stack: AsyncExitStack
    clock: Callable[[], float] = field(default_factory=SteadyClock)
