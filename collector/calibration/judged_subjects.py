"""The subjects that were judged lately, by all ids that feedback may name: an index, without clock or log."""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from collector.records.feedback import MOST_SUBJECTS, FeedbackEntry, FeedbackSubject
from collector.records.references import comparable_id
from collector.records.tenants import id_in_tenant
from evaluators.results import Evaluation

MOST_EVALUATIONS = 200_000
"""Evaluations that are remembered, about a kilobyte each; beyond that the oldest is forgotten."""
_MOST_LINKS = 50

_SubjectKey = tuple[str, str, str | None]
_OF_TURNS = ("turn_id", "span_id", "response_id", "trace_id")


class LogPlace(NamedTuple):
    """The place of a record in its log."""

    partition: int
    offset: int


@dataclass(slots=True)
class _JudgedSubject:
    """A subject of a monitor.

    `evaluations` counts those of it that are remembered, `by_evaluator` has the id of each evaluator's newest.
    """

    subject: FeedbackSubject
    keys: dict[str, None] = field(default_factory=dict[str, None])
    evaluations: int = 0
    by_evaluator: dict[str, str] = field(default_factory=dict[str, str])


class _RememberedEvaluation(NamedTuple):
    key: _SubjectKey
    place: LogPlace
    time: float


class JudgedSubjects:
    """The subjects of the newest evaluations.

    `of_both` are the monitors that judge turns and conversations. There, feedback joins only what it names: if feedback
    about a turn that was not sampled joined its conversation, it would count more often than its weight says.
    """

    def __init__(self, *, most: int = MOST_EVALUATIONS) -> None:
        self._most, self.of_both = most, frozenset[str]()
        self._evaluations: OrderedDict[str, _RememberedEvaluation] = OrderedDict()
        self._subjects: dict[_SubjectKey, _JudgedSubject] = {}
        self._by_key: dict[str, dict[_SubjectKey, None]] = {}

    def __len__(self) -> int:
        return len(self._evaluations)

    def add(self, evaluation: Evaluation, place: LogPlace, time: float) -> tuple[str, ...]:
        """Remember an evaluation that the log took at `time` (s); gives the keys under which it can be looked up."""
        if evaluation.evaluation_id in self._evaluations:
            return ()
        subject = _subject_of(evaluation)
        key = (subject.monitor, subject.conversation_id, subject.turn_id)
        judged = self._subjects.setdefault(key, _JudgedSubject(subject))
        # a lower rate's sample is a part of a higher rate's
        highest = max(subject.sampling, judged.subject.sampling, key=lambda each: each.probability)
        judged.subject = replace(subject, sampling=highest)  # the newest revision of a conversation
        judged.evaluations += 1
        judged.by_evaluator[evaluation.evaluator] = evaluation.evaluation_id
        for name in _keys_of(evaluation):
            judged.keys[name] = None
            self._by_key.setdefault(name, {})[key] = None
        self._evaluations[evaluation.evaluation_id] = _RememberedEvaluation(key, place, time)
        if len(self._evaluations) > self._most:
            self._forget_oldest()
        return (f"evaluation_id:{evaluation.evaluation_id}", *judged.keys)

    def expire(self, before: float) -> None:
        """Forget what the log took before a time (s)."""
        while self._evaluations and next(iter(self._evaluations.values())).time < before:
            self._forget_oldest()

    def place_of(self, evaluation_id: str) -> LogPlace | None:
        """The place of an evaluation in its log; None if it is not remembered."""
        remembered = self._evaluations.get(evaluation_id)
        return None if remembered is None else remembered.place

    def matches(self, entry: FeedbackEntry) -> "Matches":
        """The judged subjects of an entry: the nearest of each monitor."""
        nearest: dict[str, tuple[int, list[FeedbackSubject]]] = {}
        for subject, rank in self._ranked(entry):
            best, subjects = nearest.get(subject.monitor, (0, []))
            if rank > best:
                nearest[subject.monitor] = (rank, [subject])
            elif rank == best and len(subjects) < MOST_SUBJECTS:
                subjects.append(subject)
        subjects = tuple(subject for _, of_monitor in nearest.values() for subject in of_monitor)[:MOST_SUBJECTS]
        return Matches(subjects, exact=all(rank == _EXACT for rank, _ in nearest.values()))

    def evaluations_named(self, entry: FeedbackEntry) -> tuple[str, ...]:
        """The evaluations that an entry is about: the named one, or those by the evaluator that has the entry's name.

        An evaluation by name needs a turn or a conversation that is exactly what the entry names, and no second one of
        the same monitor: if a trace has several turns, it is unknown which one is meant.
        """
        if entry.evaluation_id is not None:
            return (entry.evaluation_id,) if any(True for _ in self._ranked(entry)) else ()
        exact: dict[str, list[str]] = {}
        for subject, rank in self._ranked(entry):
            known = self._subjects[subject.monitor, subject.conversation_id, subject.turn_id].by_evaluator
            if rank == _EXACT and entry.name in known:
                exact.setdefault(subject.monitor, []).append(known[entry.name])
        return tuple(ids[0] for ids in exact.values() if len(ids) == 1)

    def _ranked(self, entry: FeedbackEntry) -> Iterator[tuple[FeedbackSubject, int]]:
        if entry.evaluation_id is not None:
            if (remembered := self._evaluations.get(entry.evaluation_id)) is not None:
                subject = self._subjects[remembered.key].subject
                if _may_speak_of(entry.tenant, subject):
                    yield subject, _EXACT
            return
        for key in {key: None for name in keys_of_entry(entry) for key in self._by_key.get(name, ())}:
            judged = self._subjects[key]
            rank = _rank(entry, judged)
            if rank > _WIDER or (rank and judged.subject.monitor not in self.of_both):
                yield judged.subject, rank

    def _forget_oldest(self) -> None:
        evaluation_id, remembered = self._evaluations.popitem(last=False)
        judged = self._subjects[remembered.key]
        judged.by_evaluator = {name: each for name, each in judged.by_evaluator.items() if each != evaluation_id}
        judged.evaluations -= 1
        if judged.evaluations:
            return
        del self._subjects[remembered.key]
        for name in judged.keys:
            subjects = self._by_key[name]
            del subjects[remembered.key]
            if not subjects:
                del self._by_key[name]


