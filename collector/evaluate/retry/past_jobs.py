"""The evaluations that past turns make due by the current plan: the same fold as the stage's, over a part of the turns
log.

Because it is the same fold, with the same decisions of the partition's owners, a subject is drawn as it was then if the
plan is still the same. It gets the same probability, revision and id.
"""

from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from collector.evaluate.budget.windows import Budget
from collector.evaluate.partition_state import PartitionState
from collector.evaluate.plan import Job, Plan
from collector.evaluate.recovery.control_records import ControlRecord, decisions_in
from collector.evaluate.recovery.replay_point import ReplayPoint
from collector.evaluate.retry.request import is_retry_request
from collector.logs.log import Log, records_from
from collector.records.epochs import CONTROL_HEADERS, Fence
from evaluators.cases import Conversation, Turn
from evaluators.results import Evaluation

_LIFTED = Budget(usd_per_hour=float("inf"))
"""A budget that reduces nothing now. The fold applies recorded rates only to monitors with a budget."""


@dataclass(frozen=True, slots=True)
class PastDueJob:
    """An evaluation that a past record makes due, its subject, and when the subject ended.

    If it is not sampled, the evaluation would be due if its subject were in the sample.
    """

    job: Job
    partition: int
    case: Turn | Conversation
    happened_at: datetime
    is_sampled: bool = True


@dataclass(frozen=True, slots=True)
class Stretch:
    """A range of time: subjects that ended at or after `since` and before `until`."""

    since: datetime
    until: datetime

    def __contains__(self, moment: datetime) -> bool:
        return self.since <= moment < self.until

    def may_have_subject_of(self, evaluation: Evaluation) -> bool:
        """Whether an evaluation's subject may have ended in it; a live evaluation says only that it ended before."""
        return evaluation.time >= self.since and (evaluation.happened_at is None or evaluation.time < self.until)


def plan_of(plan: Plan, monitors: Collection[str], evaluators: Collection[str]) -> Plan:
    """The plan with only these monitors and evaluators; no names mean all."""

    def wanted(name: str, names: Collection[str]) -> bool:
        return not names or name in names

    return replace(
        plan,
        monitors=tuple(
            replace(monitor, assignments=tuple(a for a in monitor.assignments if wanted(a.evaluator.name, evaluators)))
            for monitor in plan.monitors
            if wanted(monitor.name, monitors)
        ),
    )


async def control_records_in(evaluations: Log, partition: int) -> Sequence[ControlRecord]:
    """The valid control records of a partition."""
    fence, controls = Fence(), list[ControlRecord]()
    async for record in records_from(evaluations, partition, 0):
        if fence.observe(record) and record.headers == CONTROL_HEADERS:
            controls += decisions_in(record)
    return controls


async def past_jobs(
    turns: Log,
    partition: int,
    plan: Plan,
    controls: Sequence[ControlRecord],
    stretch: Stretch,
    *,
    with_sampled_out: bool = False,
) -> AsyncIterator[PastDueJob]:
    """The evaluations that a part of a partition makes due, in the log's order, up to the log's present end; also those
    of turns that are not in the sample, if wanted.

    The factors of that time apply: a budget removed since reduces rates of its own time, a new budget none earlier.
    """
    # Why not by the factor of now: a second run, at another factor, would draw more turns, and each has one weight.
    state: PartitionState | None = None
    has_conversations = any(monitor.of_scope("conversation") for monitor in plan.monitors)
    since, sampled_out = stretch.since.timestamp(), list[Job]()
    async for record in records_from(turns, partition, 0):
        if state is None:
            # A conversation is assembled from its first turn on. A turn ended before the log took it.
            if not has_conversations and record.timestamp < since:
                continue
            state = PartitionState(replace(plan, budget=_LIFTED), ReplayPoint(record.offset), controls)
            state.on_sampled_out = sampled_out.append if with_sampled_out else None
        if is_retry_request(record):
            continue
        sampled = [(job, True) for job in await state.apply(record)]
        for job, is_sampled in (*sampled, *((job, False) for job in sampled_out)):
            case = job.case()
            happened_at = ended_at(case, job.triggered_at)
            if happened_at in stretch:
                yield PastDueJob(job, partition, case, happened_at, is_sampled)
        sampled_out.clear()


def ended_at(case: Turn | Conversation, otherwise: float) -> datetime:
    """When a subject ended; `otherwise` (s since the epoch) if its turns have no time."""
    times = [turn.ended_at or turn.started_at for turn in ((case,) if isinstance(case, Turn) else case.turns)]
    return max(filter(None, times), default=datetime.fromtimestamp(otherwise, UTC))
