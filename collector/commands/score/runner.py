"""Runner of a command's evaluations: concurrently, with a progress bar, within a spending limit."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from collector.commands.score.output import failed_earlier, open_writer, read_earlier
from collector.commands.score.spend_limit import SpendLimit
from collector.config.loading import Config
from collector.evaluate.evaluation_record import evaluation_of
from collector.evaluate.guardrails import EvaluationGuardrails
from collector.evaluate.plan import Job
from collector.evaluate.scheduling.dispatch import utc_now
from collector.redact.open_redactor import open_redactors
from collector.telemetry.registry import Telemetry
from collector.wording import plural
from evaluators.evaluation import Result
from evaluators.progress import progress_bar
from evaluators.results import Evaluation

Run = Callable[..., Awaitable[Result]]
"""Judges, as `evaluators.evaluate` does."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """The evaluations of a run and of earlier ones; `left` is the number that the spending limit left undone."""

    evaluations: tuple[Evaluation, ...]
    left: int
    spent_usd: float


@asynccontextmanager
async def guarded_run(config: Config, *, from_logs: bool) -> AsyncGenerator[Run]:
    """The evaluation function of a command: texts are redacted as in the service, and there are no canaries.

    `from_logs` says that they are those of a log, where they were redacted.
    """
    settings = config.settings
    redactors = open_redactors(settings.redact)
    safeguards = EvaluationGuardrails(
        Telemetry(), redactors=redactors, store_text=settings.store_text, from_logs=from_logs
    )
    try:
        yield safeguards.run
    finally:
        await safeguards.close()


async def run_jobs(
    jobs: Collection[Job], *, output: Path | None, concurrency: int, run: Run, max_usd: float | None = None
) -> RunResult:
    """Make the evaluations that `output` does not hold yet, and write each there as it is made.

    Raises:
        ConfigError: the output cannot be written, or is something else.
    """
    wanted = {job.evaluation_id: job for job in jobs}
    made = [each for each in read_earlier(output) if each.evaluation_id in wanted]
    for each in made:
        del wanted[each.evaluation_id]
    if again := len(failed_earlier(output) & wanted.keys()):
        print(f"evalstream: {plural(again, 'evaluation')} of an earlier run failed, made again", file=sys.stderr)  # noqa: T201
    spend_limit = SpendLimit(max_usd)
    todo = deque(wanted.values())
    with open_writer(output) as writer, progress_bar() as progress:
        bar = progress.add_task("", total=len(made) + len(todo), completed=len(made), cost="")
        async with aclosing(_evaluated(todo, concurrency, run, spend_limit)) as evaluations:
            async for evaluation in evaluations:
                writer.write(evaluation)
                made.append(evaluation)
                progress.update(bar, advance=1, cost=f"{spend_limit.spent:.2f} USD" if spend_limit.spent else "")
    return RunResult(tuple(made), len(todo), spend_limit.spent)


async def _evaluated(
    todo: deque[Job], concurrency: int, run: Run, spend_limit: SpendLimit
) -> AsyncGenerator[Evaluation]:
    """Evaluations in the order in which they end, `concurrency` at once. `todo` keeps those beyond the limit."""
    running: dict[asyncio.Task[Evaluation], Job] = {}
    try:
        while True:
            while todo and len(running) < concurrency and spend_limit.reserve(todo[0]):
                job = todo.popleft()
                running[asyncio.create_task(_evaluate(job, run))] = job
            if not running:
                return
            done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                spend_limit.settle(running.pop(each), each.result().cost_usd)
            for each in done:
                yield each.result()
    finally:
        for each in running:
            each.cancel()


async def _evaluate(job: Job, run: Run) -> Evaluation:
    case = job.case()
    return evaluation_of(job, case, await run(job.assignment.evaluator, case, job.judge, now=utc_now))
