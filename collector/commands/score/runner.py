"""Runs the evaluations of a command: concurrently, with a progress bar, within a spending limit.

The limit is applied before an evaluation begins, not when its cost is known.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import cast

from collector.commands.score.output import content_id, open_writer, read_attempts
from collector.config.configured import Config
from collector.errors import ConfigError
from collector.evaluate.budget.controller import charge_of
from collector.evaluate.guardrails import EvaluationGuardrails
from collector.evaluate.plan import Assignment, Job, evaluation_of
from collector.records.grouping import group_by
from collector.redact.open_redactor import open_redactors
from collector.statistics.agreement import ScoreScale
from collector.telemetry.plain import to_terminal
from collector.telemetry.registry import Telemetry
from collector.wording import plural, usd
from evaluators.batch import results_of
from evaluators.cases import Json
from evaluators.evaluation import Result, utc_now
from evaluators.mechanisms.rating import STEPS_HASH
from evaluators.packs.evaluate_pack import run_pack
from evaluators.progress import progress_bar
from evaluators.results import Evaluation


class SpendLimit:
    """US dollars that a run may spend; None for no limit.

    An evaluation begins only if the highest cost of its evaluator so far, or its expected cost, still fits beside the
    evaluations in flight. So the limit is exceeded only by an evaluation that costs more than all before it.
    """

    def __init__(self, max_usd: float | None) -> None:
        self.max_usd = max_usd
        self.spent = 0.0
        self._reserved: dict[str, float] = {}
        self._highest: dict[str, float] = {}

    def reserve(self, jobs: Sequence[Job]) -> bool:
        """Whether a job, or the jobs of a pack, may begin; their costs are reserved until `settle`."""
        needed = {
            job.evaluation_id: max(job.assignment.expected_usd, self._highest.get(job.assignment.evaluator.name, 0.0))
            for job in jobs
        }
        usd = sum(needed.values())
        if self.max_usd is not None and usd and self.spent + sum(self._reserved.values()) + usd > self.max_usd:
            return False
        self._reserved |= needed
        return True

    def settle(self, job: Job, usd: float | None) -> None:
        """The job has ended at this cost."""
        del self._reserved[job.evaluation_id]
        name = job.assignment.evaluator.name
        self._highest[name] = max(self._highest.get(name, 0.0), usd or 0.0)
        self.spent += usd or 0.0


def require_prices(config: Config, judges: Iterable[str]) -> None:
    """Check that the judges have prices, which a limit in dollars needs.

    Raises:
        ConfigError: one has no price.
    """
    for judge in sorted({member for each in judges for member in config.settings.members(each)}):
        if not config.settings.judges[judge].priced:
            raise ConfigError(
                f"--max-usd: the price of judge {judge} is unknown; write judges.{judge}.usd_per_million_input_tokens "
                "and usd_per_million_output_tokens (0 for a judge on your own machine)"
            )


def judges_of(config: Config, assignments: Iterable[Assignment]) -> set[str]:
    """The names of the judges that these evaluators use in a configuration."""
    judges = (config.evaluators[assignment.evaluator.name].judge for assignment in assignments)
    return {judge for judge in judges if judge is not None}


MOST_AT_ONCE = 20_000
"""The most evaluations under way if requests go out in batches: waiting ones cost only memory."""

Run = Callable[..., Awaitable[Result]]
"""A function that makes one evaluation, with the signature of `evaluators.evaluate`."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """The evaluations of a run and of earlier ones; `left` is the number that the spending limit left undone.
    `next_usd` is the expected cost of what comes next: one evaluation, or those of a pack.

    `failed_before` are the attempts of earlier runs that failed, whose cost was spent all the same.
    """

    evaluations: tuple[Evaluation, ...]
    left: int
    spent_usd: float
    failed_before: tuple[Evaluation, ...] = ()
    next_usd: float = 0.0


@asynccontextmanager
async def guarded_run(config: Config, *, from_logs: bool) -> AsyncGenerator[Run]:
    """The evaluation function of a command: texts are redacted as in the service, and there are no canaries.

    `from_logs` says that the texts come from a log, where they were redacted.
    """
    settings = config.settings
    redactors = open_redactors(settings.redact)
    guards = EvaluationGuardrails(Telemetry(), redactors=redactors, store_text=settings.store_text, from_logs=from_logs)
    try:
        yield guards.run
    finally:
        await guards.close()


async def run_jobs(
    jobs: Collection[Job], *, output: Path | None, concurrency: int, run: Run, max_usd: float | None = None
) -> RunResult:
    """Make the evaluations that `output` does not hold yet, and write each there as it is made.

    Raises:
        ConfigError: the output cannot be written, or is something else.
    """
    wanted = {job.evaluation_id: job for job in jobs}
    judges = {evaluation_id: id(job.judge) for evaluation_id, job in wanted.items()}
    contents, attempts = set(map(content_id, wanted.values())), read_attempts(output)
    failed = tuple(one for one in attempts if one.outcome == "failed" and content_id(one) in contents)
    known = [one for one in results_of(attempts) if one.evaluation_id in wanted]
    earlier = ((one, wanted.pop(one.evaluation_id)) for one in known if content_id(one) in contents)
    made = [ScoreScale.of(job.assignment.evaluator).of_now(one) for one, job in earlier]
    if known:
        changed = plural(len(known) - len(made), "evaluation")
        why = f"; making {changed} again, because cases have changed since"
        to_terminal(f"taking {plural(len(made), 'evaluation')} from {output}{why if len(known) > len(made) else ''}")
    if again := len({one.evaluation_id for one in failed} & wanted.keys()):
        to_terminal(f"making {plural(again, 'evaluation')} again that failed in an earlier run")
    spend_limit = SpendLimit(max_usd)
    # the jobs that ask together, and each other by itself, in the order of their first ones
    todo = deque(group_by(_ordered(wanted.values(), max_usd), lambda job: job.pack or job.evaluation_id).values())
    with open_writer(output) as write, progress_bar() as progress:
        bar = progress.add_task("", total=len(made) + len(wanted), completed=len(made), cost="")
        async with aclosing(_evaluated(todo, concurrency, run, spend_limit)) as evaluations:
            async for together in evaluations:
                write(together)  # a pack as a whole: the rest of one would be asked as a different pack
                made += together
                progress.update(bar, advance=len(together), cost=usd(spend_limit.spent) if spend_limit.spent else "")
    of_judges = group_by(made, lambda one: (one.evaluator, judges[one.evaluation_id]))
    for name in sorted({name for (name, _), evaluations in of_judges.items() if mixes_steps(evaluations)}):
        to_terminal(
            f"{name}: the scores in {output} are by several lists of evaluation steps, as the judge wrote new ones in "
            "a later run, and figures mix them; to judge all by the same steps, set log.path, or write "
            "evaluation_steps, and name a new --output"
        )
    next_usd = sum(job.assignment.expected_usd for job in todo[0]) if todo else 0.0
    return RunResult(tuple(made), sum(map(len, todo)), spend_limit.spent, failed, next_usd)


def _ordered(jobs: Collection[Job], max_usd: float | None) -> Collection[Job]:
    """The jobs in their order; with a limit, by a hash of their cases, so that those within it are a random part.

    All evaluations of a case stay together, and a later run continues in the same order.
    """
    return jobs if max_usd is None else sorted(jobs, key=lambda job: sha256(repr(job.subject).encode()).digest())


def mixes_steps(evaluations: Iterable[Evaluation]) -> bool:
    """Whether a judge wrote several lists of steps for an evaluator's scores."""
    steps: dict[object, Json] = {}
    return any(
        steps.setdefault(judge, own) != own for each in evaluations for judge, own in written_steps(each).items()
    )


