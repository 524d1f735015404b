"""The join of references with the evaluations that need them: state of a partition, without clock, log or judge.

An evaluation whose subject lacks fields that its evaluator needs waits until references have brought all of them, but
no longer than `wait` of the log's time. A reference is remembered for the same time, for subjects that come after it; a
repeated reference counts from its last copy. Waits and memory depend on the records alone, so a replay from
`low_watermark` gives the same.

The time is the one at which the log received the records, not the turns' own, so a late turn also gets its whole wait.
"""

import heapq
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from collector.evaluate.outcomes import OutcomeCounter
from collector.evaluate.plan import Job
from collector.evaluate.recovery.replay_point import ReplayPoint
from collector.evaluate.references.subject import awaited_fields, concerns, keys_of, provided_fields, with_references
from collector.records.json import conversation_from_json, conversation_to_json, turn_from_json, turn_to_json
from collector.records.references import Reference
from evaluators.cases import Conversation, Turn
from evaluators.results import SkipReason

MOST_WAITING, MOST_WAITING_BYTES = 100_000, 256 << 20
"""The most waiting evaluations of a partition, and the most bytes of their subjects; beyond either, the oldest is given
up."""
MOST_REFERENCES, MOST_REFERENCE_BYTES = 100_000, 128 << 20
"""The most remembered references of a partition, and their most bytes; beyond either, the least recently received one
is forgotten."""


@dataclass(slots=True)
class _WaitingJob:
    """An evaluation that waits for `missing` until `deadline` (s of the log's time)."""

    job: Job
    keys: tuple[str, ...]
    missing: frozenset[str]
    deadline: float
    size: int
    replay_point: ReplayPoint
    references: list[Reference] = field(default_factory=list[Reference])


@dataclass(slots=True)
class _Remembered:
    """The last copy of a reference, from the record at `replay_point`. It is remembered until a time (s, by the
    log).
    """

    reference: Reference
    replay_point: ReplayPoint
    until: float
    size: int
    joined: bool = False


