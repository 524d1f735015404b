"""State of the page, folded from the turns log and the evaluations log: bounded, no clock, no I/O.

It has the newest evaluations with their labels and feedback, the series of scores, and a cache of turns for reading, in
which those of listed evaluations stay longest.
"""

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, field

from collector.page.score_series import MINUTE, HistoryStretch, ScoreSeries, SeriesKey
from collector.past.turns import case_of
from collector.records.feedback import JoinedFeedback
from collector.records.turns import conversation_key, in_order
from collector.statistics.agreement import ScoreScale
from evaluators.cases import Conversation, Scope, Turn
from evaluators.results import Evaluation, Label

OVERHEAD = 500
"""Bytes that a cached turn costs beside its text, about."""
_SCAN_EVERY = 256
"""Changes between two scans for the oldest cached offset of a partition. Why not at each: a scan reads every turn. In
between the offset may be too low, which only makes a restart read more."""


@dataclass(slots=True)
class _CachedTurn:
    """A turn, and where in the turns log it lies since the time `received` (s). The overhead is part of its size."""

    turn: Turn
    size: int
    partition: int
    position: int
    received: float


_CachedConversation = dict[str, _CachedTurn]
"""The cached turns of a conversation by their id, in the order of arrival."""


class TurnCache:
    """Turns by conversation, within a number of bytes.

    A conversation is pinned while evaluations of it are listed; unpinned ones (not evaluated yet, or never) are evicted
    first, the oldest before the newest.
    """

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._bytes = 0
        self._pins: dict[str, int] = {}
        self._pinned: OrderedDict[str, _CachedConversation] = OrderedDict()
        self._unpinned: OrderedDict[str, _CachedConversation] = OrderedDict()
        self._lowest: dict[int, int] = {}
        self._changes = 0

    def add(self, turn: Turn, size: int, partition: int, position: int, received: float) -> None:
        """A turn of `size` bytes came into the log; the same turn again replaces the first, but keeps its place."""
        key = conversation_key(turn)
        talk = (self._pinned if key in self._pins else self._unpinned).setdefault(key, {})
        cached = talk.setdefault(turn.turn_id, _CachedTurn(turn, 0, partition, position, received))
        self._bytes += size + OVERHEAD - cached.size
        cached.turn, cached.size = turn, size + OVERHEAD
        self._lowest.setdefault(partition, position)
        self._shrink()
        self._changed()

    def pin(self, key: str) -> None:
        """An evaluation of this conversation is listed."""
        self._pins[key] = self._pins.get(key, 0) + 1
        talk = self._unpinned.pop(key, None)
        if talk is not None:
            self._pinned[key] = talk

    def unpin(self, key: str, *, returns: bool = False) -> None:
        """An evaluation of this conversation is listed no more; one that `returns` will need the turns again."""
        self._pins[key] -= 1
        if not self._pins[key]:
            del self._pins[key]
            if returns and key in self._pinned:
                self._unpinned[key] = self._pinned.pop(key)
            self._drop(self._pinned, key)

    def turns(self, key: str) -> list[Turn]:
        """The cached turns of a conversation, in its order."""
        talk = self._pinned.get(key) or self._unpinned.get(key, {})
        return in_order((cached.turn, cached.received) for cached in talk.values())

    def case_of(self, evaluation: Evaluation) -> Turn | Conversation | None:
        """The subject of an evaluation; None if not all of its turns are cached."""
        key = evaluation.subject.conversation_id
        return case_of(evaluation, {key: {turn.turn_id: turn for turn in self.turns(key)}})

    def turn(self, key: str, turn_id: str) -> Turn | None:
        """One turn, if it is cached."""
        talk = self._pinned.get(key) or self._unpinned.get(key)
        cached = talk.get(turn_id) if talk else None
        return cached.turn if cached else None

    def forget(self, partition: int) -> None:
        """Drop the turns of a partition of the turns log; it is about to be read again."""
        for place in (self._pinned, self._unpinned):
            gone = [key for key, talk in place.items() if any(turn.partition == partition for turn in talk.values())]
            for key in gone:
                self._drop(place, key)
        self._lowest.pop(partition, None)

    def lowest(self, partition: int) -> int | None:
        """A position at or before the oldest cached turn of a partition."""
        return self._lowest.get(partition)

    def _shrink(self) -> None:
        while self._bytes > self._budget and (place := self._unpinned or self._pinned):
            self._drop(place, next(iter(place)))

    def _drop(self, place: OrderedDict[str, _CachedConversation], key: str) -> None:
        talk = place.pop(key, None)
        if talk is not None:
            self._bytes -= sum(turn.size for turn in talk.values())
            self._changed()

    def _changed(self) -> None:
        self._changes += 1
        if self._changes % _SCAN_EVERY == 0 or not (self._pinned or self._unpinned):
            self._lowest = {}
            talks = (talk for place in (self._pinned, self._unpinned) for talk in place.values())
            for turn in (cached for talk in talks for cached in talk.values()):
                self._lowest[turn.partition] = min(turn.position, self._lowest.get(turn.partition, turn.position))


