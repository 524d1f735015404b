"""The state of a partition, a pure function of its records: it says which evaluations become due.

An evaluation is *due* as soon as it must be made. A *job* is one due evaluation: one evaluator judges one subject. This
module has no clock, no log and no judge. Evaluators without a judge run here if the sampling rate of a turn depends
on their score: they only compute, so every replay gives the same score.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal

from collector.errors import BadInput
from collector.evaluate.budget.rates import UNPLANNED, UNREDUCED, RateReduction, Rates
from collector.evaluate.conversations.packed_turn import IncomingTurn, pack, prior_user_hashes
from collector.evaluate.conversations.partition_conversations import PartitionConversations
from collector.evaluate.conversations.session_window import SessionWindow, SessionWindowSettings, WindowResult
from collector.evaluate.conversations.snapshot import SNAPSHOT_HEADERS, parse_snapshot
from collector.evaluate.job_builder import (
    StratifiedTurn,
    Trigger,
    closed_conversation,
    conversation_job,
    requested_job,
    superseded_ids,
    transferred_job,
    turn_job,
)
from collector.evaluate.outcomes import OutcomeCounter, TurnOutcome
from collector.evaluate.plan import Assignment, Job, Monitor, Plan
from collector.evaluate.recovery.control_records import CONTROL_HEADERS, ControlRecord
from collector.evaluate.recovery.replay_point import ReplayPoint
from collector.evaluate.references.join import ReferenceJoin
from collector.evaluate.retry.request import BackfillRequest, is_retry_request, parse_request
from collector.evaluate.sampling.draw import draw
from collector.evaluate.sampling.strata import EVERYTHING
from collector.evaluate.transfer import transfer_records
from collector.logs.log import StoredRecord
from collector.records.attributes import declared_attributes
from collector.records.epochs import RecentIds
from collector.records.recorded_turn import RecordedTurn
from collector.records.references import REFERENCE_HEADERS, is_reference, parse_reference
from collector.records.shared_records import is_shared, needed_pieces
from collector.records.turns import conversation_key, happened_at, turn_id_in
from evaluators.cases import Conversation, Turn, scope_of
from evaluators.evaluation import evaluate
from evaluators.judge import NoJudge
from evaluators.results import Score


class PlanInForce:
    """The plan and the rates in force. A plan has the monitors of one configuration.

    `former` are the earlier plans since the replay point, each up to an offset. `past` begins with the plans
    before the replay point. `rates` are the sampling rates after budgets and `sample: auto` reduced them.
    """

    def __init__(self, newest: Plan, former: Iterable[tuple[int, Plan]], past: Iterable[Plan], rates: Rates) -> None:
        self.plan = Plan(())
        self.past = list(past)
        """The plans that were in force before the present one."""
        self.turn_demands: Sequence[tuple[Monitor, Assignment, float]] = ()
        """Budgets add up the sampling probabilities (before any reduction) of all turns, sampled or not. For a turn
        in no sample these are added, one for each evaluator of turns."""
        self._newest = newest
        self._former = deque(former)
        self.rates = rates
        self._reducible: set[str] = set()
        self._auto_rated: set[str] = set()
        self._chances: Sequence[tuple[str, float]] | None = None

    def advance(self, offset: int) -> bool:
        """Put the plan of an offset in force. Returns whether the plan has changed."""
        while self._former and self._former[0][0] <= offset:
            self._former.popleft()
        plan = self._former[0][1] if self._former else self._newest
        if plan is self.plan:
            return False
        if self.plan.monitors:
            self.past.append(self.plan)
        self.plan = plan
        self._auto_rated = {monitor.name for monitor in plan.monitors if monitor.standard_error is not None}
        limited = {monitor.name for monitor in plan.monitors if monitor.budget.limited or plan.budget.limited}
        self._reducible = limited | self._auto_rated
        self.turn_demands = [
            (monitor, assignment, monitor.probability(assignment, 1.0, 1.0))
            for monitor in plan.monitors
            for assignment in monitor.of_scope("turn")
        ]
        self._chances = self._chances_by_salt()
        return True

    def set_rates(self, rates: Rates) -> None:
        """Sample the next records at these rates."""
        self.rates = rates
        self._chances = self._chances_by_salt()

    def reduction(self, monitor: str) -> RateReduction:
        """The reduction of a monitor's rates; `UNREDUCED` if neither a budget nor `sample: auto` applies to it now."""
        if monitor in self._auto_rated and monitor not in self.rates.by_monitor:
            return UNPLANNED
        return self.rates.of(monitor) if monitor in self._reducible else UNREDUCED

    def uses_fallback(self, monitor: str) -> bool:
        """Whether a monitor's fallback judges are in use."""
        return self.reduction(monitor).fallback

    def _chances_by_salt(self) -> Sequence[tuple[str, float]] | None:
        """The highest sampling probability of each salt, a seed of draws. None if it depends on the turns' content."""
        if any(monitor.reads_content for monitor in self.plan.monitors):
            return None
        chances: dict[str, float] = {}
        for monitor in self.plan.monitors:
            factor = self.reduction(monitor.name).factor
            for assignment in monitor.assignments:
                salt = self.plan.salt_of(assignment)
                chances[salt] = max(chances.get(salt, 0.0), monitor.probability(assignment, factor, 1.0))
        return list(chances.items())

    def sampled_out(self, record_key: bytes | None) -> str | None:
        """The conversation's key if the key alone shows that no evaluator of any monitor selects it; else None."""
        # This runs before the record is parsed. At low rates most records cost no more than this one hash.
        if self._chances is None or record_key is None:
            return None
        key = record_key.decode(errors="replace")
        for salt, chance in self._chances:
            if draw(salt, key) < chance:
                return None
        return key


