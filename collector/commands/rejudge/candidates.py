"""The evaluations that a time range lacks, and the reasons why others are left out.

They follow from the contents of the evaluations log: by id, by subject, and what backfills of a stretch have cost.
"""

from collections.abc import AsyncIterator, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from collector.evaluate.plan import Plan
from collector.evaluate.recovery.control_records import ControlRecord
from collector.evaluate.references.subject import (
    ReferencesByKey,
    awaited_fields,
    references_in_log,
    references_of,
    with_references,
)
from collector.evaluate.retry.past_jobs import PastDueJob, Stretch, ended_at, past_jobs
from collector.evaluate.retry.request import BackfillRequest, PastRequest, RetryRequest
from collector.logs.log import Log
from collector.past.evaluations import (
    REPLAY_OF,
    PastEvaluation,
    evaluations_in,
    is_owed,
    is_unmade,
    key_of,
    subject_key,
)
from collector.past.merging import merged
from collector.past.turns import case_of, turns_in_log
from evaluators.cases import Conversation, Turn
from evaluators.evaluation import subject_of
from evaluators.identity import subject_id_of
from evaluators.results import Evaluation, SkipReason

What = Literal["failed", "unscored", "all"]

_AT_ONCE = 10_000
"""Failed evaluations whose subjects are in memory together."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A request that could be made, to a partition of the turns log; `happened_at` orders them."""

    request: PastRequest
    partition: int | None
    monitor: str
    evaluator: str
    happened_at: datetime


@dataclass(slots=True)
class LeftOut:
    """How many are not made, by why."""

    expired: int = 0
    no_reference: int = 0
    unused: int = 0
    unsampled: int = 0
    older: list[datetime] = field(default_factory=list[datetime])
    """When the subjects ended that did before the stretch."""


@dataclass(slots=True)
class Candidates:
    """The evaluations of a period that a plan still has to make; `plan` has the wanted monitors and evaluators alone.

    Iterate over it as often as needed, after `prepare`: each time it reads the turns log again, so that memory does not
    grow with the stretch.
    """

    turns: Log
    plan: Plan
    controls: Mapping[int, Sequence[ControlRecord]]
    known: "KnownEvaluations"
    stretch: Stretch
    what: What
    reasons: Collection[str]
    requested: frozenset[str]
    left_out: LeftOut = field(default_factory=LeftOut)
    _again: list[Candidate] = field(default_factory=list[Candidate])
    _unreferenced: int = 0
    _superseded: set[str] = field(default_factory=set[str])
    _lived: dict[tuple[str, str], tuple[datetime, datetime]] = field(
        default_factory=dict[tuple[str, str], tuple[datetime, datetime]]
    )

    async def prepare(self) -> None:
        """Look through the stretch once, for what depends on all of it."""
        await self._find_owed()
        if self.what == "failed":
            return
        for partition in range(self.turns.partitions):
            async for job in self._due(partition):
                self._superseded.update(job.job.supersedes)
                if job.job.evaluation_id in self.known.live:
                    names = _names(job)
                    first, last = self._lived.get(names, (job.happened_at, job.happened_at))
                    self._lived[names] = min(first, job.happened_at), max(last, job.happened_at)

    def _due(self, partition: int) -> AsyncIterator[PastDueJob]:
        return past_jobs(self.turns, partition, self.plan, self.controls[partition], self.stretch)

    async def all(self) -> AsyncIterator[Candidate]:
        """Evaluations that are due and not requested yet, about in the order of time."""
        self.left_out.unsampled = 0
        self.left_out.no_reference = self._unreferenced
        partitions = () if self.what == "failed" else range(self.turns.partitions)
        sources = [_listed(self._again), *(self._new(partition) for partition in partitions)]
        seen: set[str] = set()
        async for candidate in merged(sources, lambda candidate: candidate.happened_at):
            name = candidate.request.evaluation_id
            if name not in seen and name not in self.requested:
                seen.add(name)
                yield candidate

    async def _new(self, partition: int) -> AsyncIterator[Candidate]:
        """Evaluations that this definition never made, with their draws."""
        async for past_due_job in self._due(partition):
            job = past_due_job.job
            name = job.assignment.evaluation_id(*subject_id_of(past_due_job.case))
            if job.evaluation_id in self.known.ids or name in self.known.ids or job.evaluation_id in self._superseded:
                continue
            if job.skip is not None:
                self.left_out.no_reference += 1
                continue
            evaluator, subject = job.assignment.evaluator, subject_of(past_due_job.case)
            key = job.monitor.name, *subject_key(evaluator.name, evaluator.scope, subject, job.attributes)
            if self.what == "unscored" and key in self.known.by_subject:
                continue  # scored, or among the owed
            first, last = self._lived.get(_names(past_due_job), (None, None))
            if first is not None and last is not None and first <= past_due_job.happened_at <= last:
                # The evaluator was at work then and did not draw it, because the rates were different. Together with
                # what it drew, which weighs by its own rate, this one would count too much.
                self.left_out.unsampled += 1
                continue
            before = self.known.by_subject.get(key)
            request = BackfillRequest(
                evaluation_id=name,
                monitor=job.monitor.name,
                evaluator=job.assignment.evaluator.name,
                case=past_due_job.case,
                sampling=job.sampling,
                happened_at=past_due_job.happened_at,
                supersedes=job.supersedes,
                attributes={**job.attributes, **({REPLAY_OF: before} if before else {})},
            )
            yield Candidate(request, partition, job.monitor.name, request.evaluator, past_due_job.happened_at)

    async def _find_owed(self) -> None:
        """The failures of the stretch, each with its subject."""
        used = {(monitor.name, a.evaluator.name) for monitor in self.plan.monitors for a in monitor.assignments}
        owed = [judged for judged in self.known.owed.values() if self._is_wanted(judged.evaluation)]
        usable = [judged for judged in owed if (judged.evaluation.monitor, judged.evaluation.evaluator) in used]
        self.left_out.unused = len(owed) - len(usable)
        awaited = any(judged.evaluation.reason_code == SkipReason.REFERENCE_MISSING for judged in usable)
        references: ReferencesByKey = await references_in_log(self.turns) if awaited else {}
        for start in range(0, len(usable), _AT_ONCE):
            batch = usable[start : start + _AT_ONCE]
            turns = await turns_in_log(self.turns, {judged.evaluation.subject.conversation_id for judged in batch})
            for judged in batch:
                self._add_owed(judged, case_of(judged.evaluation, turns), references)
        self._again.sort(key=lambda candidate: candidate.happened_at)

    def _is_wanted(self, evaluation: Evaluation) -> bool:
        if self.what == "failed" and not is_owed(evaluation):
            return False
        if self.reasons and evaluation.reason_code not in self.reasons:
            return False
        # With `all`, evaluations that failed by an earlier definition are made new by the present one.
        version = self.known.versions[evaluation.evaluator]
        return self.what != "all" or evaluation.evaluator_version == version

    def _add_owed(self, owed: PastEvaluation, case: Turn | Conversation | None, references: ReferencesByKey) -> None:
        failed = owed.evaluation
        if case is None:  # an evaluation is made after its subject ended
            self.left_out.expired += failed.time >= self.stretch.since
            return
        happened_at = failed.happened_at or ended_at(case, failed.started_at.astimezone(UTC).timestamp())
        if happened_at < self.stretch.since and failed.evaluation_id not in self.requested:
            self.left_out.older.append(happened_at)
        if happened_at in self.stretch and failed.reason_code == SkipReason.REFERENCE_MISSING:
            # What has come after its wait; what still lacks something would be skipped once more.
            case = with_references(case, references_of(case, references))
            use = self.plan.assignment_of(failed.monitor, failed.evaluator)
            if use is None or use[1].evaluator.scope != failed.scope or awaited_fields(use[1], case):
                self._unreferenced += 1
                return
        if happened_at in self.stretch:
            request = RetryRequest(failed, case, happened_at)
            self._again.append(Candidate(request, owed.partition, failed.monitor, failed.evaluator, happened_at))