LABELS = 10_000
"""Labelled evaluations that are remembered, the newest: their labels may be read before they are."""
FEEDBACK = 10_000
"""Conversations whose feedback is remembered, those with the newest."""
MOST_FEEDBACK = 50
"""How many of the newest pieces of feedback on one conversation are remembered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorView:
    """An evaluator that a monitor uses: what its evaluations are measured against."""

    monitor: str
    evaluator: str
    scope: Scope = "turn"
    threshold: float | None = None
    target: float | None = None
    """The mean that alerts hold it to; None without one."""
    lower_is_better: bool = False
    audit_version: str | None = None
    """The version of who audits it; None if nobody does."""
    asks: str = ""
    """Its criterion, in words."""
    labels: Mapping[str, bool | None] = field(default_factory=dict[str, bool | None])
    """The labels that it chooses from, and whether each passes."""
    versions: tuple[str, ...] = ()
    """The versions that are one evaluator now: its own, and with the judge that takes over; () takes all."""
    free: bool = False
    """Whether its judges' price is 0: no cost of theirs is unknown then."""
    by_label: bool = False
    """Whether its labels decide what passes, as there is no threshold."""

    @property
    def scale(self) -> ScoreScale:
        """The scale of its scores: verdicts follow from it, as the threshold may have changed since."""
        return ScoreScale(self.threshold, self.lower_is_better, self.by_label, self.labels)


@dataclass(slots=True)
class ListedEvaluation:
    """An evaluation on the page. `position` is the record's in its partition, `label` the newest that was given.

    `superseded_by` is the evaluation made in place of a failed one, `requested` says whether it was requested on the
    page.
    """

    evaluation: Evaluation
    partition: int
    position: int
    timestamp: float
    label: Label | None = None
    superseded_by: str | None = None
    requested: bool = False


@dataclass(slots=True)
class OutcomeCounts:
    """How evaluations since the start ended: scored, and (outcome, reason) where there is no score."""

    scored: int = 0
    others: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])


_UNCHANGED = 0, 0.0


