"""The evaluations that a time range lacks, and the reasons why others are left out.

They follow from the contents of the evaluations log: by id, by subject, and what backfills of a stretch have cost.
"""

from bisect import bisect_left, bisect_right, insort
from collections import ChainMap, Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Literal

from collector.evaluate.job_builder import NO_TRIGGER, requested_job
from collector.evaluate.plan import Plan
from collector.evaluate.recovery.configurations import UNNUMBERED, Configurations
from collector.evaluate.recovery.control_records import ControlRecord
from collector.evaluate.recovery.past_plans import PlanHistory, switches_of
from collector.evaluate.recovery.replay_point import CommitMetadata
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
from collector.past import evaluations
from collector.past.merging import merge
from collector.past.turns import case_of, turns_in_log
from collector.records.epochs import RecentIds
from collector.records.grouping import group_by
from evaluators.cases import Conversation, Turn
from evaluators.evaluation import subject_of
from evaluators.identity import conversation_id_of, retry_id, subject_id_of
from evaluators.results import Evaluation, SkipReason

What = Literal["failed", "unscored", "all"]
Reason = Literal["unused", "expired", "sampled_out", "no_reference", "in_flight", "unsampled", "represented"]
"""Why a subject that lacks an evaluation gets none. sampled_out: by today's rate; unsampled: by the rate then."""

_Names = tuple[str, str]
"""A monitor and an evaluator."""
_AT_ONCE = 10_000
"""Failed evaluations whose subjects are in memory together."""
_EXACT = 1 - 1e-9
"""A rate below this part of another is lower: an evaluator's own draw was divided out of it, so it is rounded."""
_ENOUGH = 1_000
"""Missing evaluations in a row that end a part of an earlier run, even if some of them may be superseded."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A request that could be made, to a partition of the turns log; `happened_at` orders them.

    It `pays` for its verdict, unless an earlier candidate of another monitor does that shares it.
    """

    request: PastRequest
    partition: int | None
    monitor: str
    happened_at: datetime
    pays: bool = True


@dataclass(slots=True)
class LeftOut:
    """How many are not made, by why."""

    older: list[datetime] = field(default_factory=list[datetime])
    """When the subjects ended that did before the stretch."""
    by_reason: Counter[Reason] = field(default_factory=Counter[Reason])


