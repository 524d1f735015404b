"""Makes evaluations for somebody who waits: so many at a time, with a bar, within an allowance."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from collector.config.loading import Config
from collector.evaluate.dispatch import utc_now
from collector.evaluate.plan import Job
from collector.evaluate.record import evaluation_of
from collector.redact.opening import open_redactor
from collector.safeguards import Safeguards
from collector.scoring.allowance import Allowance
from collector.scoring.output import made_before, writing
from collector.telemetry import Telemetry
from evaluators.outcome import Evaluation
from evaluators.run import Result

Run = Callable[..., Awaitable[Result]]
"""Judges, as `evaluators.run.run` does."""


@dataclass(frozen=True, slots=True)
class Performed:
    """The evaluations of a run, those of earlier runs among them, and how many the allowance left undone."""

    evaluations: tuple[Evaluation, ...]
    left: int
    spent_usd: float


@asynccontextmanager
async def careful(config: Config) -> AsyncGenerator[Run]:
    """How a command judges: texts are redacted before a judge sees them, as the service does it. No canaries."""
    settings = config.settings
    redactor = open_redactor(settings.redact, lambda _kind, _count: None, lambda: None)
    safeguards = Safeguards(Telemetry(), redactor=redactor, store_text=settings.store_text)
    try:
        yield safeguards.run
    finally:
        await safeguards.close()


async def perform(
    jobs: Collection[Job], *, output: Path | None, concurrency: int, run: Run, max_usd: float | None = None
) -> Performed:
    """Make the evaluations that `output` does not hold yet, and write each there as it is made.

    Raises:
        ConfigError: the output cannot be written, or is something else.
    """
    wanted = {job.evaluation_id: job for job in jobs}
    made = [each for each in made_before(output) if each.evaluation_id in wanted]
    for each in made:
        del wanted[each.evaluation_id]
    allowance = Allowance(max_usd)
    todo = deque(wanted.values())
    with writing(output) as sink, progress_bar() as progress:
        bar = progress.add_task("", total=len(made) + len(todo), completed=len(made), cost="")
        async with aclosing(_evaluated(todo, concurrency, run, allowance)) as evaluations:
            async for evaluation in evaluations:
                sink.write(evaluation)
                made.append(evaluation)
                progress.update(bar, advance=1, cost=f"{allowance.spent:.2f} USD" if allowance.spent else "")
    return Performed(tuple(made), len(todo), allowance.spent)


async def _evaluated(todo: deque[Job], concurrency: int, run: Run, allowance: Allowance) -> AsyncGenerator[Evaluation]:
    """Evaluations in the order in which they end, so many at a time. `todo` keeps what there is no money for."""
    running: dict[asyncio.Task[Evaluation], Job] = {}
    try:
        while True:
            while todo and len(running) < concurrency and allowance.reserve(todo[0]):
                job = todo.popleft()
                running[asyncio.create_task(_evaluate(job, run))] = job
            if not running:
                return
            done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                allowance.settle(running.pop(each), each.result().cost_usd)
            for each in done:
                yield each.result()
    finally:
        for each in running:
            each.cancel()


async def _evaluate(job: Job, run: Run) -> Evaluation:
    case = job.case()
    return evaluation_of(job, case, await run(job.assignment.evaluator, case, job.judge, now=utc_now))


def progress_bar() -> Progress:
    """A bar on stderr with count, rate, cost and the time left; nothing where that is no terminal."""
    console = Console(stderr=True)
    return Progress(
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        TextColumn("{task.fields[cost]}"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


class _Rate(ProgressColumn):
    """Evaluations a second."""

    def render(self, task: Task) -> Text:
        """The rate of late, empty before there is one."""
        return Text(f"{task.speed:.3g}/s" if task.speed else "")