_RECORD_WORK = 0.2
"""The work of a record, and of each unread turn in a shared record. A turn that is read adds 1."""
_Unsampled = Literal["sampled_out", "duplicate"]
_NO_TIME = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class StateLimits:
    """Limits of the state of a partition, for each monitor.

    At most `conversations` windows are in memory, in about `bytes`; beyond that the oldest are evicted: closed early. A
    conversation is written as a snapshot if a restart would read more than `snapshot_records` records,
    `snapshot_turns` turns or `snapshot_seconds` of the log for it. If the record of a pending job lies more than
    `snapshot_records` records back, the partition waits for the job.
    """

    conversations: int = 100_000
    bytes: int = 256 << 20
    snapshot_records: int = 1_000_000
    snapshot_seconds: float = 7200.0
    snapshot_turns: int = 250_000


class PartitionState:
    """The state of one partition, from the replay point `start` on.

    A control record has a decision that does not follow from the turns, such as new rates or an eviction. Earlier
    owners wrote `control_records`; each is applied again at its offset. `former` and `past` are those of `PlanInForce`:
    a reopened window supersedes evaluations of `past` plans. `is_over(job)` says whether a job of the replay had ended
    before the restart. `PartitionProcessor` sets `outcomes` after the records that a former owner counted.
    """

    def __init__(
        self,
        plan: Plan,
        start: ReplayPoint,
        control_records: Iterable[ControlRecord] = (),
        former: Iterable[tuple[int, Plan]] = (),
        past: Iterable[Plan] = (),
        is_over: Callable[[Job], bool] = lambda _job: False,
    ) -> None:
        self.outcomes = OutcomeCounter()
        self.references = ReferenceJoin(
            {monitor.name: monitor.reference_wait for monitor in plan.monitors if monitor.reference_wait is not None},
            is_over,
            lambda: self.outcomes,
        )
        self.on_bad_record: Callable[[StoredRecord, BadInput], None] = lambda _record, _error: None
        self.report_demand: Callable[[Monitor, Assignment, float], None] | None = None
        self.on_sampled_out: Callable[[Job], None] | None = None
        """Receives the jobs of turns that are not in the sample; if set, the content of every turn is read."""
        self.recent_turns = RecentIds()
        """The turns that came last. A turn that comes again is counted as a duplicate, wanted or not."""
        self.time = start.time
        self.next_offset = start.offset
        self.work = 0.0
        """The cost of applying the records so far: reading the content of a turn costs 1, a snapshot nothing."""
        self._in_force = PlanInForce(plan, former, past, start.rates)
        self.windows = PartitionConversations(self._in_force.uses_fallback)
        self.sessions_by_monitor = self.windows.by_monitor
        self._timestamp = start.time
        controls = deque[ControlRecord]()
        for control in control_records:  # of two decisions about a snapshot, the one that was written last applies
            self.windows.decide_validity(control.snapshot_validity or {})
            controls.append(replace(control, snapshot_validity=None))
        self._control_records = deque(sorted(controls, key=lambda control: control.offset))
        self._choose_plan(start.offset)
        self._apply_controls_up_to(start.offset)

    @property
    def rates(self) -> Rates:
        """The rates in force."""
        return self._in_force.rates

    @property
    def replay_point(self) -> ReplayPoint:
        """The replay point of the next record."""
        return ReplayPoint(self.next_offset, self.time, self._in_force.rates)

    def apply_control(self, control: ControlRecord) -> list[Job]:
        """Apply a control record; returns the jobs that it makes due."""
        if control.rates is not None:
            self._in_force.set_rates(control.rates)
        self.windows.decide_validity(control.snapshot_validity or {})
        jobs: list[Job] = []
        for name, conversation_ids in (control.evictions or {}).items():
            if name in self.sessions_by_monitor:
                monitor = next(monitor for monitor in self._in_force.plan.monitors if monitor.name == name)
                for conversation_id in conversation_ids:
                    for result in self.sessions_by_monitor[name].evict(conversation_id):
                        jobs += self._conversation_jobs(monitor, result, max(0, self.next_offset - 1))
        return jobs

    async def apply(self, record: StoredRecord) -> list[Job]:
        """Apply the next record; returns the jobs that it makes due."""
        if record.timestamp < self.time:  # time never goes back, even if a replay begins after the record that set it
            record = replace(record, timestamp=self.time)
        self._choose_plan(record.offset)
        jobs = self._apply_controls_up_to(record.offset)
        self.next_offset = record.offset + 1
        self._timestamp = record.timestamp
        if record.headers != SNAPSHOT_HEADERS:
            self.work += _RECORD_WORK
        if self.references.is_used:
            jobs += self._due_now(self.references.advance(record.timestamp, record.offset))
        try:
            if not record.headers:
                jobs += await self._apply_turn(record)
            elif is_shared(record):
                jobs += await self._apply_shared(record)
            elif record.headers == SNAPSHOT_HEADERS:
                self.windows.apply_snapshot(record, self._trigger(record).replay_point)
            elif record.is_tick:
                jobs += self._advance(record.timestamp, record.offset)
            elif is_retry_request(record):
                jobs += self._requested_jobs(record)
            elif transfer_records.is_transfer(record):
                jobs += self._take_over(record)
            elif is_reference(record):
                jobs += self._apply_reference(record)
            elif record.headers != CONTROL_HEADERS:  # a turn that came back from the dead letters has headers
                jobs += await self._apply_turn(record)
        except BadInput as error:
            self.on_bad_record(record, error)
        return jobs + self._apply_controls_up_to(self.next_offset)

    def _choose_plan(self, offset: int) -> None:
        """Put the plan of an offset in force."""
        if self._in_force.advance(offset):
            self.windows.watch(_window_settings(self._in_force.plan))

    def _apply_controls_up_to(self, offset: int) -> list[Job]:
        """Apply the control records of earlier owners up to an offset."""
        jobs: list[Job] = []
        while self._control_records and self._control_records[0].offset <= offset:
            jobs += self.apply_control(self._control_records.popleft())
        return jobs

    def _trigger(self, record: StoredRecord, seen_at: int | None = None) -> Trigger:
        """The trigger of the evaluations that a record makes due. Call this before the record moves the time."""
        point = ReplayPoint(record.offset, self.time, self._in_force.rates)
        return Trigger(point, record.offset, self._timestamp, len(record.value), seen_at)

    async def _apply_turn(self, record: StoredRecord) -> list[Job]:
        """Apply a record that contains one turn."""
        seen_at = self.recent_turns.seen_at(turn_id_in(record.value), record.offset)
        if self._sample_out_by_key(record.key):
            self._count_unread(_unsampled(seen_at), 1)
            return []
        return await self._apply_content(record, self._trigger(record, seen_at))

    async def _apply_shared(self, record: StoredRecord) -> list[Job]:
        """Apply a record that several turns share."""
        # Nothing may come between these turns: controls, snapshots and commits have offsets, which lie between records.
        jobs: list[Job] = []
        unread: Counter[_Unsampled] = Counter()
        trigger, seen_at = self._trigger(record), None

        def is_needed(key: bytes, value: bytes) -> bool:
            nonlocal seen_at
            seen_at = self.recent_turns.seen_at(turn_id_in(value), record.offset)
            if is_unread := self._sample_out_by_key(key):
                unread[_unsampled(seen_at)] += 1
            return not is_unread

        for piece in needed_pieces(record, is_needed):
            jobs += await self._apply_content(piece, trigger._replace(size=len(piece.value), seen_at=seen_at))
        self.work += _RECORD_WORK * sum(unread.values())
        for outcome, number in unread.items():
            self._count_unread(outcome, number)
        return jobs

    def _count_unread(self, outcome: _Unsampled, number: int) -> None:
        for monitor in self._in_force.plan.monitors:
            self.outcomes.count_turn(monitor.name, outcome, number)
            for assignment in monitor.of_scope("turn"):
                self.outcomes.count_due(monitor.name, assignment.evaluator.name, outcome, number)

    async def _apply_content(self, record: StoredRecord, trigger: Trigger) -> list[Job]:
        self.work += 1.0
        plan = self._in_force.plan
        try:
            turn = RecordedTurn(record.value)
        except BadInput as error:
            self.on_bad_record(record, error)
            return []
        if plan.attributes:
            turn.add_attributes(declared_attributes(turn.attributes, plan.attributes))
        happened = happened_at(turn.started, turn.ended, record.timestamp)
        jobs = self._advance(happened, record.offset)
        is_matched = False
        for monitor in plan.monitors:
            if monitor.matches(turn):
                is_matched = True
                jobs += await self._process_turn(monitor, turn, happened, trigger)
        if not is_matched and trigger.seen_at is None:
            self.outcomes.count_turn("", "unmatched")
        return jobs

    def _sample_out_by_key(self, record_key: bytes | None) -> bool:
        """Whether the key alone samples the conversation out for every monitor. The caller counts the turn."""
        key = self._in_force.sampled_out(record_key)
        if key is None or self.on_sampled_out is not None:
            return False
        self.windows.observe_by_all(key, self.time)
        if self.report_demand is not None:
            for monitor, assignment, units in self._in_force.turn_demands:
                self.report_demand(monitor, assignment, units)
        return True

    def _advance(self, time: float, offset: int) -> list[Job]:
        time = self.time = max(self.time, time)
        jobs: list[Job] = []
        if not self.sessions_by_monitor:
            return jobs
        for name, idle in self.windows.take_idle(time):
            self.outcomes.count_idle(name, idle)
        for monitor in self._in_force.plan.monitors:
            sessions = self.sessions_by_monitor.get(monitor.name)
            if sessions is not None and (due_at := sessions.due_at) is not None and due_at <= time:
                for result in sessions.advance(time, offset):
                    jobs += self._conversation_jobs(monitor, result, offset)
        return jobs

    def _apply_reference(self, record: StoredRecord) -> Iterator[Job]:
        if not self.references.is_used:
            return
        reference = parse_reference(record.value)
        trigger, is_original = self._trigger(record), record.headers[:1] == REFERENCE_HEADERS
        completed = self.references.add(
            reference, is_original=is_original, point=trigger.replay_point, size=len(record.value)
        )
        yield from self._due_now(completed)

    def _due_now(self, jobs: Iterable[Job]) -> Iterator[Job]:
        """Yield jobs, and count them as due."""
        for job in jobs:
            self.outcomes.count_due(job.monitor.name, job.assignment.evaluator.name)
            yield job

    def _due(self, job: Job) -> Iterator[Job]:
        """Yield the job. If it lacks a reference, give it to `references`, and yield the jobs that this makes due."""
        if job.monitor.reference_wait is not None and self.references.awaits(job, case := job.case()):
            return self._due_now(self.references.admit(job, case))
        return self._due_now((job,))

    async def _process_turn(self, monitor: Monitor, turn: RecordedTurn, at: float, trigger: Trigger) -> list[Job]:
        """The jobs that a turn makes due for a monitor that matches it."""
        key = conversation_key(turn)
        if monitor.name in self.sessions_by_monitor:
            self.windows.observe(monitor.name, key, self.time)
        if self._in_force.plan.trust.ignores(turn):
            self.outcomes.count_ignored_upstream(monitor.name)
        boost, stratum = await _stratum(monitor, turn) if monitor.strata.boosts else (1.0, EVERYTHING)
        stratified = StratifiedTurn(turn, key, boost, stratum, trigger)
        jobs: list[Job] = []
        selected, unsampled = False, _unsampled(trigger.seen_at)
        for assignment in monitor.of_scope("turn"):
            job = self._turn_job(monitor, assignment, stratified)
            if job is None:
                self.outcomes.count_due(monitor.name, assignment.evaluator.name, unsampled)
            else:
                selected = True
                jobs += self._due(job)
        outcome, closed = self._add_to_window(monitor, stratified, at)
        for result in closed:
            jobs += self._conversation_jobs(monitor, result, trigger.offset)
        if selected and outcome == "sampled_out":
            outcome = "sampled"
        self.outcomes.count_turn(monitor.name, outcome if trigger.seen_at is None else "duplicate")
        return jobs

    def _turn_job(self, monitor: Monitor, assignment: Assignment, stratified: StratifiedTurn) -> Job | None:
        """The job of a turn; None if the turn is not in the sample."""
        plan, reduction = self._in_force.plan, self._in_force.reduction(monitor.name)
        chance = monitor.probability(assignment, reduction.factor, stratified.boost)
        if self.report_demand is not None:
            self.report_demand(monitor, assignment, monitor.probability(assignment, 1.0, stratified.boost))
        is_sampled = plan.draw(assignment, stratified.key) < chance
        if not is_sampled and self.on_sampled_out is None:
            return None
        upstream = plan.trust.upstream(stratified.turn)
        job = turn_job(monitor, assignment, stratified, chance=chance, upstream=upstream, fallback=reduction.fallback)
        if is_sampled:
            return job
        if self.on_sampled_out is not None:
            self.on_sampled_out(job)
        return None

    def _requested_jobs(self, record: StoredRecord) -> Iterator[Job]:
        """The job that a request for a retry or a backfill makes due."""
        request = parse_request(record.value)
        past = request if isinstance(request, BackfillRequest) else request.failed
        monitor, assignment = _assignment_of(self._in_force.plan, past.monitor, past.evaluator, request.case)
        names = monitor.name, assignment.evaluator.name
        if isinstance(request, BackfillRequest):
            self.outcomes.count_evaluation(*names, "backfilled")
        else:
            self.outcomes.count_evaluation(*names, "retried")
            if past.evaluation_id in self.windows.retries:
                self.outcomes.count_evaluation(*names, "duplicate")
                return
            self.windows.retries.add(past.evaluation_id, request.evaluation_id)
            if monitor.name in self.sessions_by_monitor:
                self.sessions_by_monitor[monitor.name].add_retry(
                    request.failed.subject.conversation_id, past.evaluation_id, request.evaluation_id, record.offset
                )
        fallback = self._in_force.uses_fallback(monitor.name)
        yield requested_job(monitor, assignment, request, self._trigger(record), fallback=fallback)

    def _take_over(self, record: StoredRecord) -> Iterator[Job]:
        """Apply a record of a state that was copied from another log. Yields the jobs that were due there."""
        replay_point = self._trigger(record).replay_point
        if record.headers == transfer_records.START_HEADERS:
            start = transfer_records.parse_start(record.value)
            self.references.clear()
            self.time = start.time
            self.windows.restart(_window_settings(self._in_force.plan), start.retries)
        elif record.headers == transfer_records.CONVERSATION_HEADERS:
            self.windows.restore(parse_snapshot(record.value), replay_point)
        else:
            yield from self._transferred_jobs(transfer_records.parse_job(record.value), replay_point)

    def _transferred_jobs(self, due: transfer_records.TransferredJob, replay_point: ReplayPoint) -> Iterator[Job]:
        """Yield the job that was due in the other log. If it has to wait for a reference, see `_due`."""
        monitor, assignment = _assignment_of(self._in_force.plan, due.monitor, due.evaluator, due.case)
        job = transferred_job(monitor, assignment, due, replay_point)
        if due.retry is None and due.happened_at is None and self.references.awaits(job, due.case):
            yield from self._due_now(self.references.admit(job, due.case))
            return
        self.outcomes.count_evaluation(monitor.name, assignment.evaluator.name, "resumed")
        yield job

    def _add_to_window(
        self, monitor: Monitor, stratified: StratifiedTurn, happened_at: float
    ) -> tuple[TurnOutcome, Sequence[WindowResult]]:
        """Add a turn to its conversation if that may be judged. Returns the outcome, and the windows that closed."""
        sessions = self.sessions_by_monitor.get(monitor.name)
        plan, factor = self._in_force.plan, self._in_force.reduction(monitor.name).factor
        if sessions is None or not _is_in_sample(plan, monitor, stratified.key, factor, monitor.strata.strongest):
            return "sampled_out", ()
        incoming = _incoming(plan, monitor, stratified, happened_at, factor)
        # In a backlog a turn's own time is old. If it counted, the window could close before its next turns are read.
        came_at = max(self.time, self._timestamp)
        window, closed = sessions.add(stratified.key, incoming, stratified.trigger.replay_point, came_at)
        return _outcome_in(window, plan, monitor), closed

    def _conversation_jobs(self, monitor: Monitor, result: WindowResult, offset: int) -> Iterator[Job]:
        """The jobs of a window that the record at `offset` closed."""
        plan, revision = self._in_force.plan, result.closed_revision
        if not _is_in_sample(plan, monitor, result.conversation_id, revision.rate, revision.boost):
            return  # it was kept for a boost that never came
        self.outcomes.count_closed(monitor.name, result.closed_by, result.missing_messages)
        closed = closed_conversation(monitor, result, offset, self._timestamp)
        for assignment in monitor.of_scope("conversation"):
            if not plan.selects(monitor, assignment, result.conversation_id, revision.rate, revision.boost):
                self.outcomes.count_due(monitor.name, assignment.evaluator.name, "sampled_out")
                continue
            ids = superseded_ids(plan, self._in_force.past, monitor, assignment, result)
            supersedes = (*ids, *self.windows.retries.made_from(ids))
            chance = monitor.probability(assignment, revision.rate, revision.boost)
            # Only conversations in the sample have windows, so each window stands for 1 / chance conversations.
            if self.report_demand is not None:
                self.report_demand(monitor, assignment, monitor.probability(assignment, 1.0, revision.boost) / chance)
            yield from self._due(conversation_job(monitor, assignment, closed, chance=chance, supersedes=supersedes))


