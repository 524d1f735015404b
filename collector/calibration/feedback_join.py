"""The join of feedback with its subject: state of a partition of the labels log, without clock, log or judge.

Feedback waits from when the log took it until its subject is judged and no nearer one can be expected, or until the
wait is over. The result is one more record of its partition, its end, after which the same feedback is known: it
is neither joined again after a restart nor when it is sent again.

Its end is remembered for one more wait. If the feedback came again meanwhile, its end is written once more before it
may be forgotten: a replay that begins behind the end and before the copy would take the copy for new feedback.
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
"""Pieces that are known again when they come again; beyond that the oldest is forgotten."""
SETTLE, SETTLE_NEARER = 5.0, 60.0
"""Seconds from the first evaluation that fits to the join: those of other monitors and of nearer turns may follow."""
OTHER = "other"


@dataclass(frozen=True, slots=True)
class FeedbackScales:
    """The names of feedback that metrics show, each with its worst and best number. Other names are `other`."""

    wait: float = 7 * 86_400.0
    scales: Mapping[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])


@dataclass(slots=True)
class _WaitingPiece:
    """Feedback that the log took at `offset` and `time` (s)."""

    entry: FeedbackEntry
    offset: int
    time: float
    fits_since: float | None = None


@dataclass(slots=True)
class _End:
    """The newest end of feedback, at `offset` or behind it, since `time` (s); `repeated` if it came again since."""

    offset: int
    time: float
    repeated: bool = False


class FeedbackJoin:
    """The waiting feedback of one partition, and the subjects known there."""

    def __init__(self, scales: FeedbackScales, *, most: int = MOST_WAITING, most_known: int = MOST_KNOWN) -> None:
        self._scales = scales
        self._most = most
        self._most_known = most_known
        self._waiting: dict[str, _WaitingPiece] = {}  # both in the order of the offsets
        self._ends: OrderedDict[str, _End] = OrderedDict()
        self._ahead: set[str] = set()
        self._by_key: dict[str, dict[str, None]] = {}
        self._fits: dict[str, None] = {}
        self._new: dict[str, None] = {}

    @property
    def waiting(self) -> int:
        """How many pieces wait."""
        return len(self._waiting)

    @property
    def low_watermark(self) -> int | None:
        """The oldest record that is needed to know what waits and what came before."""
        oldest = [next(iter(each.values())).offset for each in (self._waiting, self._ends) if each]
        return min(oldest, default=None)

    @property
    def new(self) -> list[FeedbackEntry]:
        """The arrivals since the last `seek`."""
        return [self._waiting[name].entry for name in self._new]

    def expect(self, feedback_id: str) -> None:
        """The log has an end of a piece that is delivered later."""
        self._ahead.add(feedback_id)

    def add(self, entry: FeedbackEntry, offset: int, time: float) -> bool:
        """The log took feedback at `time` (s); False if it is known."""
        if (end := self._ends.get(entry.feedback_id)) is not None:
            end.repeated = True
        if end is not None or entry.feedback_id in self._waiting or entry.feedback_id in self._ahead:
            return False
        self._waiting[entry.feedback_id] = _WaitingPiece(entry, offset, time)
        self._new[entry.feedback_id] = None
        for key in keys_of_entry(entry):
            self._by_key.setdefault(key, {})[entry.feedback_id] = None
        return True

    def close(self, feedback_id: str, offset: int, time: float) -> None:
        """The log has an end of a piece, at `offset` or behind it."""
        self._ahead.discard(feedback_id)
        self._ends[feedback_id] = _End(offset, time)
        self._ends.move_to_end(feedback_id)
        waiting = self._waiting.pop(feedback_id, None)
        if waiting is None:
            return
        self._fits.pop(feedback_id, None)
        self._new.pop(feedback_id, None)
        for key in keys_of_entry(waiting.entry):
            names = self._by_key[key]
            del names[feedback_id]
            if not names:
                del self._by_key[key]

    def seek(self, subjects: JudgedSubjects, keys: Collection[str], now: float) -> None:
        """Look for the subjects of what is new, and of what may be about subjects that were judged just now."""
        names = {name: None for key in keys if key in self._by_key for name in self._by_key[key]} | self._new
        self._new = {}
        for name in names:
            waiting = self._waiting[name]
            if waiting.fits_since is None and subjects.matches(waiting.entry).subjects:
                waiting.fits_since = now
                self._fits[name] = None

    def due(self, subjects: JudgedSubjects, now: float) -> Iterator[JoinedFeedback]:
        """The feedback decided at `now` (s): `close` each piece once its record is in the log."""
        for name in list(self._fits):
            waiting = self._waiting[name]
            if waiting.fits_since is None:
                continue
            matches = subjects.matches(waiting.entry)
            if not matches.subjects:  # forgotten meanwhile
                waiting.fits_since = None
                del self._fits[name]
            elif now - waiting.fits_since >= (SETTLE if matches.exact else SETTLE_NEARER):
                yield self._joined(waiting, "joined", matches.subjects)
        crowd = len(self._waiting) - self._most
        for number, waiting in enumerate(list(self._waiting.values())):
            if waiting.fits_since is not None:
                continue
            if waiting.time + self._scales.wait <= now:
                yield self._joined(waiting, "unmatched")
            elif number < crowd:
                yield self._joined(waiting, "crowded_out")
            else:
                break

    def may_forget(self, now: float) -> bool:
        """Whether an end is as old as feedback may wait, or one too many."""
        return next(self._forgettable(now), None) is not None

    def to_repeat(self, now: float) -> list[str]:
        """The feedback to forget that came again since its end: its end is written once more, which closes it."""
        return [name for name in self._forgettable(now) if self._ends[name].repeated]

    def forget(self, now: float) -> None:
        """Forget ends that are as old as feedback may wait, and the oldest beyond the limit, of what came no more."""
        for name in list(self._forgettable(now)):
            if self._ends[name].repeated:
                return
            del self._ends[name]

    def _forgettable(self, now: float) -> Iterator[str]:
        excess = len(self._waiting) + len(self._ends) - self._most_known
        waiting_since = next((piece.offset for piece in self._waiting.values()), None)
        for number, (name, end) in enumerate(self._ends.items()):
            if number >= excess and end.time + self._scales.wait > now:
                return
            if waiting_since is not None and waiting_since < end.offset:
                return  # a replay reads it again, and what was forgotten would be known to it alone
            yield name

    def _joined(
        self, waiting: _WaitingPiece, outcome: JoinOutcome, subjects: tuple[FeedbackSubject, ...] = ()
    ) -> JoinedFeedback:
        entry = waiting.entry
        return JoinedFeedback(
            entry=entry,
            outcome=outcome,
            received_at=datetime.fromtimestamp(waiting.time, UTC),
            subjects=subjects,
            score=entry.score(self._scales.scales.get(entry.name)),
            series=entry.name if entry.name in self._scales.scales else OTHER,
        )
