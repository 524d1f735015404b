"""The background tasks of a process under one supervisor, with one rule.

A task's purpose decides what its unexpected failure means. A task that makes turns or evaluations ends the process with
the error: it is started again, and continues where it stood. A task that carries results further or shows them pauses
and tries again; a record that fails again and again is passed over and becomes a dead letter. A task that serves the
operator costs a line in the log and a metric, and starts again.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY, InitVar, dataclass
from functools import partial
from typing import Any, Literal, TypeVar

from collector.errors import ConfigError, first_of
from collector.logs.consumer_lag import ConsumerLag
from collector.logs.journal.guard import Guard
from collector.logs.log import InstanceInUse, Log, OpenFold, SharedGroups
from collector.telemetry.logging import SparseLog
from collector.telemetry.plain import fault_of
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import TASK_FAILURES

logger = logging.getLogger(__name__)

OnFailure = Literal["ends the process", "pauses", "starts again"]

_OF_THE_LOGS = ("lag", "log probe", "retention", "topic notes")
_OF_THE_FIGURES = ("metrics", "alerts", "releases", "agreement", "golden", "feedback", "corrections")
_BY_ON_FAILURE: Mapping[OnFailure, tuple[str, ...]] = {
    "ends the process": ("receive", "files", "assemble", "link", "evaluate", "configuration"),
    "pauses": ("export", "watch", "page"),
    "starts again": (*_OF_THE_LOGS, *_OF_THE_FIGURES),
}
TASKS: Mapping[str, OnFailure] = {task: on_failure for on_failure, tasks in _BY_ON_FAILURE.items() for task in tasks}
"""The meaning of each task's failure; inside.md lists them, with what each is for."""

FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0
"""Seconds before a task starts again, after its first failure and at most."""

Work = Callable[[], Coroutine[Any, Any, None]]
T = TypeVar("T")


def run_despite_exits(
    work: Coroutine[Any, Any, T], new_loop: Callable[[], asyncio.AbstractEventLoop] | None = None
) -> T:
    """Run to the end, as `asyncio.run` does. If a plug-in starts a task that calls `sys.exit`, asyncio also ends the
    loop: run that again. The evaluation that awaits the task gets the exit as an exception, one of `FAULTS`.
    """
    exits = SparseLog(logger)
    with asyncio.Runner(loop_factory=new_loop) as runner:
        task = runner.get_loop().create_task(work)
        while not task.done():
            try:
                runner.run(asyncio.wait((task,)))
            except SystemExit as error:
                if not task.done():
                    exits.warn(f"a task of a plug-in has called sys.exit ({fault_of(error)}); evalstream runs on")
        return task.result()


@dataclass(eq=False, repr=False)
class Tasks:
    """The tasks of a service in the order of their start; they stop in the reverse order, one after the other."""

    group: asyncio.TaskGroup
    telemetry: Telemetry
    _: KW_ONLY
    guard: InitVar[Guard | None] = None
    sleep: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self, guard: Guard | None) -> None:
        self.lag = ConsumerLag(self.telemetry)
        self._guard = guard or Guard()
        self._tasks: list[asyncio.Task[None]] = []
        self._groups: list[tuple[Log, str]] = []
        self._recent_failures: dict[str, tuple[str, float]] = {}
        self.stopping = False
        """Whether the service stops. If a fold closes earlier, its partition moves."""

    def start(self, kind: str, work: Work, name: str = "") -> asyncio.Task[None]:
        """Start a task, which may be cancelled. Its kind, of `TASKS`, decides what its failure means."""
        task = self.group.create_task(self._supervise(TASKS[kind], work, name or kind))
        self._tasks.append(task)
        return task

    def follow(self, kind: str, log: Log, group: str, open_fold: OpenFold) -> None:
        """Start a task that consumes a log, with its lag measured."""
        self._groups.append((log, group))
        self.start(kind, partial(log.follow, group, self.lag.measured(group, log, open_fold)), group)

    async def _supervise(self, failing: OnFailure, work: Work, name: str) -> None:
        wait = FIRST_WAIT
        while True:
            began = self.clock()
            try:
                return await work()
            except (ConfigError, InstanceInUse, MemoryError):
                raise
            except Exception as error:
                if failing == "ends the process":
                    raise
                if self.clock() - began > LONGEST_WAIT:
                    wait = FIRST_WAIT
                self._report(name, error, wait)
                if failing == "pauses":
                    self._guard.count_failure()
            await self.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT)

    def _report(self, name: str, error: Exception, wait: float) -> None:
        logger.error("task %s failed and starts again in %.0f s", name, wait, exc_info=error)
        self.telemetry.counter(TASK_FAILURES, name).inc()
        self._recent_failures[name] = (
            f"{name} failed ({error!r:.200}); it starts again",
            self.clock() + wait + LONGEST_WAIT,
        )

    def problem(self) -> str | None:
        """The tasks that failed and have not run for a minute since; None if there are none."""
        now = self.clock()
        return "; ".join(text for text, until in self._recent_failures.values() if now < until) or None

    def stalled_consumers(self) -> str | None:
        """The consumers that lag and have made no progress for long, or cannot join their group; None if there are
        none.
        """
        waits = [
            f"the group of {group} could not be joined for {waited:.0f} s"
            for log, group in self._groups
            if isinstance(log, SharedGroups) and (waited := log.long_wait(group)) is not None
        ]
        return "; ".join([*filter(None, [self.lag.stalled()]), *waits]) or None

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
async def open_tasks(telemetry: Telemetry, guard: Guard | None = None) -> AsyncGenerator[Tasks]:
    """Run tasks until left; the first whose failure ends the process ends all, and its error is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = Tasks(group, telemetry, guard=guard)
            tasks.start("lag", tasks.lag.sample_forever)
            try:
                yield tasks
            finally:
                await tasks.stop()
    except BaseExceptionGroup as failures:
        raise first_of(failures) from None