async def _listed(candidates: Sequence[Candidate]) -> AsyncIterator[Candidate]:
    for candidate in candidates:
        yield candidate


def _names(due: PastDueJob) -> tuple[str, str]:
    return due.job.monitor.name, due.job.assignment.evaluator.name


@dataclass(slots=True)
class KnownEvaluations:
    """Known evaluations by these evaluators (all, if none are named), each in its present version.

    `live` are ids of what was made as the traffic came. `by_subject` has the newest score's id of each monitor,
    evaluator and subject, None where none is a score. `owed` are failures and what was not even tried, if nothing
    supersedes it. `mean_usd` is the average cost of a scored evaluation, by the tokens and today's `prices` (by
    evaluator) where there was none then; `spent_usd` is the cost of backfills of the stretch by the present version.
    """

    versions: Mapping[str, str]
    stretch: Stretch
    prices: Mapping[str, tuple[float, float]]
    ids: set[str] = field(default_factory=set[str])
    live: set[str] = field(default_factory=set[str])
    by_subject: dict[Hashable, str | None] = field(default_factory=dict[Hashable, str | None])
    owed: dict[str, PastEvaluation] = field(default_factory=dict[str, PastEvaluation])
    spent_usd: float = 0.0
    costs: dict[str, tuple[float, int]] = field(default_factory=dict[str, tuple[float, int]])
    ends: dict[int, int] = field(default_factory=dict[int, int])
    """How far each partition was read."""

    @property
    def mean_usd(self) -> dict[str, float]:
        """By evaluator, over the evaluations that were paid for."""
        return {name: total / number for name, (total, number) in self.costs.items()}

    async def read(self, log: Log) -> None:
        """Read the log to its end."""
        superseded: set[str] = set()
        for partition in range(log.partitions):
            self.ends[partition] = await log.end_offset(partition)
            async for past in evaluations_in(log, [partition]):
                superseded.update(past.evaluation.supersedes)
                self._add(past)
        for name in superseded:
            self.owed.pop(name, None)

    def _cost(self, evaluation: Evaluation) -> float | None:
        prices, usage = self.prices.get(evaluation.evaluator), evaluation.usage
        if evaluation.cost_usd is not None or prices is None or usage is None:
            return evaluation.cost_usd
        return (prices[0] * usage.input_tokens + prices[1] * usage.output_tokens) / 1e6

    def _add(self, past: PastEvaluation) -> None:
        evaluation = past.evaluation
        self.ids.add(evaluation.evaluation_id)
        if evaluation.evaluator not in self.versions:
            return
        is_current = evaluation.evaluator_version == self.versions[evaluation.evaluator]
        if evaluation.happened_at is None:
            self.live.add(evaluation.evaluation_id)
        elif is_current and evaluation.happened_at in self.stretch:
            self.spent_usd += evaluation.cost_usd or 0.0
        key = evaluation.monitor, *key_of(evaluation)  # each monitor counts its own
        scored = evaluation.evaluation_id if evaluation.score is not None else None
        self.by_subject[key] = scored or self.by_subject.get(key)
        if scored and evaluation.shares is None and (cost := self._cost(evaluation)) is not None:
            total, number = self.costs.get(evaluation.evaluator, (0.0, 0))
            self.costs[evaluation.evaluator] = (total + cost, number + 1)
        if is_owed(evaluation) or is_unmade(evaluation):
            self.owed[evaluation.evaluation_id] = past
