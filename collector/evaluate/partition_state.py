"""The state of a partition: a pure fold from records to evaluations that become due. No clock, no log, no judge.

Evaluators without a judge run here where a boost needs their score: they only compute, so every replay gives the same.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from collector.errors import BadInput
from collector.evaluate.budget.rates import UNPLANNED, UNREDUCED, RateReduction, Rates
from collector.evaluate.conversations.keyed_sessions import KeyedSessions
from collector.evaluate.conversations.packed_turn import IncomingTurn, pack, prior_user_hashes
from collector.evaluate.conversations.session_window import ClosedRevision, WindowResult
from collector.evaluate.conversations.snapshot import (
    SNAPSHOT_HEADERS,
    ConversationSnapshot,
    outline_snapshot,
    parse_snapshot,
)
from collector.evaluate.evaluation_record import FALLBACK_ATTRIBUTE
from collector.evaluate.outcomes import NullOutcomes, OutcomeCounter
from collector.evaluate.plan import Assignment, Job, Monitor, Plan
from collector.evaluate.recovery.control_records import CONTROL_HEADERS, ControlRecord
from collector.evaluate.recovery.replay_point import ReplayPoint
from collector.evaluate.references.join import ReferenceJoin
from collector.evaluate.retry.request import BackfillRequest, PastRequest, is_retry_request, parse_request
from collector.evaluate.sampling.population import Population
from collector.evaluate.sampling.strata import EVERYTHING
from collector.evaluate.transfer.transfer_records import (
    CONVERSATION_HEADERS,
    START_HEADERS,
    TransferredJob,
    TransferStart,
    is_transfer,
    parse_conversation,
    parse_job,
    parse_start,
)
from collector.logs.log import StoredRecord
from collector.records.attributes import declared_attributes
from collector.records.recorded_turn import RecordedTurn
from collector.records.references import REFERENCE_HEADERS, is_reference, parse_reference
from collector.records.shared_records import is_shared, needed_pieces
from collector.records.turns import conversation_key
from collector.records.whole_conversation import conversation_fields
from evaluators.cases import Conversation, Json, Turn
from evaluators.evaluation import evaluate
from evaluators.identity import subject_id_of
from evaluators.judge import NoJudge
from evaluators.results import Evaluation, Sampling, Score

_RETRIES = 10_000
"""Evaluations that are remembered as made again, the newest."""
_PASSED_OVER = 0.2
"""What reading a record costs, or a turn that its key shows to be sampled out, beside reading a turn that is judged."""
_NO_TIME = datetime(1970, 1, 1, tzinfo=UTC)


class PartitionState:
    """The state of one partition, from the replay point `start` on.

    `control_records` are those of earlier owners; each is applied again at its offset. `former` are the plans that were
    in force for earlier records, each up to an offset, `past` those that were before `start`: what they have judged is
    superseded by later revisions. Replace `outcomes` to count what is applied from then on.
    """

    def __init__(
        self,
        plan: Plan,
        start: ReplayPoint,
        control_records: Iterable[ControlRecord] = (),
        former: Iterable[tuple[int, Plan]] = (),
        past: Iterable[Plan] = (),
    ) -> None:
        self._outcomes: OutcomeCounter = NullOutcomes()
        self.references = ReferenceJoin(
            {monitor.name: monitor.reference_wait for monitor in plan.monitors if monitor.reference_wait is not None}
        )
        self.on_bad_record: Callable[[StoredRecord, BadInput], None] = lambda _record, _error: None
        self.on_demand: Callable[[Monitor, Assignment, float], None] = lambda _monitor, _assignment, _units: None
        self.time = start.time
        self.rates: Rates = start.rates
        self.next_offset = start.offset
        self.conversations: dict[str, KeyedSessions] = {}
        self.work = 0.0
        """What applying records has cost so far, in turns that are judged; snapshots count nothing."""
        self._populations: dict[str, Population] = {}
        self._former = deque(former)
        self._newest_plan = plan
        self._plan = Plan(())
        self._past = list(past)  # plans that were in force before
        self._released: list[ReplayPoint] = []  # by monitors that a later plan does not have
        self._limited: set[str] = set()
        self._planned: set[str] = set()
        self._sampled_by_key = False
        self._demands: list[tuple[Monitor, Assignment, float]] = []  # of a turn that its key shows to be sampled out
        self._timestamp = start.time
        self._size = 0
        self._snapshot_validity: dict[int, bool] = {}
        self._retries: OrderedDict[str, str] = OrderedDict()  # ids of new evaluations by those of failed ones
        self._control_records = deque(sorted(control_records, key=lambda each: each.offset))
        self._choose_plan(start.offset)
        self._apply_controls_up_to(start.offset)  # of earlier owners: those of this one come after

    @property
    def outcomes(self) -> OutcomeCounter:
        """What counts; replace it to count what is applied from then on."""
        return self._outcomes

    @outcomes.setter
    def outcomes(self, outcomes: OutcomeCounter) -> None:
        self._outcomes = self.references.outcomes = outcomes

    @property
    def replay_point(self) -> ReplayPoint:
        """The replay point of the next record."""
        return ReplayPoint(self.next_offset, self.time, self.rates)

    @property
    def retries(self) -> Mapping[str, str]:
        """The ids of the newest evaluations that were made again, by those of the failed ones."""
        return dict(self._retries)

    def _fallback(self, monitor: str) -> bool:
        return self._reduction(monitor).fallback

    def _reduction(self, monitor: str) -> RateReduction:
        """The reduction of a monitor's rates; none where neither a budget nor a plan sets them any more."""
        if monitor in self._planned and monitor not in self.rates.by_monitor:
            return UNPLANNED
        return self.rates.of(monitor) if monitor in self._limited else UNREDUCED

    def apply_control(self, control: ControlRecord) -> list[Job]:
        """Apply a control record; returns the jobs that become due by it."""
        if control.rates is not None:
            self.rates = control.rates
        self._snapshot_validity.update(control.snapshot_validity or {})
        jobs: list[Job] = []
        for name, conversation_ids in (control.evictions or {}).items():
            if name in self.conversations:
                monitor = next(each for each in self._plan.monitors if each.name == name)
                for conversation_id in conversation_ids:
                    for result in self.conversations[name].evict(conversation_id):
                        jobs += self._conversation_jobs(monitor, result, max(0, self.next_offset - 1))
        return jobs

    async def apply(self, record: StoredRecord) -> list[Job]:
        """Apply the next record; returns the jobs that become due by it."""
        self._choose_plan(record.offset)
        jobs = self._apply_controls_up_to(record.offset)
        replay_point = ReplayPoint(record.offset, self.time, self.rates)
        self.next_offset = record.offset + 1
        self._timestamp, self._size = record.timestamp, len(record.value)
        if record.headers != SNAPSHOT_HEADERS:
            self.work += _PASSED_OVER
        if self.references.is_used:
            jobs += self._due_now(self.references.advance(record.timestamp, record.offset))
        if not record.headers:
            jobs += await self._apply_turn(record, replay_point)
        elif is_shared(record):
            jobs += await self._apply_shared(record, replay_point)
        elif record.headers == SNAPSHOT_HEADERS:
            self._restore_snapshot(record, replay_point)
        elif record.is_tick:
            jobs += self._advance(record.timestamp, record.offset)
        elif is_retry_request(record):
            jobs += self._requested_jobs(record, replay_point)
        elif is_transfer(record):
            jobs += self._take_over(record, replay_point)
        elif is_reference(record):
            jobs += self._apply_reference(record, replay_point)
        elif record.headers != CONTROL_HEADERS:
            jobs += await self._apply_turn(record, replay_point)
        return jobs + self._apply_controls_up_to(self.next_offset)

    def _choose_plan(self, offset: int) -> None:
        """Apply the plan that was in force at an offset."""
        while self._former and self._former[0][0] <= offset:
            self._former.popleft()
        plan = self._former[0][1] if self._former else self._newest_plan
        if plan is not self._plan:
            self._enter(plan)

    def _enter(self, plan: Plan) -> None:
        """From the next record on this plan counts. Open windows stay, but those of monitors that it does not have."""
        if self._plan.monitors:
            self._past.append(self._plan)
        self._plan = plan
        self._planned = {monitor.name for monitor in plan.monitors if monitor.standard_error is not None}
        self._limited = {monitor.name for monitor in plan.monitors if monitor.budget.limited or plan.budget.limited}
        self._limited |= self._planned
        self._sampled_by_key = not any(monitor.reads_content for monitor in plan.monitors)
        self._demands = [
            (monitor, assignment, monitor.probability(assignment, 1.0, 1.0))
            for monitor in plan.monitors
            for assignment in monitor.of_scope("turn")
        ]
        watching = {
            monitor.name: monitor.window_settings for monitor in plan.monitors if monitor.of_scope("conversation")
        }
        for name in sorted(self.conversations.keys() - watching.keys()):
            self._released += self.conversations.pop(name).abandon()
            del self._populations[name]
        for name, settings in watching.items():
            if name in self.conversations:
                self.conversations[name].reconfigure(settings)
                self._populations[name].reconfigure(settings.idle_gap)
            else:
                self.conversations[name] = KeyedSessions(settings, fallback=partial(self._fallback, name))
                self._populations[name] = Population(settings.idle_gap)
        self.conversations = {name: self.conversations[name] for name in watching}  # in the order of the plan

    def take_released(self) -> Sequence[ReplayPoint]:
        """The replay points that conversations have stopped needing since the last call."""
        released: Sequence[ReplayPoint] = ()
        if self._released:
            released, self._released = self._released, []
        for sessions in self.conversations.values():
            if sessions.has_released:
                released = [*released, *sessions.take_released()]
        return released

    def _apply_controls_up_to(self, offset: int) -> list[Job]:
        """Apply the control records of earlier owners up to an offset."""
        jobs: list[Job] = []
        while self._control_records and self._control_records[0].offset <= offset:
            jobs += self.apply_control(self._control_records.popleft())
        return jobs

    async def _apply_shared(self, record: StoredRecord, replay_point: ReplayPoint) -> list[Job]:
        """Apply the turns of a record that several share."""
        # One record all the same: controls, snapshots and what is done are at offsets, and so between records.
        jobs: list[Job] = []
        chances, sampled_out = self._chances(), 0

        def is_needed(key: bytes) -> bool:
            nonlocal sampled_out
            if self._is_sampled_out(key, chances):
                sampled_out += 1
                return False
            return True

        for piece in needed_pieces(record, is_needed):
            self._size = len(piece.value)
            jobs += await self._apply_content(piece, replay_point)
        self._count_sampled_out(sampled_out)
        self.work += _PASSED_OVER * sampled_out
        return jobs

    async def _apply_turn(self, record: StoredRecord, replay_point: ReplayPoint) -> list[Job]:
        if self._is_sampled_out(record.key, self._chances()):
            self._count_sampled_out(1)
            return []
        return await self._apply_content(record, replay_point)

    async def _apply_content(self, record: StoredRecord, replay_point: ReplayPoint) -> list[Job]:
        self.work += 1.0
        try:
            turn = RecordedTurn(record.value)
        except BadInput as error:
            self.on_bad_record(record, error)
            return []
        if self._plan.attributes:
            turn.add_attributes(declared_attributes(turn.attributes, self._plan.attributes))
        happened_at = min(_event_time(turn, record.timestamp), record.timestamp)
        jobs = self._advance(happened_at, record.offset)
        matching = [monitor for monitor in self._plan.monitors if monitor.matches(turn)]
        if not matching:
            self.outcomes.count_turn("", "unmatched")
        for monitor in matching:
            jobs += await self._process_turn(monitor, turn, happened_at, replay_point)
        return jobs

    def _chances(self) -> Sequence[tuple[Assignment, float]] | None:
        """With which chance each evaluator selects a conversation; None if that hangs on what its turns contain."""
        if not self._sampled_by_key:
            return None
        return [
            (assignment, monitor.probability(assignment, factor, 1.0))
            for monitor in self._plan.monitors
            for factor in (self._reduction(monitor.name).factor,)
            for assignment in monitor.assignments
        ]

    def _is_sampled_out(self, by_key: bytes | None, chances: Sequence[tuple[Assignment, float]] | None) -> bool:
        """Whether the key alone shows that no evaluator of any monitor selects the conversation. To be counted."""
        # Before the record is parsed: at low rates this is most of the traffic, and it costs one hash instead.
        if chances is None or by_key is None:
            return False
        key = by_key.decode(errors="replace")
        for assignment, chance in chances:
            if self._plan.draw(assignment, key) < chance:
                return False
        for population in self._populations.values():
            population.observe(key, self.time)
        for monitor, assignment, units in self._demands:
            self.on_demand(monitor, assignment, units)
        return True

    def _count_sampled_out(self, number: int) -> None:
        if not number:
            return
        for monitor in self._plan.monitors:
            self.outcomes.count_turn(monitor.name, "sampled_out", number)
            for assignment in monitor.of_scope("turn"):
                self._count_due(monitor, assignment, "sampled_out", number)

    def _count_due(self, monitor: Monitor, assignment: Assignment, end: Any = None, number: int = 1) -> None:
        self.outcomes.count_evaluation(monitor.name, assignment.evaluator.name, "matched", number=number)
        if end is not None:
            self.outcomes.count_evaluation(monitor.name, assignment.evaluator.name, end, number=number)

    def _advance(self, time: float, offset: int) -> list[Job]:
        time = self.time = max(self.time, time)
        for name, population in self._populations.items():
            if idle := population.take_idle(time):
                self.outcomes.count_idle(name, idle)
        jobs: list[Job] = []
        for monitor in self._plan.monitors:
            sessions = self.conversations.get(monitor.name)
            if sessions is not None and (due_at := sessions.due_at) is not None and due_at <= time:
                for result in sessions.advance(time, offset):
                    jobs += self._conversation_jobs(monitor, result, offset)
        return jobs

    def _apply_reference(self, record: StoredRecord, replay_point: ReplayPoint) -> Iterator[Job]:
        if not self.references.is_used:
            return
        try:
            reference = parse_reference(record.value)
        except BadInput as error:
            self.on_bad_record(record, error)
            return
        home = record.headers[:1] == REFERENCE_HEADERS
        completed = self.references.add(reference, home=home, point=replay_point, size=len(record.value))
        yield from self._due_now(completed)

    def _due_now(self, jobs: Iterable[Job]) -> Iterator[Job]:
        """Evaluations that have waited become due."""
        for job in jobs:
            self._count_due(job.monitor, job.assignment)
            yield job

    def _observe(self, monitor: Monitor, key: str) -> None:
        if (population := self._populations.get(monitor.name)) is not None:
            population.observe(key, self.time)

    async def _process_turn(
        self, monitor: Monitor, turn: RecordedTurn, happened_at: float, replay_point: ReplayPoint
    ) -> list[Job]:
        """The jobs that a turn leads to for a monitor that it matches."""
        key = conversation_key(turn)
        self._observe(monitor, key)
        if self._plan.trust.ignores(turn):
            self.outcomes.count_ignored_upstream(monitor.name)
        boost, stratum = await _stratum(monitor, turn) if monitor.strata.boosts else (1.0, EVERYTHING)
        jobs: list[Job] = []
        selected = False
        for assignment in monitor.of_scope("turn"):
            job = self._turn_job(monitor, assignment, turn, key, boost, stratum, replay_point)
            if job is None:
                self._count_due(monitor, assignment, "sampled_out")
                continue
            selected = True
            if monitor.reference_wait is not None and self.references.awaits(job, turn.turn):
                jobs += self._due_now(self.references.admit(job, turn.turn))
            else:
                jobs += self._due_now([job])
        outcome, more = self._add_to_window(monitor, turn, key, happened_at, boost, stratum, replay_point)
        selected = selected or outcome != "sampled_out"
        self.outcomes.count_turn(
            monitor.name, outcome if outcome in ("late", "duplicate") else "sampled" if selected else "sampled_out"
        )
        return jobs + more

    def _turn_job(
        self,
        monitor: Monitor,
        each: Assignment,
        turn: RecordedTurn,
        key: str,
        boost: float,
        stratum: str,
        replay_point: ReplayPoint,
    ) -> Job | None:
        reduction = self._reduction(monitor.name)
        chance = monitor.probability(each, reduction.factor, boost)
        self.on_demand(monitor, each, monitor.probability(each, 1.0, boost))
        if self._plan.draw(each, key) >= chance:
            return None
        fallback = reduction.fallback and each.fallback is not None
        upstream = self._plan.trust.upstream(turn)
        return Job(
            evaluation_id=each.evaluation_id(turn.turn_id, fallback=fallback),
            monitor=monitor,
            assignment=each,
            case=lambda: turn.turn,
            replay_point=replay_point,
            trigger_offset=replay_point.offset,
            triggered_at=self._timestamp,
            size=self._size,
            sampling=_sampling(chance, stratum, upstream, has_id=turn.conversation_id is not None),
            fallback=fallback,
            subject=(turn.turn_id, "1"),
        )

    def _requested_jobs(self, record: StoredRecord, replay_point: ReplayPoint) -> Iterator[Job]:
        """The job of a request for an evaluation of a past subject."""
        try:
            request = parse_request(record.value)
            past = request if isinstance(request, BackfillRequest) else request.failed
            monitor, each = self._assignment_of(past)
        except BadInput as error:
            self.on_bad_record(record, error)
            return
        names = monitor.name, each.evaluator.name
        if isinstance(request, BackfillRequest):
            self.outcomes.count_evaluation(*names, "backfilled")
        else:
            self.outcomes.count_evaluation(*names, "retried")
            if past.evaluation_id in self._retries:
                self.outcomes.count_evaluation(*names, "duplicate")
                return
            self._remember_retry(past.evaluation_id, request.evaluation_id)
            if monitor.name in self.conversations:
                self.conversations[monitor.name].add_retry(
                    request.failed.subject.conversation_id, past.evaluation_id, request.evaluation_id, record.offset
                )
        yield self._requested_job(request, monitor, each, replay_point)

    def _remember_retry(self, failed: str, new: str) -> None:
        self._retries[failed] = new
        if len(self._retries) > _RETRIES:
            self._retries.popitem(last=False)

    def _restore(self, sessions: KeyedSessions, snapshot: ConversationSnapshot, replay_point: ReplayPoint) -> None:
        """Replace a conversation by its snapshot. The requests of its retries may lie before what a replay reads."""
        sessions.restore(snapshot.conversation_id, snapshot.windows, replay_point, snapshot.retries)
        self._remember_retries(snapshot.retries)

    def _remember_retries(self, retries: Mapping[str, str]) -> None:
        for failed, new in retries.items():
            if failed not in self._retries:
                self._remember_retry(failed, new)

    def _requested_job(
        self, request: PastRequest, monitor: Monitor, each: Assignment, replay_point: ReplayPoint
    ) -> Job:
        case, backfill, happened_at = request.case, isinstance(request, BackfillRequest), request.happened_at
        past = request if isinstance(request, BackfillRequest) else request.failed
        # A backfill has the id that the turn would have led to by the definition of now, so that it is made once even
        # where the command was given another configuration than the service.
        subject_id, revision = subject_id_of(case)
        return Job(
            evaluation_id=each.evaluation_id(subject_id, revision) if backfill else request.evaluation_id,
            monitor=monitor,
            assignment=each,
            case=lambda: case,
            replay_point=replay_point,
            trigger_offset=replay_point.offset,
            triggered_at=self._timestamp,
            size=self._size,
            sampling=past.sampling,
            fallback=happened_at is None and self._reduction(monitor.name).fallback and each.fallback is not None,
            supersedes=request.supersedes,
            retry=None if isinstance(request, BackfillRequest) else request.retry,
            happened_at=happened_at,
            attributes={name: value for name, value in past.attributes.items() if name != FALLBACK_ATTRIBUTE},
            subject=(subject_id, revision),
        )

    def _take_over(self, record: StoredRecord, replay_point: ReplayPoint) -> Iterator[Job]:
        """Continue a state that was copied from another log; the jobs that were due there."""
        try:
            if record.headers == START_HEADERS:
                self._restart(parse_start(record.value))
            elif record.headers == CONVERSATION_HEADERS:
                snapshot = parse_conversation(record.value)
                if (sessions := self.conversations.get(snapshot.monitor)) is not None:
                    self._restore(sessions, snapshot, replay_point)
            else:
                yield from self._transferred_jobs(parse_job(record.value), replay_point)
        except BadInput as error:
            self.on_bad_record(record, error)

    def _transferred_jobs(self, due: TransferredJob, replay_point: ReplayPoint) -> Iterator[Job]:
        """The job; nothing yet if it waits for a reference, from now on."""
        job = self._transferred_job(due, replay_point)
        if due.retry is None and due.happened_at is None and self.references.awaits(job, due.case):
            yield from self._due_now(self.references.admit(job, due.case))
            return
        self.outcomes.count_evaluation(job.monitor.name, job.assignment.evaluator.name, "resumed")
        yield job

    def _restart(self, start: TransferStart) -> None:
        """Begin again: what was before is history."""
        self.references.clear()
        self.time = start.time
        self.conversations = {
            monitor.name: KeyedSessions(monitor.window_settings, fallback=partial(self._fallback, monitor.name))
            for monitor in self._plan.monitors
            if monitor.of_scope("conversation")
        }
        self._retries = OrderedDict(start.retries)

    def _transferred_job(self, due: TransferredJob, replay_point: ReplayPoint) -> Job:
        monitor, each = self._assignment_of(due)
        fallback = due.fallback and each.fallback is not None
        subject_id, revision = subject_id_of(due.case)
        return Job(
            evaluation_id=due.evaluation_id
            if due.retry is not None
            else each.evaluation_id(subject_id, revision, fallback=fallback),
            monitor=monitor,
            assignment=each,
            case=lambda: due.case,
            replay_point=replay_point,
            trigger_offset=replay_point.offset,
            triggered_at=due.triggered_at,
            size=due.size,
            sampling=due.sampling,
            fallback=fallback,
            supersedes=due.supersedes,
            retry=due.retry,
            happened_at=due.happened_at,
            attributes=due.attributes,
            subject=(subject_id, revision),
        )

    def _assignment_of(self, past: Evaluation | BackfillRequest | TransferredJob) -> tuple[Monitor, Assignment]:
        """The monitor and the evaluator of a past evaluation.

        Raises:
            BadInput: the configuration has them no longer.
        """
        use = self._plan.assignment_of(past.monitor, past.evaluator)
        if use is not None and use[1].evaluator.scope == past.scope:
            return use
        raise BadInput("an evaluation is to be made again, but its monitor does not use its evaluator any more")

    def _add_to_window(
        self,
        monitor: Monitor,
        turn: RecordedTurn,
        key: str,
        happened_at: float,
        boost: float,
        stratum: str,
        replay_point: ReplayPoint,
    ) -> tuple[Any, list[Job]]:
        conversations = self.conversations.get(monitor.name)
        factor, most = self._reduction(monitor.name).factor, monitor.strata.strongest
        if conversations is None:
            return "sampled_out", []
        for assignment in monitor.of_scope("conversation"):
            if self._plan.draw(assignment, key) < monitor.probability(assignment, factor, most):
                break
        else:
            return "sampled_out", []
        incoming = IncomingTurn(
            turn.turn_id,
            pack(turn, happened_at),
            prior_user_hashes(turn),
            ends_conversation=monitor.end_rule.is_met_by(turn),
            rate=factor,
            boost=boost,
            stratum=stratum,
            upstream=self._plan.trust.upstream(turn),
        )
        outcome, result = conversations.add(key, incoming, replay_point, self.time)
        return outcome, [
            job
            for window_result in result
            for job in self._conversation_jobs(monitor, window_result, replay_point.offset)
        ]

    def _conversation_jobs(self, monitor: Monitor, result: WindowResult, offset: int) -> Iterator[Job]:
        self.outcomes.count_closed(monitor.name, result.closed_by, result.missing_messages)
        attributes: dict[str, Any] = {"closed_by": result.closed_by, "turns": len(result.turns)}
        if result.missing_messages:
            attributes |= {"gaps": result.missing_messages, "incomplete": True}
        case = _unpacker(result, attributes, monitor.attributes)
        size = sum(len(packed.data) for _, packed in result.turns)
        for assignment in monitor.of_scope("conversation"):
            if not self._is_selected(monitor, assignment, result.conversation_id, result.closed_revision):
                self._count_due(monitor, assignment, "sampled_out")
                continue
            earlier = [
                _evaluation_id(assignment, result.conversation_id, revision)
                for revision in result.supersedes
                if self._is_selected(monitor, assignment, result.conversation_id, revision)
            ]
            earlier += self._by_past_definitions(monitor, assignment, result)
            earlier += list(self._retries_of(earlier))
            chance = monitor.probability(assignment, result.closed_revision.rate, result.closed_revision.boost)
            self.on_demand(
                monitor, assignment, monitor.probability(assignment, 1.0, result.closed_revision.boost) / chance
            )
            job = Job(
                evaluation_id=_evaluation_id(assignment, result.conversation_id, result.closed_revision),
                monitor=monitor,
                assignment=assignment,
                case=case,
                replay_point=result.replay_point,
                trigger_offset=offset,
                triggered_at=self._timestamp,
                size=size,
                sampling=_sampling(chance, result.stratum, result.upstream, has_id=True),
                fallback=result.closed_revision.fallback and assignment.fallback is not None,
                supersedes=tuple(earlier),
                attributes=attributes,
                subject=(result.conversation_id, result.closed_revision.digest),
                earlier=tuple((revision.digest, revision.fallback) for revision in result.supersedes),
            )
            if monitor.reference_wait is not None and self.references.awaits(job, conversation := case()):
                yield from self._due_now(self.references.admit(job, conversation))
            else:
                yield from self._due_now([job])

    def _by_past_definitions(self, monitor: Monitor, each: Assignment, result: WindowResult) -> list[str]:
        """The ids of earlier revisions as earlier plans have them, where those judge by another definition."""
        names: dict[str, None] = {}
        for plan in self._past:
            use = plan.assignment_of(monitor.name, each.evaluator.name)
            if use is not None and (use[1].version, use[1].judge.model) != (each.version, each.judge.model):
                names |= dict.fromkeys(
                    _evaluation_id(use[1], result.conversation_id, revision) for revision in result.supersedes
                )
        return list(names)

    def _is_selected(self, monitor: Monitor, each: Assignment, key: str, revision: ClosedRevision) -> bool:
        return self._plan.draw(each, key) < monitor.probability(each, revision.rate, revision.boost)

    def _retries_of(self, evaluation_ids: Iterable[str]) -> Iterator[str]:
        """What was made again in place of evaluations, and in place of that."""
        for name in evaluation_ids:
            newer = self._retries.get(name)
            while newer is not None:
                yield newer
                newer = self._retries.get(newer)

    def validate_snapshots(self, records: Iterable[StoredRecord]) -> dict[int, bool]:
        """Which of the next records, all of them snapshots, are valid, by offset: their conversations are unchanged.

        Without those whose validity was decided before, to the same effect.
        """
        validity: dict[int, bool] = {}
        for record in records:
            try:
                snapshot = outline_snapshot(record.value)
            except BadInput:
                continue  # reported when it is applied
            sessions = self.conversations.get(snapshot.monitor)
            validity[record.offset] = sessions is not None and sessions.is_unchanged(
                snapshot.conversation_id, snapshot.first, snapshot.since
            )
        return {
            offset: valid for offset, valid in validity.items() if valid != self._snapshot_validity.get(offset, False)
        }

    def _restore_snapshot(self, record: StoredRecord, replay_point: ReplayPoint) -> None:
        valid = self._snapshot_validity.pop(record.offset, False)
        try:
            outline = outline_snapshot(record.value)
            sessions = self.conversations.get(outline.monitor)
            if sessions is None:
                return
            if not valid:
                sessions.discard(outline.conversation_id)
            elif sessions.is_unchanged(outline.conversation_id, outline.first, outline.since):
                sessions.confirm_snapshot(outline.conversation_id, outline.needed_at, replay_point, outline.retries)
                self._remember_retries(outline.retries)
            else:  # a replay that began behind its first record
                self._restore(sessions, parse_snapshot(record.value), replay_point)
        except BadInput as error:
            self.on_bad_record(record, error)