def written_steps(evaluation: Evaluation) -> Mapping[object, Json]:
    """The hash of the steps by each judge that wrote some: a cascade's first or second, or the members of a jury.

    It is None for a member with a score and no steps, as earlier releases noted none.
    """
    is_second = evaluation.escalation is not None and evaluation.escalation.asks
    members = evaluation.details.get("judges")
    notes = cast("Sequence[Json]", members) if isinstance(members, list | tuple) else ()
    return {
        (is_second, place): cast("Mapping[str, Json]", details).get(STEPS_HASH)
        for place, details in enumerate((evaluation.details, *notes))
        if isinstance(details, Mapping) and (STEPS_HASH in details or (place and "error" not in details))
    }


async def _evaluated(
    todo: deque[list[Job]], concurrency: int, run: Run, spend_limit: SpendLimit
) -> AsyncGenerator[Sequence[Evaluation]]:
    """Evaluations in the order in which they end, a pack's together; `concurrency` packs run at once.

    `todo` keeps those beyond the limit.
    """
    running: dict[asyncio.Task[list[Evaluation]], Sequence[Job]] = {}
    ended: asyncio.Queue[asyncio.Task[list[Evaluation]]] = asyncio.Queue()
    try:
        while True:
            while todo and len(running) < concurrency and spend_limit.reserve(todo[0]):
                pack = todo.popleft()
                task = asyncio.create_task(_evaluate(pack, run))
                task.add_done_callback(ended.put_nowait)
                running[task] = pack
            if not running:
                return
            done = [await ended.get()]
            while not ended.empty():
                done.append(ended.get_nowait())
            for each in done:
                for job, evaluation in zip(running.pop(each), each.result(), strict=True):
                    spend_limit.settle(job, charge_of(evaluation, job.assignment))
            for each in done:
                yield each.result()
    finally:
        for each in running:
            each.cancel()


async def _evaluate(pack: Sequence[Job], run: Run) -> list[Evaluation]:
    first, case = pack[0], pack[0].case()
    runs = [partial(run, job.assignment.evaluator, case, now=utc_now) for job in pack]
    results = [await runs[0](first.judge)] if first.pack is None else await run_pack(first.judge, runs)
    return [evaluation_of(job, case, result) for job, result in zip(pack, results, strict=True)]
