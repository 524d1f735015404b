"""Missing evaluations of a past period, made by the command itself in its judges' batches, and written into the log."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from collector.backoff import Backoff
from collector.commands.rejudge.candidates import Candidate, Candidates
from collector.commands.score.runner import MOST_AT_ONCE, RunResult, guarded_run, run_jobs
from collector.config.configured import Config
from collector.evaluate.job_builder import NO_TRIGGER, requested_job
from collector.evaluate.plan import Job, Plan
from collector.evaluate.recovery.replay_point import CommitMetadata
from collector.evaluate.sampling.draw_key import draw_key
from collector.evaluate.stage import GROUP
from collector.judging.batches import at_batch_prices, open_batches
from collector.judging.open_judges import open_judges
from collector.logs.log import Log, LogError, LogUnavailable, Record
from collector.past.evaluations import evaluations_in
from collector.records.json import evaluation_to_json
from collector.service.open_logs import Logs
from collector.service.plan_builder import build_plan
from collector.wording import plural
from evaluators.judges.batches.batch_terms import BatchPace
from evaluators.results import Evaluation

INTERIM = Path("evalstream-rejudge.jsonl")
"""The file that keeps evaluations until they are in the log: they have been paid for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRun:
    """How to make them: `usd` is what may be spent; None is no limit. `output` has them until they are in the log."""

    usd: float | None
    output: Path | None
    pace: BatchPace | None
    patience: float


async def over_for_the_service(turns: Log) -> Callable[[int, Job], bool]:
    """Whether the service is done with the turns that a job is made of: what it has in hand, it makes itself.

    Raises:
        LogUnavailable: the log cannot be read now.
    """
    committed = await turns.committed(GROUP)
    metadata = {
        partition: CommitMetadata.from_json(each.metadata, each.low_watermark) for partition, each in committed.items()
    }

    def is_over(partition: int, job: Job) -> bool:
        known = metadata.get(partition)
        if known is None:
            return False
        below = known.done_below_of(job.assignment.evaluator.name, committed[partition].offset)
        return job.trigger_offset < below

    return is_over


async def make_in_batches(
    config: Config, logs: Logs, candidates: Candidates, run: BatchRun, say: Callable[[str], None]
) -> bool:
    """Make all that the money covers, and write it into the log; whether that was all.

    Raises:
        ConfigError: a judge's endpoint takes no batches, or the output cannot be used.
        LogUnavailable: the log cannot be read now.
    """
    output = run.output or INTERIM
    wanted = [candidate async for candidate in candidates.all()]
    async with AsyncExitStack() as stack:
        batches = stack.enter_context(open_batches(True, output, run.pace))
        definitions = await logs.generated_steps()
        judges = await stack.enter_async_context(open_judges(config, definitions, batches=batches))
        plan = build_plan(at_batch_prices(config), judges, (await draw_key(definitions)).secret)
        evaluate = await stack.enter_async_context(guarded_run(config, from_logs=True))
        made = await run_jobs(
            _jobs(wanted, plan), output=output, concurrency=MOST_AT_ONCE, run=evaluate, max_usd=run.usd
        )
        if batches is not None:
            batches.finish()
    partitions = {candidate.request.evaluation_id: candidate.partition for candidate in wanted}
    problem = await write_into_log(logs.evaluations, made.evaluations, partitions, run.patience)
    say(_conclusion(made, len(wanted)))
    if problem is not None:
        say(f"they could not be written to the log ({problem}); run the same command again: they are in {output}")
        return False
    if run.output is None:
        output.unlink(missing_ok=True)
    return not made.left and all(evaluation.outcome != "failed" for evaluation in made.evaluations)


def _jobs(candidates: Sequence[Candidate], plan: Plan) -> list[Job]:
    """The jobs that the service would make of these requests."""
    return [job for candidate in candidates if (job := _job(candidate, plan)) is not None]


def _job(candidate: Candidate, plan: Plan) -> Job | None:
    use = plan.assignment_of(candidate.monitor, candidate.evaluator)
    if use is None:
        return None
    job = requested_job(*use, candidate.request, NO_TRIGGER, fallback=False)
    return replace(job, evaluation_id=candidate.request.evaluation_id, happened_at=candidate.happened_at)


def _conclusion(made: RunResult, wanted: int) -> str:
    outcomes: Mapping[str, int] = Counter(evaluation.outcome for evaluation in made.evaluations)
    counts = ", ".join(f"{number:,} {outcome}" for outcome, number in sorted(outcomes.items()))
    failed = outcomes.get("failed", 0)
    parts = [f"made {len(made.evaluations):,} of {wanted:,}{f' ({counts})' if counts else ''}"]
    if made.spent_usd:
        parts.append(f"{made.spent_usd:.4g} USD spent by this run")
    if made.left:
        parts.append(f"{plural(made.left, 'evaluation')} left by --max-usd; raise it and run the command again")
    if failed:
        parts.append("what failed is not in the log; run the command again to make it")
    return "; ".join(parts)


_APPENDED_AT_ONCE = 500


async def write_into_log(
    log: Log, evaluations: Sequence[Evaluation], partitions: Mapping[str, int | None], patience: float
) -> LogError | None:
    """Append what the log does not have, but for failures, each into its partition by its id.

    While the log is unavailable, this is tried again, for `patience` seconds; returns the error that remains, None if
    none does.
    """
    problems: list[LogError] = []
    action = f"writing to the evaluations log (for up to {patience:g} s)"
    try:
        async with asyncio.timeout(patience):
            await Backoff(cap=10.0).repeat(
                lambda: _append(log, evaluations, partitions),
                LogUnavailable,
                action=action,
                on_failure=problems.append,
            )
    except TimeoutError:
        return problems[-1] if problems else LogUnavailable(f"no answer within {patience:g} s")
    except LogError as error:
        return error
    return None


async def _append(log: Log, evaluations: Sequence[Evaluation], partitions: Mapping[str, int | None]) -> None:
    existing = {past.evaluation.evaluation_id async for past in evaluations_in(log)}
    records = [
        Record(
            evaluation.evaluation_id.encode(),
            evaluation_to_json(evaluation),
            partition=partitions[evaluation.evaluation_id],
        )
        for evaluation in evaluations
        if evaluation.evaluation_id not in existing and evaluation.outcome != "failed"
    ]
    for start in range(0, len(records), _APPENDED_AT_ONCE):
        await log.append(records[start : start + _APPENDED_AT_ONCE])