def _event_time(turn: RecordedTurn, otherwise: float) -> float:
    """The time of a turn (s since the epoch); `otherwise` where it has none."""
    if turn.ended is not None:
        return turn.ended
    return otherwise if turn.started is None else turn.started


async def _stratum(monitor: Monitor, recorded: RecordedTurn) -> tuple[float, str]:
    turn = recorded.turn
    scores: dict[str, float] = {}
    for evaluator in monitor.strata.code_evaluators:
        result = await evaluate(evaluator, turn, NoJudge(), now=lambda: _NO_TIME)
        if isinstance(result.outcome, Score):
            scores[evaluator.name] = result.outcome.value
    return monitor.strata.of(turn, scores)


def _sampling(chance: float, stratum: str, upstream: float | None, *, has_id: bool) -> Sampling:
    return Sampling(
        probability=chance * (1.0 if upstream is None else upstream),
        stratum=stratum,
        unit="conversation" if has_id else "trace",
        upstream="unknown" if upstream is None else upstream,
    )


def _evaluation_id(assignment: Assignment, conversation_id: str, revision: ClosedRevision) -> str:
    fallback = revision.fallback and assignment.fallback is not None
    return assignment.evaluation_id(conversation_id, revision.digest, fallback=fallback)


def _unpacker(
    result: WindowResult, attributes: dict[str, Any], declared: tuple[str, ...]
) -> Callable[[], Conversation]:
    """A function that unpacks the conversation.

    Called when the job has a slot: an unpacked conversation takes several times the memory of a waiting one.
    """

    def unpack() -> Conversation:
        turns = tuple(packed.unpack(turn_id, result.conversation_id) for turn_id, packed in result.turns)
        return Conversation(
            **conversation_fields(turns),
            conversation_id=result.conversation_id,
            turns=turns,
            closed_by=result.closed_by,
            revision=result.revision,
            attributes={**_declared_of(turns, declared), **attributes},
        )

    return unpack


def _declared_of(turns: Iterable[Turn], declared: tuple[str, ...]) -> dict[str, Json]:
    """The declared attributes of a conversation: each as its latest turn with it has it."""
    return {name: turn.attributes[name] for turn in turns for name in declared if name in turn.attributes}