@dataclass(eq=False, repr=False)
class View:
    """The newest `evaluations`, none older than `keep` (s), their conversations, and every monitor's scores over time.

    `started` (s since the epoch) is the time from which on outcomes are counted.
    """

    evaluators_in_use: InitVar[Sequence[EvaluatorView]]
    _: KW_ONLY
    evaluations: int = 5000
    text_bytes: InitVar[int] = 64 << 20
    keep: float = 86400.0
    started: float = 0.0

    def __post_init__(self, evaluators_in_use: Sequence[EvaluatorView], text_bytes: int) -> None:
        self.version = 0
        """Grows with every change."""
        self.turn_cache = TurnCache(text_bytes)
        self._series: dict[SeriesKey, ScoreSeries] = {}
        self.outcomes: dict[tuple[str, str], OutcomeCounts] = {}
        self._listed: OrderedDict[str, ListedEvaluation] = OrderedDict()
        self._labels: OrderedDict[str, Label] = OrderedDict()
        self._queue_labels: OrderedDict[str, dict[str | None, Label]] = OrderedDict()
        """Labels of drawn evaluations, by person."""
        self._feedback: OrderedDict[str, OrderedDict[str, JoinedFeedback]] = OrderedDict()
        self._positions: dict[int, deque[int]] = {}
        self._next_offsets: dict[int, int] = {}
        """By partition, the first offset that is not in the series of scores yet."""
        self._known_offsets: dict[int, int] = {}
        """By partition, the first offset that this process has not read yet: nothing counts twice."""
        self._unsaved: dict[int, tuple[int, float]] = {}
        """By partition, the first offset that the history does not have, and when the log took it."""
        self._changes: dict[str, tuple[int, float]] = {}
        """By evaluator, how often its scale has changed since the history began, and when (s)."""
        self.since: Callable[[], float] = lambda: 0.0
        """When the configuration with the evaluators in use came into force (s); the service sets it."""
        self.evaluators: Mapping[tuple[str, str], EvaluatorView] = {}
        self.take_evaluators(evaluators_in_use)

    def take_evaluators(self, evaluators_in_use: Sequence[EvaluatorView]) -> None:
        """From now on these are in use. Scores of others stay in sight as long as they are young enough."""
        before = {view.evaluator: view.scale for view in self.evaluators.values()}
        self.evaluators = {(view.monitor, view.evaluator): view for view in evaluators_in_use}
        for name, scale in {view.evaluator: view.scale for view in evaluators_in_use}.items():
            if self.version and before.get(name) != scale:  # at the start, the history says whether it changed
                self._begin_again(name, self._changes.get(name, _UNCHANGED)[0] + 1)
        for listed in self._listed.values():
            listed.evaluation = _of_now(self, listed.evaluation)
        for key, evaluator in self.evaluators.items():
            self._series_of(key, "").audit_version = evaluator.audit_version
            self.outcomes.setdefault(key, OutcomeCounts())
        self.version += 1

    def _begin_again(self, evaluator: str, changes: int, time: float = 0.0) -> None:
        """The scale of an evaluator has changed, at `time` (s) or with the present configuration: verdicts from before
        are forgotten, also if it is put back.
        """
        changed = [series for (_, name, _), series in self._series.items() if name == evaluator]
        time = max((time or self.since(), *(series.newest or 0.0 for series in changed)))
        for series in changed:
            series.forget_verdicts(time)
        self._changes[evaluator] = changes, time

    @property
    def score_series(self) -> Mapping[tuple[str, str], ScoreSeries]:
        """The scores by monitor and evaluator, in its present version; or, if the evaluator is not in use, in its
        newest version.
        """
        newest = {key[:2]: key for key in sorted(self._series, key=lambda key: self._series[key].newest or 0.0)}
        return {key: self._series[self._current(key, whole[2])] for key, whole in newest.items()}

    def earlier_series(self, key: tuple[str, str]) -> Sequence[ScoreSeries]:
        """The scores of the versions before, the newest first."""
        now = self.score_series[key]
        before = [series for name, series in self._series.items() if name[:2] == key and series is not now]
        return sorted((series for series in before if series.newest), key=lambda series: -(series.newest or 0.0))

    def _current(self, key: tuple[str, str], version: str) -> SeriesKey:
        """The series of the version in use; "" is any version, and that of an evaluator in use no more is `version`."""
        view = self.evaluators.get(key)
        return (*key, version if view is None else next(iter(view.versions), ""))

    def _series_of(self, key: tuple[str, str], version: str) -> ScoreSeries:
        """The series of a version of an evaluator; of an unknown one ("") that of the version in use."""
        view = self.evaluators.get(key)
        is_now = view is not None and (not view.versions or version in ("", *view.versions))
        return self._series.setdefault(self._current(key, version) if is_now else (*key, version), ScoreSeries())

    def __len__(self) -> int:
        return len(self._listed)

    def __iter__(self) -> Iterator[ListedEvaluation]:
        """All listed evaluations, the oldest first."""
        return iter(self._listed.values())

    def __reversed__(self) -> Iterator[ListedEvaluation]:
        """All listed evaluations, the newest first."""
        return reversed(self._listed.values())

    def get(self, evaluation_id: str) -> ListedEvaluation | None:
        """A listed evaluation."""
        return self._listed.get(evaluation_id)

    def add_turn(self, turn: Turn, size: int, partition: int, position: int, received: float) -> None:
        """A turn came into the log at `received` (s); `size` is that of its record."""
        self.version += 1
        self.turn_cache.add(turn, size, partition, position, received)

    def add_evaluation(self, evaluation: Evaluation, partition: int, position: int, timestamp: float) -> None:
        """An evaluation is in the ledger since `timestamp` (s); the same one again changes nothing."""
        if evaluation.evaluation_id in self._listed:
            return
        self.version += 1
        evaluation, key = _of_now(self, evaluation), (evaluation.monitor, evaluation.evaluator)
        is_new = _advance(self._next_offsets, partition, position)
        is_first = _advance(self._known_offsets, partition, position)
        if is_new:
            self._unsaved.setdefault(partition, (position, timestamp))
        series = self._series_of(key, evaluation.evaluator_version)
        if is_new:
            series.add_work(evaluation, partition)
        if is_first and not self._repeats(key, evaluation):
            series.add(evaluation, partition, is_stored=not is_new)
        if is_first and _is_live(self, evaluation, timestamp):  # as turns are counted
            _count(self.outcomes.setdefault(key, OutcomeCounts()), evaluation)
        if evaluation.retry is not None or evaluation.happened_at is not None:
            self._replace_failure(evaluation, partition, is_new=is_new, is_first=is_first)
        if evaluation.happened_at and evaluation.happened_at.timestamp() < timestamp - self.keep:
            return  # older than anything that is listed
        self._listed[evaluation.evaluation_id] = ListedEvaluation(
            evaluation, partition, position, timestamp, self._labels.get(evaluation.evaluation_id)
        )
        self._positions.setdefault(partition, deque()).append(position)
        self.turn_cache.pin(evaluation.subject.conversation_id)
        self.expire(timestamp)

    def _repeats(self, key: tuple[str, str], evaluation: Evaluation) -> bool:
        """Whether the series has a score of the subject already, for instance a fallback judge's that is made again."""
        replayed = self._listed.get(str(evaluation.attributes.get("replay_of")))
        if replayed is None or evaluation.happened_at is None:
            return False
        before = replayed.evaluation.evaluator_version
        return self._series_of(key, before) is self._series_of(key, evaluation.evaluator_version)

    def _replace_failure(self, retried: Evaluation, partition: int, *, is_new: bool, is_first: bool) -> None:
        """Count a failure and what was made in its place once, under the new outcome."""
        failed = self._listed.get(retried.supersedes[0]) if retried.supersedes else None
        if failed is None or failed.superseded_by is not None or failed.evaluation.score is not None:
            return
        failed.superseded_by = retried.evaluation_id
        key = (failed.evaluation.monitor, failed.evaluation.evaluator)
        if is_new:
            self._series_of(key, failed.evaluation.evaluator_version).discount(failed.evaluation, partition)
        if is_first and _is_in_outcomes(self, failed):
            self.outcomes[key].others -= Counter([(failed.evaluation.outcome, failed.evaluation.reason_code)])
            if retried.happened_at is not None:  # else it is counted as what came now
                _count(self.outcomes[key], retried)

    def add_label(self, label: Label) -> None:
        """A person labelled an evaluation, which may not be on the page yet."""
        if label.label_probability is not None:
            self._add_queue_label(label)
        if label.state == "retracted":
            self._retract(label)
            return
        known = self._labels.pop(label.evaluation_id, label)
        newest = label if known.given_at <= label.given_at else known
        self._labels[label.evaluation_id] = newest
        if len(self._labels) > LABELS:
            self._labels.popitem(last=False)
        if (listed := self._listed.get(label.evaluation_id)) and listed.label != newest:
            self.version += 1
            listed.label = newest

    def _add_queue_label(self, label: Label) -> None:
        people = self._queue_labels.setdefault(label.evaluation_id, {})
        known = people.get(label.given_by, label)
        people[label.given_by] = label if known.given_at <= label.given_at else known
        if len(self._queue_labels) > LABELS:
            self._queue_labels.popitem(last=False)
        self.version += 1

    def _retract(self, label: Label) -> None:
        newest = self._labels.get(label.evaluation_id)
        if newest is None or newest.given_by != label.given_by or newest.given_at > label.given_at:
            return
        del self._labels[label.evaluation_id]
        if listed := self._listed.get(label.evaluation_id):
            listed.label = None

    def queue_labels(self, evaluation_id: str) -> dict[str | None, Label]:
        """The labels of a drawn evaluation by person, without those that were taken back."""
        people = self._queue_labels.get(evaluation_id, {})
        return {person: label for person, label in people.items() if label.state is None}

    def add_feedback(self, joined: JoinedFeedback) -> None:
        """Feedback has joined the evaluation that it is about."""
        for conversation_id in {subject.conversation_id for subject in joined.subjects}:
            pieces = self._feedback.setdefault(conversation_id, OrderedDict())
            pieces[joined.entry.feedback_id] = joined
            self._feedback.move_to_end(conversation_id)
            if len(pieces) > MOST_FEEDBACK:
                pieces.popitem(last=False)
        if len(self._feedback) > FEEDBACK:
            self._feedback.popitem(last=False)
        self.version += 1

    def feedback_of(self, evaluation: Evaluation) -> list[JoinedFeedback]:
        """Feedback about what was evaluated: the turn, or the conversation with all its turns."""
        subject = evaluation.subject
        pieces = list(self._feedback.get(subject.conversation_id, OrderedDict[str, JoinedFeedback]()).values())
        if subject.turn_id is None:
            return pieces
        about = (None, subject.turn_id)
        return [piece for piece in pieces if any(judged.turn_id in about for judged in piece.subjects)]

    def expire(self, now: float) -> None:
        """Remove what is too old at `now` (s), and what exceeds the limits."""
        while self._listed:
            oldest = next(iter(self._listed.values()))
            if len(self._listed) <= self.evaluations and oldest.timestamp >= now - self.keep:
                return
            self._remove(oldest)

    def forget(self, partition: int) -> None:
        """Remove the evaluations of a partition of the evaluations log; it is about to be read again."""
        for listed in [evaluation for evaluation in self._listed.values() if evaluation.partition == partition]:
            self._remove(listed, returns=True)

    def needed(self, partition: int) -> int | None:
        """Position of the oldest evaluation of a partition that is listed, or not in the history yet."""
        known = self._positions.get(partition), self._unsaved.get(partition)
        return min((positions[0] for positions in known if positions), default=None)

    def end_at(self, partition: int, end: int) -> None:
        """A partition of the log ends at an offset: if it ended later before, it is a new log."""
        if self._next_offsets.get(partition, 0) > end:
            del self._next_offsets[partition]
            self._known_offsets.pop(partition, None)

    def restore(self, stretch: HistoryStretch) -> None:
        """Count what the history has; rows that are counted already, or overlap with such rows, are left out, as are
        verdicts from before the last change of a threshold.
        """
        if stretch.next > self._unsaved.get(stretch.partition, (stretch.next,))[0]:
            self.note_saved(stretch.partition)  # by another process, or by this one without an acknowledgement
        if stretch.first < self._next_offsets.get(stretch.partition, 0):
            return
        self._next_offsets[stretch.partition] = stretch.next
        self.version += 1
        now = {view.evaluator: view.threshold for view in self.evaluators.values()}.items()
        for name, threshold in stretch.thresholds.items():
            (changes, time), is_other = stretch.changes.get(name, _UNCHANGED), (name, threshold) not in now
            if changes + is_other > self._changes.get(name, _UNCHANGED)[0]:
                self._begin_again(name, changes + is_other, 0.0 if is_other else time)
        for minute, (monitor, name, version), what in stretch.minutes:
            changes, changed = self._changes.get(name, _UNCHANGED)
            is_same = name in stretch.thresholds and stretch.changes.get(name, _UNCHANGED)[0] == changes
            forgotten = changed if is_same else max(changed, minute * MINUTE)
            self._series_of((monitor, name), version).restore(minute, what, forgotten=forgotten, verdicts=is_same)

    def unsaved(self, partition: int, now: float, *, after: float) -> HistoryStretch | None:
        """The unsaved sums of a partition, if they began `after` seconds or more before `now` (s); else None."""
        first = self._unsaved.get(partition)
        if first is None or now - first[1] < after:
            return None
        minutes = [
            (minute, key, what)
            for key, series in self._series.items()
            for minute, what in sorted(series.unsaved.get(partition, {}).items())
        ]
        thresholds = {view.evaluator: view.threshold for view in self.evaluators.values()}
        offsets = partition, first[0], self._next_offsets[partition]
        return HistoryStretch(*offsets, tuple(minutes), thresholds, dict(self._changes))

    def note_saved(self, partition: int) -> None:
        """The history has what was unsaved of a partition."""
        self._unsaved.pop(partition, None)
        for series in self._series.values():
            series.unsaved.pop(partition, None)

    def _remove(self, listed: ListedEvaluation, *, returns: bool = False) -> None:
        self.version += 1
        del self._listed[listed.evaluation.evaluation_id]
        self._positions[listed.partition].popleft()  # a partition's evaluations leave in the order they came
        self.turn_cache.unpin(listed.evaluation.subject.conversation_id, returns=returns)