def _unsampled(seen_at: int | None) -> _Unsampled:
    """The outcome of a turn that is not in the sample; a turn that came before is counted once."""
    return "sampled_out" if seen_at is None else "duplicate"


def _window_settings(plan: Plan) -> Mapping[str, SessionWindowSettings]:
    """The settings of the windows of each monitor that judges conversations."""
    return {monitor.name: monitor.window_settings for monitor in plan.monitors if monitor.of_scope("conversation")}


def _assignment_of(plan: Plan, monitor: str, evaluator: str, case: Turn | Conversation) -> tuple[Monitor, Assignment]:
    """The monitor and the evaluator of a past evaluation.

    Raises:
        BadInput: the configuration no longer has them.
    """
    use = plan.assignment_of(monitor, evaluator)
    if use is not None and use[1].evaluator.scope == scope_of(case):
        return use
    raise BadInput("an evaluation is to be made again, but its monitor does not use its evaluator any more")


def _is_in_sample(plan: Plan, monitor: Monitor, key: str, factor: float, boost: float) -> bool:
    """Whether any evaluator of a monitor selects a conversation with this boost."""
    return any(plan.selects(monitor, assignment, key, factor, boost) for assignment in monitor.of_scope("conversation"))


def _outcome_in(window: SessionWindow | None, plan: Plan, monitor: Monitor) -> TurnOutcome:
    """The outcome of a turn in its window; without a window, the conversation had the turn.

    The strongest boost may still come, so with boosts more conversations are kept than are judged.
    """
    if window is None:
        return "duplicate"
    if monitor.strata.boosts and not _is_in_sample(plan, monitor, window.conversation_id, window.rate, window.boost):
        return "sampled_out"
    return "sampled"


def _incoming(plan: Plan, monitor: Monitor, stratified: StratifiedTurn, at: float, factor: float) -> IncomingTurn:
    """A turn in the form in which it is added to its conversation's window."""
    turn = stratified.turn
    return IncomingTurn(
        turn.turn_id,
        pack(turn, at),
        prior_user_hashes(turn),
        ends_conversation=monitor.end_rule.is_met_by(turn),
        rate=factor,
        boost=stratified.boost,
        stratum=stratified.stratum,
        upstream=plan.trust.upstream(turn),
        is_copy=(seen_at := stratified.trigger.seen_at) is not None and seen_at < stratified.trigger.offset,
    )


async def _stratum(monitor: Monitor, recorded: RecordedTurn) -> tuple[float, str]:
    """The boost and the name of a turn's stratum. Strata may use the scores of evaluators without a judge."""
    turn = recorded.turn
    scores: dict[str, float] = {}
    for evaluator in monitor.strata.code_evaluators:
        result = await evaluate(evaluator, turn, NoJudge(), now=lambda: _NO_TIME)
        if isinstance(result.outcome, Score):
            scores[evaluator.name] = result.outcome.value
    return monitor.strata.of(turn, scores)
