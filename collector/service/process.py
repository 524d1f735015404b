"""A process: what its stages share, and the tasks that it runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from collector.admission.shared_port import SharedPort
from collector.config.configured import Config
from collector.dead_letters import Stage
from collector.errors import first_of
from collector.evaluate.plan import Plan
from collector.evaluate.recovery.configurations import UNNUMBERED, PlanHistory
from collector.logs.consumer_lag import ConsumerLag
from collector.logs.consumer_runner import SlewedClock
from collector.logs.journal.guard import Guard
from collector.logs.log import Log, OpenFold, SharedGroups
from collector.otlp.own_items import OwnItems
from collector.service.live.status import ConfigurationStatus
from collector.service.open_logs import Logs
from collector.service.process_resources import ProcessResources
from collector.service.workers.worker import Worker
from collector.telemetry.registry import Telemetry
from evaluators.judges.definition_cache import AnswerStore

Apply = Callable[["Process"], Awaitable[None]]
"""Lets a stage take over from a process with another configuration. It cannot fail."""

PrepareChange = Callable[[Config], Awaitable[Apply]]
"""The steps of a stage before it takes another configuration: all that can fail. Raises ConfigError."""


class Tasks:
    """The tasks of a service in the order of their start; they stop the other way round, one after the other."""

    def __init__(self, group: asyncio.TaskGroup, lag: ConsumerLag) -> None:
        self._group = group
        self._lag = lag
        self._tasks: list[asyncio.Task[None]] = []
        self._groups: list[tuple[Log, str]] = []
        self.stopping = False
        """Whether the service stops. A fold that closes before that closes because its partition moves."""

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task; if it dies, the service ends. It may be cancelled."""
        task = self._group.create_task(work)
        self._tasks.append(task)
        return task

    def follow(self, log: Log, group: str, open_fold: OpenFold) -> None:
        """Start a task that consumes a log, with its lag measured."""
        self._groups.append((log, group))
        self.start(log.follow(group, self._lag.measured(group, log, open_fold)))

    def stalled_consumers(self) -> str | None:
        """The consumers that lag and have made no progress for long, or cannot join their group; None if there are
        none.
        """
        waits = [
            f"the group of {group} could not be joined for {waited:.0f} s"
            for log, group in self._groups
            if isinstance(log, SharedGroups) and (waited := log.long_wait(group)) is not None
        ]
        return "; ".join([*filter(None, [self._lag.stalled()]), *waits]) or None

    async def claim_groups(self) -> None:
        """See that no other process consumes what this one does, where they cannot share it.

        Raises:
            GroupInUse: one does.
        """
        for log, group in self._groups:
            await log.claim(group)

    async def stop(self) -> None:
        """Stop all tasks, the newest first."""
        self.stopping = True
        for task in reversed(self._tasks):
            task.cancel()
            await asyncio.wait([task])


@asynccontextmanager
async def open_tasks(telemetry: Telemetry) -> AsyncGenerator[Tasks]:
    """Run tasks until left; the first of them that dies ends all, and its error is raised."""
    lag = ConsumerLag(telemetry)
    try:
        async with asyncio.TaskGroup() as group:
            tasks = Tasks(group, lag)
            tasks.start(lag.sample_forever())
            try:
                yield tasks
            finally:
                await tasks.stop()
    except BaseExceptionGroup as failures:
        raise first_of(failures) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """The resources that the stages of one process share.

    Resources that a stage enters on `stack` close before the tasks stop: listening ends first. `clock` (s since the
    epoch) is that of budgets and waiting times: setting the machine's clock must neither open nor close a budget.
    """

    config: Config
    plan: Plan
    logs: Logs
    telemetry: Telemetry
    resources: ProcessResources
    tasks: Tasks
    stack: AsyncExitStack
    guard: Guard
    own: OwnItems
    status: ConfigurationStatus
    history: PlanHistory | None = None
    number: int = UNNUMBERED
    """The number of the configuration; an evaluating process has one before its stages start."""
    changes: list[PrepareChange] = field(default_factory=list[PrepareChange])
    """The steps of each stage to take another configuration, in this order."""
    clock: Callable[[], float] = field(default_factory=SlewedClock)
    steps: AnswerStore | None = None
    """The answers that judges wrote once and all share."""
    worker: Worker | None = None
    """Its place among the processes that one command has started."""

    def shared_port(self, name: str) -> SharedPort | None:
        """Its part of a port on which others of its command receive, too; None if it is alone."""
        return self.worker.ports[name] if self.worker else None

    def guarded(self, stage: Stage, consumer: str, log: Log, open_fold: OpenFold) -> OpenFold:
        """The folds of a stage without dead letters of its own: a record that ends the process is dead-lettered."""
        return self.resources.dead_letters(stage, log.name, self.logs).wrap(open_fold, self.guard, consumer)