@dataclass(slots=True)
class Candidates:
    """The evaluations of a period that a plan still has to make; `plan` has the wanted monitors and evaluators alone.
    `committed` has, of each partition, how far its records were delivered, and what was done by then. `requested` has
    the evaluators and rates of evaluations, by id, that earlier runs requested and that may not be made yet.

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
    requested: Mapping[str, tuple[str, float]]
    history: PlanHistory
    committed: Mapping[int, tuple[CommitMetadata, int]]
    left_out: LeftOut = field(default_factory=LeftOut)
    _again: list[Candidate] = field(default_factory=list[Candidate])
    _never_again: Counter[Reason] = field(default_factory=Counter[Reason])
    """The failures that have no retry, by why."""
    _owed: Mapping[Hashable, Sequence[Evaluation]] = field(default_factory=dict[Hashable, Sequence[Evaluation]])
    _superseded: set[str] = field(default_factory=set[str])
    _lived: dict[_Names, tuple[datetime, datetime]] = field(default_factory=dict[_Names, tuple[datetime, datetime]])
    _earlier_runs: "EarlierRuns" = field(init=False)

    async def prepare(self) -> None:
        """Look through the stretch once, for what depends on all of it."""
        requested = {name: rate for name, (_, rate) in self.requested.items()}
        self._earlier_runs = EarlierRuns(self.plan, ChainMap(self.known.rates, requested))
        await self._find_owed()
        if self.what == "failed" or self.reasons:
            return
        self._owed = group_by((past.evaluation for past in self.known.owed.values()), _key)
        for partition in range(self.turns.partitions):
            async for job in self._due(partition):
                self._superseded.update(job.job.supersedes)
                self._earlier_runs.add(job, is_left=self._is_left(job))
                if not self.known.live.isdisjoint((job.job.evaluation_id, _key_of(job))):
                    first, last = self._lived.get(_names(job), (job.happened_at, job.happened_at))
                    self._lived[_names(job)] = min(first, job.happened_at), max(last, job.happened_at)
        if self._again:  # a failure that a backfill supersedes has no retry, which would be at the old rate
            sources = [self._new(partition) for partition in range(self.turns.partitions)]
            superseded = {name for source in sources async for new in source for name in new.request.supersedes}
            self._again = [retry for retry in self._again if retry.request.supersedes[0] not in superseded]

    def _due(self, partition: int, *, with_sampled_out: bool = False) -> AsyncIterator[PastDueJob]:
        controls = self.controls[partition]
        return past_jobs(self.turns, partition, self.plan, controls, self.stretch, with_sampled_out=with_sampled_out)

    async def all(self, *, count_sampled_out: bool = False) -> AsyncIterator[Candidate]:
        """Evaluations that are due and not requested yet, about in the order of time. To count what is sampled out, it
        reads every turn, which takes several times as long at low rates.
        """
        self.left_out.by_reason = self._never_again.copy()
        partitions = () if self.what == "failed" or self.reasons else range(self.turns.partitions)
        sources = [_listed(self._again), *(self._new(each, with_sampled_out=count_sampled_out) for each in partitions)]
        seen, paid = set[str](), set[str]()
        async for candidate in merge(sources, lambda candidate: candidate.happened_at):
            name = candidate.request.evaluation_id
            if name not in seen and name not in self.requested:
                verdict = self._verdict_of(candidate)
                yield replace(candidate, pays=verdict not in paid)
                seen.add(name)
                paid.add(verdict)

    def _verdict_of(self, candidate: Candidate) -> str:
        """The id of the evaluation whose verdict it is, by the rule by which the service shares verdicts."""
        use = self.plan.assignment_of(candidate.monitor, candidate.request.evaluator)
        job = requested_job(*use, candidate.request, NO_TRIGGER, fallback=False) if use else None
        return job.verdict_ids[0] if job and job.verdict_ids else candidate.request.evaluation_id

    async def _new(self, partition: int, *, with_sampled_out: bool = False) -> AsyncIterator[Candidate]:
        """Evaluations that this definition never made, and that were not requested, with their draws."""
        in_force = Configurations(switches_of((0, UNNUMBERED), self.controls[partition]), self.plan)
        recent = RecentIds()  # a sender may send a turn again
        async for past_due_job in self._due(partition, with_sampled_out=with_sampled_out):
            job = past_due_job.job
            name, known = _name_of(past_due_job), self._earlier_runs.rates
            is_made, repaired = job.evaluation_id in known or name in known, self._repaired_at_less(past_due_job)
            if is_made or job.evaluation_id in self._superseded or (self._is_left(past_due_job) and not repaired):
                continue
            if (reason := await self._reason_against(past_due_job, in_force)) is not None:
                self.left_out.by_reason[reason] += not recent.repeats(name)
                continue
            key = _key_of(past_due_job)
            replayed = {evaluations.REPLAY_OF: before} if (before := self.known.by_subject.get(key)) else {}
            owed = (name for failed in self._owed.get(key, ()) for name in (failed.evaluation_id, *failed.supersedes))
            superseded = dict.fromkeys((*repaired, *owed, *job.supersedes))
            request = BackfillRequest(
                evaluation_id=name, monitor=job.monitor.name, evaluator=job.assignment.evaluator.name,
                case=past_due_job.case, sampling=job.sampling, happened_at=past_due_job.happened_at,
                supersedes=tuple(superseded), attributes={**job.attributes, **replayed},
            )  # fmt: skip
            yield Candidate(request, partition, job.monitor.name, past_due_job.happened_at)

    async def _reason_against(self, past: PastDueJob, in_force: Configurations) -> Reason | None:
        """Why a subject that lacks the evaluation gets none."""
        job, (committed, delivered) = past.job, self.committed.get(past.partition, (CommitMetadata(), 0))
        if job.skip is not None:
            return "no_reference"
        in_flight = job.trigger_offset >= committed.done_below_of(job.assignment.evaluator.name, delivered)
        lived = None if _key_of(past) in self.known.by_others else self._lived.get(_names(past))
        of_then = await self._of_then(past, in_force) if in_flight or lived else "not due"
        if in_flight and of_then == "due":
            return "in_flight"
        # The evaluator did not draw it. What it drew, before or after, weighs by the rate of then, for this one, too.
        was_at_work = lived is not None and lived[0] <= past.happened_at <= lived[1]
        if of_then == "sampled out" or (was_at_work and of_then != "not due"):
            return "unsampled"
        if not past.is_sampled:
            return "sampled_out"
        return "represented" if self._earlier_runs.stand_for(past, self._superseded) else None

    def _is_left(self, past: PastDueJob) -> bool:
        """Whether the subject has a score or is among the owed; for `all`, whether this version judged it or will, as a
        retry, under another id.
        """
        key = _key_of(past)
        if self.what == "unscored":
            return key in self._owed or key in self.known.by_subject
        is_judged = self._is_retried(key) or key in self.known.by_present
        return is_judged and _name_of(past) not in self._earlier_runs.rates

    def _is_retried(self, key: Hashable) -> bool:
        return any(retry_id(failed.evaluation_id) in self.requested for failed in self._owed.get(key, ()))

    def _repaired_at_less(self, past: PastDueJob) -> tuple[str, ...]:
        """The evaluation by which this version retried another one's failure, if its rate is below the present one.

        It would count for subjects that this run draws, too, so `all` replaces it.
        """
        key, present = _key_of(past), past.job.sampling.probability * _EXACT
        made = self.known.by_present.get(key, "")
        is_less = self.known.rates.get(made, 1.0) < present and key not in self.known.live and not self._is_retried(key)
        return (made,) if self.what == "all" and is_less and past.is_sampled else ()

    async def _of_then(
        self, past: PastDueJob, in_force: Configurations
    ) -> Literal["due", "sampled out", "not due", "unknown"]:
        """Whether this definition was in force when the subject came, and its rate drew the subject."""
        job = past.job
        if (plan := await self.history.plan_of(in_force.number_at(job.trigger_offset))) is None:
            return "unknown"
        use = plan.assignment_of(*_names(past))
        if use is None or use[1].definition != job.assignment.definition:
            return "not due"
        then, now = use[0].probability(use[1], 1.0, 1.0), job.monitor.probability(job.assignment, 1.0, 1.0)
        upstream = 1.0 if job.sampling.upstream == "unknown" else job.sampling.upstream
        chance = job.sampling.probability / upstream * then / now  # the budget's factor was the same
        return "due" if plan.draw(use[1], conversation_id_of(past.case)) < chance else "sampled out"

    async def _find_owed(self) -> None:
        """The failures of the stretch, each with its subject."""
        owed = [judged for judged in self.known.owed.values() if self._is_wanted(judged.evaluation)]
        usable: list[evaluations.PastEvaluation] = []
        for judged in owed:
            if self.plan.assignment_of(judged.evaluation.monitor, judged.evaluation.evaluator) is not None:
                usable.append(judged)
            else:
                self._never_again["unused"] += self.stretch.may_have_subject_of(judged.evaluation)
        awaited = any(judged.evaluation.reason_code == SkipReason.REFERENCE_MISSING for judged in usable)
        references: ReferencesByKey = await references_in_log(self.turns) if awaited else {}
        for start in range(0, len(usable), _AT_ONCE):
            batch = usable[start : start + _AT_ONCE]
            turns = await turns_in_log(self.turns, {judged.evaluation.subject.conversation_id for judged in batch})
            for judged in batch:
                self._add_owed(judged, case_of(judged.evaluation, turns), references)
        self._again.sort(key=lambda candidate: candidate.happened_at)

    def _is_wanted(self, evaluation: Evaluation) -> bool:
        score = self.known.by_subject[_key(evaluation)]
        has_present_score = score is not None and score == self.known.by_present.get(_key(evaluation))
        if has_present_score or (self.what == "failed" and not evaluations.needs_retry(evaluation)):
            return False
        if self.what != "all":
            return not self.reasons or evaluation.reason_code in self.reasons
        return self.known.is_current(evaluation) or score is None

    def _add_owed(
        self, owed: evaluations.PastEvaluation, case: Turn | Conversation | None, references: ReferencesByKey
    ) -> None:
        failed = owed.evaluation
        if case is None:  # an evaluation is made after its subject ended
            self._never_again["expired"] += self.stretch.may_have_subject_of(failed)
            return
        happened_at = failed.happened_at or ended_at(case, failed.started_at.astimezone(UTC).timestamp())
        if happened_at < self.stretch.since and failed.evaluation_id not in self.requested:
            self.left_out.older.append(happened_at)
        if happened_at not in self.stretch or (self.what == "all" and not self.known.is_current(failed)):
            return  # of another version, the present one makes a new evaluation
        use = self.plan.assignment_of(failed.monitor, failed.evaluator)
        backfill = use[1].evaluation_id(*subject_id_of(case)) if use else ""
        if backfill in self.requested and backfill not in self.known.rates:
            return  # by `all` or `unscored`, in its place
        if failed.reason_code == SkipReason.REFERENCE_MISSING:
            # What has come after its wait; what still lacks something would be skipped once more.
            case = with_references(case, references_of(case, references))
            if use is None or use[1].evaluator.scope != failed.scope or awaited_fields(use[1], case):
                self._never_again["no_reference"] += 1
                return
        request = RetryRequest(failed, case, happened_at)
        self._again.append(Candidate(request, owed.partition, failed.monitor, happened_at))


async def _listed(candidates: Sequence[Candidate]) -> AsyncIterator[Candidate]:
    for candidate in candidates:
        yield candidate


def _key(evaluation: Evaluation) -> Hashable:
    return evaluation.monitor, *evaluations.key_of(evaluation)  # each monitor counts its own


def _key_of(due: PastDueJob) -> Hashable:
    evaluator, subject = due.job.assignment.evaluator, subject_of(due.case)
    return due.job.monitor.name, *evaluations.subject_key(evaluator.name, evaluator.scope, subject)


def _names(due: PastDueJob) -> _Names:
    return due.job.monitor.name, due.job.assignment.evaluator.name


def _name_of(due: PastDueJob) -> str:
    """The id that its backfill has."""
    return due.job.assignment.evaluation_id(*subject_id_of(due.case))


@dataclass(slots=True)
class EarlierRuns:
    """The parts of the log that earlier runs judged at a lower rate than the present one.

    An earlier run goes through the log in order, and requests what its rate draws. A part goes from one of these
    evaluations to another, and lacks none that the lower rate draws: that run did not come to what is lacking. The
    evaluations of a part weigh by the lower rate, so they stand for all subjects in it.

    `rates` has, by evaluation id, the rates of what is made or requested.
    """

    plan: Plan
    rates: Mapping[str, float]
    _requested: defaultdict[Hashable, list[int]] = field(default_factory=lambda: defaultdict(list))
    """The offsets of evaluations that were requested at a lower rate, made by now or not."""
    _shares: dict[Hashable, float] = field(default_factory=dict[Hashable, float])
    """The lower rate divided by the present one, by stratum: a boosted rate is at most 1, so it may have a share of its
    own.
    """
    _missing: defaultdict[Hashable, list[tuple[int, str]]] = field(default_factory=lambda: defaultdict(list))
    """The offsets and ids of evaluations that the lower rate draws and that were not requested at it; of many in a row
    only the first.
    """

    def add(self, due: PastDueJob, *, is_left: bool = False) -> None:
        """Add an evaluation, made or not; those of a partition about in the log's order.

        `is_left`: no run makes it, as its subject has another evaluation.
        """
        key, job, present = (due.partition, _names(due)), due.job, due.job.sampling.probability
        lower = self._shares.get((key, job.sampling.stratum), 0.0) * present
        if (rate := self.rates.get(_name_of(due), present)) < present * _EXACT:
            insort(self._requested[key], job.trigger_offset)
            self._shares[key, job.sampling.stratum] = rate / present
        elif not (is_left or job.skip) and self.plan.draw(job.assignment, conversation_id_of(due.case)) < lower:
            missing, after = self._missing[key], self._requested[key][-1]
            if len(missing) - bisect_left(missing, (after,)) < _ENOUGH:
                insort(missing, (job.trigger_offset, job.evaluation_id))

    def stand_for(self, due: PastDueJob, superseded: Collection[str]) -> bool:
        """Whether the evaluations of an earlier run stand for a subject that it did not draw.

        No run makes what it must skip, or what is `superseded`: neither ends a part.
        """
        key, offset = (due.partition, _names(due)), due.job.trigger_offset
        requested, missing = self._requested[key], self._missing[key]
        before, after = bisect_right(requested, offset) - 1, bisect_left(requested, offset)
        if before < 0 or after == len(requested):
            return False
        first, end = bisect_left(missing, (requested[before],)), bisect_left(missing, (requested[after] + 1,))
        return end - first < _ENOUGH and all(missing[at][1] in superseded for at in range(first, end))


@dataclass(slots=True)
class KnownEvaluations:
    """Known evaluations by these evaluators (all, if none are named), each in its present version.

    `rates` are those of the draws, by id, without an evaluator's own draws. `live` are ids of what was made as the
    traffic came, and the subjects that the present version judged so; `by_others` are those that other versions judged
    so. `by_present` has the newest id by which the present version has judged a subject: a retry has the same id in
    each version, and a monitor's ids change with its place. `by_subject` has the newest score's id of each monitor,
    evaluator and subject, None where none is a score.
    `owed` are failures and what was not even tried, of the `selected` monitors, if nothing supersedes it; `failures`
    are types of failures. `mean_usd` is the average of what scored evaluations would cost now (`usd_now`);
    `spent` is the cost of the `selected` backfills by monitor and evaluator, whichever version made them.
    """

    versions: Mapping[tuple[str, str], str]
    selected: evaluations.EvaluationFilter
    usd_now: Callable[[Evaluation], float | None]
    live: set[Hashable] = field(default_factory=set[Hashable])
    rates: dict[str, float] = field(default_factory=dict[str, float])
    by_others: set[Hashable] = field(default_factory=set[Hashable])
    by_present: dict[Hashable, str] = field(default_factory=dict[Hashable, str])
    by_subject: dict[Hashable, str | None] = field(default_factory=dict[Hashable, str | None])
    owed: dict[str, evaluations.PastEvaluation] = field(default_factory=dict[str, evaluations.PastEvaluation])
    failures: set[str] = field(default_factory=set[str])
    spent: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))
    costs: dict[str, tuple[float, int]] = field(default_factory=dict[str, tuple[float, int]])
    ends: dict[int, int] = field(default_factory=dict[int, int])
    """How far each partition was read."""

    @property
    def mean_usd(self) -> dict[str, float]:
        """By evaluator, over the evaluations that were paid for."""
        return {name: total / number for name, (total, number) in self.costs.items()}

    async def read(self, log: Log) -> None:
        """Read the log to its end."""
        superseded, evaluators = set[str](), {name for _, name in self.versions}
        for partition in range(log.partitions):
            self.ends[partition] = await log.end_offset(partition)
            async for past in evaluations.evaluations_in(log, [partition]):
                superseded.update(past.evaluation.supersedes)
                self._add(past, evaluators)
        for name in superseded:
            self.owed.pop(name, None)

    def is_current(self, evaluation: Evaluation) -> bool:
        """Whether the present version of its evaluator made it."""
        return evaluation.evaluator_version == self.versions.get((evaluation.monitor, evaluation.evaluator))

    def cost_of(self, evaluation: Evaluation) -> float:
        """The cost of a selected backfill. 0 for others, which the limit does not cover, and for one that is known, as
        what comes while the log is read is read again.
        """
        is_covered = evaluation.happened_at and self.selected.covers(evaluation)
        return evaluation.cost_usd or 0.0 if is_covered and evaluation.evaluation_id not in self.rates else 0.0

    def _add(self, past: evaluations.PastEvaluation, evaluators: Collection[str]) -> None:
        evaluation = past.evaluation
        self.spent[evaluation.monitor, evaluation.evaluator] += self.cost_of(evaluation)
        self.rates[evaluation.evaluation_id] = evaluation.sampling.of_subject.probability
        self.failures.update([evaluation.reason_code] if evaluation.outcome == "failed" else ())
        if evaluation.evaluator not in evaluators:
            return
        key, is_current = _key(evaluation), self.is_current(evaluation)
        if is_current:
            self.by_present[key] = evaluation.evaluation_id
        if evaluation.happened_at is None and evaluation.retry is None:
            (self.live if is_current else self.by_others).add(key)
            self.live.add(evaluation.evaluation_id)
        scored = evaluation.evaluation_id if evaluation.score is not None else None
        self.by_subject[key] = scored or self.by_subject.get(key)
        if scored and evaluation.shares is None and (cost := self.usd_now(evaluation)) is not None:
            total, number = self.costs.get(evaluation.evaluator, (0.0, 0))
            self.costs[evaluation.evaluator] = (total + cost, number + 1)
        is_selected = not self.selected.monitors or evaluation.monitor in self.selected.monitors
        if is_selected and (evaluations.needs_retry(evaluation) or evaluations.was_never_tried(evaluation)):
            self.owed[evaluation.evaluation_id] = past