class Matches(NamedTuple):
    """The subjects that an entry is about. `exact`: no later evaluation can be nearer to what it names."""

    subjects: tuple[FeedbackSubject, ...]
    exact: bool


def keys_of_entry(entry: FeedbackEntry) -> tuple[str, ...]:
    """The keys of subjects that an entry may be about."""
    if entry.evaluation_id is not None:
        return (f"evaluation_id:{entry.evaluation_id}",)
    names = (*_OF_TURNS, "conversation_id")
    return tuple(f"{name}:{value}" for name in names if (value := getattr(entry, name)) is not None)


_WIDER, _IN_TRACE, _EXACT = 1, 2, 3


def _rank(entry: FeedbackEntry, judged: _JudgedSubject) -> int:
    """How near a subject is to what an entry names: exactly it, its trace, something wider or narrower, or not at all.

    Feedback on a conversation counts for its turns if its monitor judges only turns, and the other way round.
    """
    subject = judged.subject
    if not _may_speak_of(entry.tenant, subject):
        return 0
    if entry.conversation_id is not None and entry.conversation_id != subject.conversation_id:
        return 0
    named = {name: value for name in _OF_TURNS if (value := getattr(entry, name)) is not None}
    if entry.spans and subject.turn_id is not None:  # the response id or the spans: either names the turn
        response = named.pop("response_id", None)
        if response is not None and response == subject.response_id:
            return _EXACT
    if subject.turn_id is None:
        if not named:
            return _EXACT
        in_trace = entry.trace_id is not None and f"trace_id:{entry.trace_id}" in judged.keys
        return _WIDER if in_trace or entry.conversation_id is not None else 0
    if not named:
        return _WIDER
    if any(comparable_id(name, getattr(subject, name) or "") != value for name, value in named.items()):
        return 0
    return _EXACT if not entry.spans or subject.span_id in entry.spans else _IN_TRACE


def _may_speak_of(tenant: str | None, subject: FeedbackSubject) -> bool:
    """Whether a sender may give feedback on a subject. `tenant` is "" for a sender without one, None for an
    operator.
    """
    prefix = id_in_tenant("", tenant) if tenant else _ANY_TENANT
    return tenant is None or subject.conversation_id.startswith(prefix) == bool(tenant)


_ANY_TENANT = id_in_tenant("", "-").removesuffix("-/")


def _subject_of(evaluation: Evaluation) -> FeedbackSubject:
    subject = evaluation.subject
    return FeedbackSubject(
        monitor=evaluation.monitor, conversation_id=subject.conversation_id, turn_id=subject.turn_id,
        trace_id=subject.trace_id, span_id=subject.span_id, response_id=subject.response_id,
        sampling=evaluation.sampling.of_subject,
    )  # fmt: skip


def _keys_of(evaluation: Evaluation) -> Iterator[str]:
    subject = evaluation.subject
    yield f"conversation_id:{subject.conversation_id}"
    if subject.turn_id is None:
        traces = {trace for trace, _ in subject.links[-_MOST_LINKS:]} | {subject.trace_id or ""}
        yield from (f"trace_id:{trace.lower()}" for trace in traces if trace)
        return
    for name in _OF_TURNS:
        if (value := getattr(subject, name)) is not None:
            yield f"{name}:{comparable_id(name, value)}"