class ReferenceJoin:
    """The waiting evaluations and the remembered references of a partition.

    `waits` has the seconds by monitor; evaluators of other monitors do not wait. `is_over(job)` says
    whether an evaluation had ended before the restart. Only the replay admits such a job again, perhaps with a part of
    its conversation, so it is left out.
    """

    def __init__(
        self, waits: Mapping[str, float], is_over: Callable[[Job], bool], outcomes: Callable[[], OutcomeCounter]
    ) -> None:
        self.is_used = bool(waits)
        """Whether any evaluator may wait."""
        self._is_over = is_over
        self._outcomes = outcomes
        self._waits = waits
        self._time = 0.0
        self._memory = max(waits.values(), default=0.0)
        self._waiting: OrderedDict[str, _WaitingJob] = OrderedDict()
        self._waiting_by_key: dict[str, dict[str, None]] = {}
        self._waiting_size = 0
        self._triggers: dict[str, dict[str, int]] = {}  # by evaluator and evaluation, in ascending order
        self._deadlines: list[tuple[float, int, str]] = []
        self._offsets: list[tuple[int, str]] = []
        self._sequence = 0
        self._remembered: OrderedDict[str, _Remembered] = OrderedDict()
        self._remembered_by_key: dict[str, dict[str, None]] = {}
        self._remembered_size = 0

    def __len__(self) -> int:
        """The number of waiting evaluations."""
        return len(self._waiting)

    @property
    def due_at(self) -> float | None:
        """When the next evaluation is given up, or the next reference forgotten."""
        times = [self._deadlines[0][0]] if self._peek_deadline() else []
        times += [remembered.until for remembered in list(self._remembered.values())[:1]]
        return min(times, default=None)

    @property
    def low_watermark(self) -> ReplayPoint | None:
        """The replay point of the oldest record that is still needed."""
        while self._offsets and self._current(self._offsets[0][1]) != self._offsets[0][0]:
            heapq.heappop(self._offsets)
        points = [self._waiting[self._offsets[0][1]].replay_point] if self._offsets else []
        points += [remembered.replay_point for remembered in list(self._remembered.values())[:1]]
        return min(points, default=None, key=lambda point: point.offset)

    @property
    def oldest_triggers(self) -> Mapping[str, int]:
        """By evaluator, the offset of the oldest record with a waiting evaluation."""
        return {evaluator: next(iter(trigger.values())) for evaluator, trigger in self._triggers.items() if trigger}

    def _current(self, evaluation_id: str) -> int | None:
        waiting = self._waiting.get(evaluation_id)
        return None if waiting is None else waiting.replay_point.offset

    @property
    def jobs(self) -> Sequence[Job]:
        """The waiting evaluations, with the references that have come for them so far."""
        return [_with_references(job) for job in self._waiting.values()]

    def clear(self) -> None:
        """Forget everything."""
        for evaluation_id in list(self._waiting):
            self._release(evaluation_id)
        for reference_id in list(self._remembered):
            self._forget(reference_id)

    def awaits(self, job: Job, case: Turn | Conversation) -> bool:
        """Whether an evaluation needs references: its subject lacks fields that references can bring."""
        return job.monitor.name in self._waits and bool(awaited_fields(job.assignment, case))

    def admit(self, job: Job, case: Turn | Conversation) -> Iterator[Job]:
        """Let an evaluation wait: see `awaits`. Yields the job at once if all its references have come already;
        otherwise yields the jobs that it crowds out.

        The evaluation that it supersedes does not wait any longer.
        """
        for evaluation_id in job.supersedes:
            self._release(evaluation_id)
        if job.evaluation_id in self._waiting or self._is_over(job):
            return
        waiting = _WaitingJob(
            job=replace(job, case=_packed_case(case)),
            keys=keys_of(case),
            missing=awaited_fields(job.assignment, case),
            deadline=self._time + self._waits[job.monitor.name],
            size=job.size,
            replay_point=job.replay_point,
        )
        for remembered in self._earlier_references(waiting.keys):
            if concerns(remembered.reference, case):
                self._merge(waiting, remembered)
        if _is_complete(waiting):
            yield _with_references(waiting)
            return
        self._hold(waiting)
        while len(self._waiting) > MOST_WAITING or self._waiting_size > MOST_WAITING_BYTES:
            yield self._give_up(next(iter(self._waiting)), job.trigger_offset)

    def add(self, reference: Reference, *, is_original: bool, point: ReplayPoint, size: int) -> Iterator[Job]:
        """Add the reference of the record at `point`; yields the evaluations that it completes.

        Exactly one copy of a reference `is_original`; the others are not counted.
        """
        if (again := self._remembered.get(reference.reference_id)) is not None:
            # New for later subjects: a replay that begins between the two copies knows only the second, so the memory
            # may depend on that one alone.
            again.replay_point, again.until = point, self._time + self._memory
            self._remembered.move_to_end(reference.reference_id)
            if is_original:
                self._outcomes().count_reference("duplicate")
            return
        if is_original:
            self._outcomes().count_reference("received")
        known = _Remembered(reference, point, self._time + self._memory, size)
        self._remembered[reference.reference_id] = known
        self._remembered_by_key.setdefault(reference.key, {})[reference.reference_id] = None
        self._remembered_size += size
        for evaluation_id in list(self._waiting_by_key.get(reference.key, ())):
            waiting = self._waiting[evaluation_id]
            if concerns(reference, waiting.job.case()):
                self._merge(waiting, known)
                if _is_complete(waiting):
                    self._release(evaluation_id)
                    yield replace(_with_references(waiting), trigger_offset=point.offset, triggered_at=self._time)
                else:
                    heapq.heappush(self._offsets, (waiting.replay_point.offset, evaluation_id))
        while len(self._remembered) > MOST_REFERENCES or self._remembered_size > MOST_REFERENCE_BYTES:
            self._forget(next(iter(self._remembered)))

    def advance(self, time: float, offset: int) -> Iterator[Job]:
        """Move the time to `time` (s), at the record at `offset`: evaluations that waited long enough are given up, and
        references forgotten.
        """
        self._time = max(self._time, time)
        while (deadline := self._peek_deadline()) is not None and deadline[0] <= self._time:
            yield self._give_up(deadline[2], offset)
        while self._remembered:
            reference_id, oldest = next(iter(self._remembered.items()))
            if oldest.until > self._time:
                break
            self._forget(reference_id)

    def _peek_deadline(self) -> tuple[float, int, str] | None:
        while self._deadlines:
            deadline, _, evaluation_id = self._deadlines[0]
            if evaluation_id in self._waiting and self._waiting[evaluation_id].deadline == deadline:
                return self._deadlines[0]
            heapq.heappop(self._deadlines)
        return None

    def _earlier_references(self, keys: tuple[str, ...]) -> list[_Remembered]:
        """The remembered references about any of these keys, in order of arrival."""
        ids = {reference_id for key in keys for reference_id in self._remembered_by_key.get(key, ())}
        return sorted(
            (self._remembered[reference_id] for reference_id in ids), key=lambda entry: entry.replay_point.offset
        )

    def _merge(self, waiting: _WaitingJob, known: _Remembered) -> None:
        waiting.references.append(known.reference)
        if known.replay_point.offset < waiting.replay_point.offset:
            waiting.replay_point = known.replay_point
        if not known.joined:
            known.joined = True
            self._outcomes().count_reference("joined")

    def _hold(self, waiting: _WaitingJob) -> None:
        evaluation_id = waiting.job.evaluation_id
        self._waiting[evaluation_id] = waiting
        self._waiting_size += waiting.size
        self._triggers.setdefault(waiting.job.assignment.evaluator.name, {})[evaluation_id] = waiting.job.trigger_offset
        for key in waiting.keys:
            self._waiting_by_key.setdefault(key, {})[evaluation_id] = None
        self._sequence += 1
        heapq.heappush(self._deadlines, (waiting.deadline, self._sequence, evaluation_id))
        heapq.heappush(self._offsets, (waiting.replay_point.offset, evaluation_id))

    def _release(self, evaluation_id: str) -> _WaitingJob | None:
        waiting = self._waiting.pop(evaluation_id, None)
        if waiting is not None:
            self._waiting_size -= waiting.size
            del self._triggers[waiting.job.assignment.evaluator.name][evaluation_id]
            for key in waiting.keys:
                _discard(self._waiting_by_key, key, evaluation_id)
        return waiting

    def _give_up(self, evaluation_id: str, offset: int) -> Job:
        waiting = self._release(evaluation_id)
        assert waiting is not None
        job = waiting.job
        self._outcomes().count_missing(job.monitor.name, job.assignment.evaluator.name)
        lacking = sorted(waiting.missing - provided_fields(waiting.references))
        reason = SkipReason.REFERENCE_MISSING.text(*(field.removeprefix("attributes.") for field in lacking))
        return replace(_with_references(waiting), skip=reason, trigger_offset=offset, triggered_at=self._time)

    def _forget(self, reference_id: str) -> None:
        known = self._remembered.pop(reference_id)
        self._remembered_size -= known.size
        _discard(self._remembered_by_key, known.reference.key, reference_id)


def _is_complete(waiting: _WaitingJob) -> bool:
    return waiting.missing <= provided_fields(waiting.references)


def _with_references(waiting: _WaitingJob) -> Job:
    case, references = waiting.job.case, tuple(waiting.references)
    return replace(waiting.job, replay_point=waiting.replay_point, case=lambda: with_references(case(), references))


def _packed_case(case: Turn | Conversation):  # noqa: ANN202
    """A function that returns the case. Until then it is kept as JSON, which takes a third of the memory."""
    if isinstance(case, Turn):
        return partial(turn_from_json, turn_to_json(case))
    return partial(conversation_from_json, conversation_to_json(case))


def _discard(index: dict[str, dict[str, None]], key: str, id_: str) -> None:
    ids = index.get(key)
    if ids is not None:
        ids.pop(id_, None)
        if not ids:
            del index[key]