def evaluator_of(view: View, judged: Evaluation) -> EvaluatorView | None:
    """The evaluator in use of this name: of its own monitor, or of any if that monitor is gone; else None."""
    same = (used for used in view.evaluators.values() if used.evaluator == judged.evaluator)
    return view.evaluators.get((judged.monitor, judged.evaluator)) or next(same, None)


def _of_now(view: View, judged: Evaluation) -> Evaluation:
    watched = evaluator_of(view, judged)
    return judged if watched is None else watched.scale.of_now(judged)


def _is_live(view: View, judged: Evaluation, timestamp: float) -> bool:
    """Whether an evaluation is of live traffic, and since the start: one may share an answer from before the start."""
    return judged.happened_at is None and timestamp >= view.started


def _is_in_outcomes(view: View, listed: ListedEvaluation) -> bool:
    """Whether the outcomes have an evaluation: a live one, or one that was made in place of a failure that they had."""
    judged = listed.evaluation
    before = view.get(judged.supersedes[0]) if judged.supersedes else None
    failed = before if before is not None and before.superseded_by == judged.evaluation_id else None
    return _is_live(view, judged, listed.timestamp) or (failed is not None and _is_in_outcomes(view, failed))


def paid_in(view: View, evaluation: Evaluation) -> Evaluation | None:
    """The evaluation whose verdict this one shares, while it is listed; None if it shares none."""
    listed = view.get(evaluation.shares or "")
    return listed and listed.evaluation


def _advance(offsets: dict[int, int], partition: int, position: int) -> bool:
    """Whether a position is at or after the partition's offset, which then becomes the one after it."""
    is_beyond = position >= offsets.get(partition, 0)
    if is_beyond:
        offsets[partition] = position + 1
    return is_beyond


def _count(outcomes: OutcomeCounts, evaluation: Evaluation) -> None:
    if evaluation.outcome == "scored":
        outcomes.scored += 1
    else:
        outcomes.others[evaluation.outcome, evaluation.reason_code] += 1
