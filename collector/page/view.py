"""What the page shows, folded from the turns log and the evaluations log: bounded, no clock, no I/O."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from collector.page.texts import Texts
from collector.page.tracks import Track
from evaluators.cases import Scope, Turn
from evaluators.outcome import Evaluation, Label

LABELS = 10_000
"""Labelled evaluations that are remembered, the newest: their labels may be read before they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """An evaluator that a monitor uses: what its evaluations are measured against."""

    monitor: str
    evaluator: str
    scope: Scope = "turn"
    threshold: float | None = None
    lower_is_better: bool = False


@dataclass(slots=True)
class Listed:
    """An evaluation on the page. `position` is the record's in its partition, `label` the newest that was given."""

    evaluation: Evaluation
    partition: int
    position: int
    timestamp: float
    label: Label | None = None


@dataclass(slots=True)
class Outcomes:
    """How evaluations since the start ended: scored, and (outcome, reason) where there is no score."""

    scored: int = 0
    others: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])


class View:
    """The newest `evaluations`, none older than `keep` (s), their conversations, and every monitor's scores over time.

    `started` (s since the epoch) is the time from which on outcomes are counted.
    """

    def __init__(
        self,
        watched: Sequence[Watched],
        *,
        evaluations: int = 5000,
        text_bytes: int = 64 << 20,
        keep: float = 86400.0,
        started: float = 0.0,
    ) -> None:
        self.version = 0
        """Grows with every change."""
        self.started = started
        self.texts = Texts(text_bytes)
        self.watched = {(each.monitor, each.evaluator): each for each in watched}
        self.tracks = {key: Track() for key in self.watched}
        self.outcomes = {key: Outcomes() for key in self.watched}
        self.turns = 0
        self._limit = evaluations
        self._keep = keep
        self._listed: OrderedDict[str, Listed] = OrderedDict()
        self._labels: OrderedDict[str, Label] = OrderedDict()
        self._positions: dict[int, deque[int]] = {}

    def __len__(self) -> int:
        return len(self._listed)

    def __iter__(self) -> Iterator[Listed]:
        """All listed evaluations, the oldest first."""
        return iter(self._listed.values())

    def get(self, evaluation_id: str) -> Listed | None:
        """A listed evaluation."""
        return self._listed.get(evaluation_id)

    def add_turn(self, turn: Turn, size: int, partition: int, position: int) -> None:
        """A turn was assembled; `size` is that of its record."""
        self.turns += 1
        self.version += 1
        self.texts.add(turn, size, partition, position)

    def add_evaluation(self, evaluation: Evaluation, partition: int, position: int, timestamp: float) -> None:
        """An evaluation is in the ledger since `timestamp` (s); the same one again changes nothing."""
        if evaluation.evaluation_id in self._listed:
            return
        self.version += 1
        key = (evaluation.monitor, evaluation.evaluator)
        self.tracks.setdefault(key, Track()).add(evaluation)
        if evaluation.ended_at.timestamp() >= self.started:
            _count(self.outcomes.setdefault(key, Outcomes()), evaluation)
        self._listed[evaluation.evaluation_id] = Listed(
            evaluation, partition, position, timestamp, self._labels.get(evaluation.evaluation_id)
        )
        self._positions.setdefault(partition, deque()).append(position)
        self.texts.want(evaluation.subject.conversation_id)
        self.expire(timestamp)

    def add_label(self, label: Label) -> None:
        """A person said something of an evaluation, which may not be on the page yet."""
        known = self._labels.pop(label.evaluation_id, label)
        newest = label if known.given_at <= label.given_at else known
        self._labels[label.evaluation_id] = newest
        if len(self._labels) > LABELS:
            self._labels.popitem(last=False)
        listed = self._listed.get(label.evaluation_id)
        if listed and listed.label != newest:
            self.version += 1
            listed.label = newest

    def expire(self, now: float) -> None:
        """Let go of what is too old at `now` (s) and of what is too much."""
        while self._listed:
            oldest = next(iter(self._listed.values()))
            if len(self._listed) <= self._limit and oldest.timestamp >= now - self._keep:
                return
            self._let_go(oldest)

    def forget(self, partition: int) -> None:
        """Let go of what a partition of the evaluations log gave; it is about to be read again."""
        for listed in [each for each in self._listed.values() if each.partition == partition]:
            self._let_go(listed)

    def lowest(self, partition: int) -> int | None:
        """Position of the oldest listed evaluation of a partition."""
        positions = self._positions.get(partition)
        return positions[0] if positions else None

    def _let_go(self, listed: Listed) -> None:
        self.version += 1
        del self._listed[listed.evaluation.evaluation_id]
        self._positions[listed.partition].popleft()  # a partition's evaluations leave in the order they came
        self.texts.release(listed.evaluation.subject.conversation_id)


def reason_of(evaluation: Evaluation) -> str:
    """Why there is no score, in a word: the prefix of a skip's reason, or the type of the error; "" for a score."""
    if evaluation.error:
        return evaluation.error.type
    return (evaluation.reason or "").partition(":")[0]


def _count(outcomes: Outcomes, evaluation: Evaluation) -> None:
    if evaluation.outcome == "scored":
        outcomes.scored += 1
    else:
        outcomes.others[evaluation.outcome, reason_of(evaluation)] += 1
