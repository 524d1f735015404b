"""The join of feedback with its subject: state of a partition of the labels log, without clock, log or judge.

Feedback waits, from its arrival in the log, until its subject is judged and no better match can be expected, or until
its time is over. Then one more record is written to its partition, its end. From then on the same feedback is known: it
is not joined again, neither after a restart nor if it is sent again.

Its end is remembered for one more wait. If the feedback is sent again meanwhile, its end is written once more before it
may be forgotten: otherwise a replay that begins between the end and the second copy would take that copy for new.
"""
# Why not remember the end for as long as copies come: everything from it on would be read at each restart.

from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from collector.calibration.judged_subjects import JudgedSubjects, keys_of_entry
from collector.records.feedback import FeedbackEntry, FeedbackSubject, JoinedFeedback, JoinOutcome

MOST_WAITING = 100_000
"""Pieces of feedback of a partition that wait; beyond that the oldest is given up."""
MOST_KNOWN = 300_000
"""Pieces of feedback of which duplicates are recognized; beyond that the oldest is forgotten."""
SETTLE, SETTLE_NEARER = 5.0, 60.0
"""Seconds from the first matching evaluation to the join, in which evaluations by other monitors, or of nearer turns,
may follow."""
OTHER = "other"


@dataclass(frozen=True, slots=True)
class JoinSettings:
    """`wait` (s) is how long feedback waits for its subject. `scales` are the names of feedback that metrics show, each
    with its worst and best number; other names are `other`.
    """

    wait: float = 7 * 86_400.0
    scales: Mapping[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])


@dataclass(slots=True)
class _WaitingPiece:
    """Feedback that the log took at `offset` and `time` (s)."""

    entry: FeedbackEntry
    offset: int
    time: float
    matched_since: float | None = None


@dataclass(slots=True)
class _End:
    """The newest end of a piece of feedback, at or after `offset`, since `time` (s). `repeated`: it was sent again."""

    offset: int
    time: float
    repeated: bool = False


class FeedbackJoin:
    """The waiting feedback of one partition, and the subjects known there."""

    def __init__(self, settings: JoinSettings, *, most: int = MOST_WAITING, most_known: int = MOST_KNOWN) -> None:
        self._settings = settings
        self._most = most
        self._most_known = most_known
        self._waiting: dict[str, _WaitingPiece] = {}  # this and the next are in the order of their offsets
        self._ends: OrderedDict[str, _End] = OrderedDict()
        self._ends_ahead: set[str] = set()
        self._by_key: dict[str, dict[str, None]] = {}
        self._matched: dict[str, None] = {}
        self._arrived: dict[str, None] = {}

    @property
    def waiting(self) -> int:
        """How many pieces wait."""
        return len(self._waiting)

    @property
    def low_watermark(self) -> int | None:
        """The oldest record that is needed to know what waits and what came before."""
        return min((next(iter(each.values())).offset for each in (self._waiting, self._ends) if each), default=None)

    @property
    def arrivals(self) -> list[FeedbackEntry]:
        """The feedback that arrived since the last `match`."""
        return [self._waiting[name].entry for name in self._arrived]

    def expect(self, feedback_id: str) -> None:
        """Note that the log has the end of a piece which is yet to be delivered."""
        self._ends_ahead.add(feedback_id)

    def add(self, entry: FeedbackEntry, offset: int, time: float) -> bool:
        """The log took feedback at `time` (s); False if it is known."""
        if (end := self._ends.get(entry.feedback_id)) is not None:
            end.repeated = True
        if end is not None or entry.feedback_id in self._waiting or entry.feedback_id in self._ends_ahead:
            return False
        self._waiting[entry.feedback_id] = _WaitingPiece(entry, offset, time)
        self._arrived[entry.feedback_id] = None
        for key in keys_of_entry(entry):
            self._by_key.setdefault(key, {})[entry.feedback_id] = None
        return True

    def close(self, feedback_id: str, offset: int, time: float) -> None:
        """Note that the log has the end of a piece, at or after `offset`."""
        self._ends_ahead.discard(feedback_id)
        self._ends[feedback_id] = _End(offset, time)
        self._ends.move_to_end(feedback_id)
        waiting = self._waiting.pop(feedback_id, None)
        if waiting is None:
            return
        self._matched.pop(feedback_id, None)
        self._arrived.pop(feedback_id, None)
        for key in keys_of_entry(waiting.entry):
            names = self._by_key[key]
            del names[feedback_id]
            if not names:
                del self._by_key[key]

    def match(self, subjects: JudgedSubjects, keys: Collection[str], now: float) -> None:
        """Look for the subjects of new feedback, and of waiting feedback that may be about one judged just now."""
        names = {name: None for key in keys if key in self._by_key for name in self._by_key[key]} | self._arrived
        self._arrived = {}
        for name in names:
            waiting = self._waiting[name]
            if waiting.matched_since is None and subjects.matches(waiting.entry).subjects:
                waiting.matched_since = now
                self._matched[name] = None

    def due(self, subjects: JudgedSubjects, now: float) -> Iterator[JoinedFeedback]:
        """The feedback decided at `now` (s): `close` each piece once its record is in the log."""
        for name in list(self._matched):
            waiting = self._waiting[name]
            if waiting.matched_since is None:
                continue
            matches = subjects.matches(waiting.entry)
            if not matches.subjects:  # forgotten meanwhile
                waiting.matched_since = None
                del self._matched[name]
            elif now - waiting.matched_since >= (SETTLE if matches.exact else SETTLE_NEARER):
                yield self._joined(waiting, "joined", matches.subjects)
        crowd = len(self._waiting) - self._most
        for number, waiting in enumerate(list(self._waiting.values())):
            if waiting.matched_since is not None:
                continue
            if waiting.time + self._settings.wait <= now:
                yield self._joined(waiting, "unmatched")
            elif number < crowd:
                yield self._joined(waiting, "crowded_out")
            else:
                break

    def may_forget(self, now: float) -> bool:
        """Whether there is an end to forget: it is older than the wait, or there are too many."""
        return next(self._forgettable(now), None) is not None

    def to_repeat(self, now: float) -> list[str]:
        """The feedback to be forgotten that came again since its end: write the end once more, and `close` the
        feedback.
        """
        return [name for name in self._forgettable(now) if self._ends[name].repeated]

    def forget(self, now: float) -> None:
        """Forget ends that are older than the wait, and the oldest beyond the limit, up to one that came again."""
        for name in list(self._forgettable(now)):
            if self._ends[name].repeated:
                return
            del self._ends[name]

    def _forgettable(self, now: float) -> Iterator[str]:
        excess = len(self._waiting) + len(self._ends) - self._most_known
        waiting_since = next((piece.offset for piece in self._waiting.values()), None)
        for number, (name, end) in enumerate(self._ends.items()):
            if number >= excess and end.time + self._settings.wait > now:
                return
            if waiting_since is not None and waiting_since < end.offset:
                return  # a replay from the waiting piece reads this end again, so it would know more than this process
            yield name

    def _joined(
        self, waiting: _WaitingPiece, outcome: JoinOutcome, subjects: tuple[FeedbackSubject, ...] = ()
    ) -> JoinedFeedback:
        entry = waiting.entry
        return JoinedFeedback(
            entry=entry, outcome=outcome, received_at=datetime.fromtimestamp(waiting.time, UTC), subjects=subjects,
            score=entry.score(self._settings.scales.get(entry.name)),
            series=entry.name if entry.name in self._settings.scales else OTHER,
        )  # fmt: skip
