"""The join of feedback with what it is about: state of a partition of the labels log, without clock, log or judge.

Feedback waits from when the log took it until its subject is judged and no nearer one can be expected, or until the
wait is over. What became of it is one more record of its partition, after which the same feedback is known: it is
neither joined again after a restart nor when it is sent again.
"""

from __future__ import annotations

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
class _Known:
    """Feedback of which the log has a record at `offset`, since `time` (s); `entry` as long as it waits."""

    offset: int
    time: float
    entry: FeedbackEntry | None = None
    fits_since: float | None = None


class FeedbackJoin:
    """What waits in one partition, and what is known there."""

    def __init__(self, scales: FeedbackScales, *, most: int = MOST_WAITING, most_known: int = MOST_KNOWN) -> None:
        self._scales = scales
        self._most = most
        self._most_known = most_known
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._waiting: dict[str, _Known] = {}
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
        return next((each.offset for each in self._known.values()), None)

    @property
    def new(self) -> list[FeedbackEntry]:
        """What came since the last `seek`."""
        return [entry for name in self._new if (entry := self._waiting[name].entry) is not None]

    def add(self, entry: FeedbackEntry, offset: int, time: float) -> bool:
        """The log took feedback at `time` (s); False if it is known."""
        if entry.feedback_id in self._known:
            return False
        known = self._known[entry.feedback_id] = _Known(offset, time, entry)
        self._waiting[entry.feedback_id] = known
        self._new[entry.feedback_id] = None
        for key in keys_of_entry(entry):
            self._by_key.setdefault(key, {})[entry.feedback_id] = None
        return True

    def close(self, feedback_id: str, offset: int, time: float) -> None:
        """The log has what became of a piece."""
        known = self._known.setdefault(feedback_id, _Known(offset, time))
        entry, known.entry = known.entry, None
        if entry is None:
            return
        del self._waiting[feedback_id]
        self._fits.pop(feedback_id, None)
        self._new.pop(feedback_id, None)
        for key in keys_of_entry(entry):
            names = self._by_key[key]
            del names[feedback_id]
            if not names:
                del self._by_key[key]

    def seek(self, subjects: JudgedSubjects, keys: Collection[str], now: float) -> None:
        """Look for the subjects of what is new, and of what may be about subjects that were judged just now."""
        names = {name: None for key in keys if key in self._by_key for name in self._by_key[key]} | self._new
        self._new = {}
        for name in names:
            known = self._waiting[name]
            if known.entry is not None and known.fits_since is None and subjects.matches(known.entry).subjects:
                known.fits_since = now
                self._fits[name] = None

    def due(self, subjects: JudgedSubjects, now: float) -> Iterator[JoinedFeedback]:
        """What is decided at `now` (s): `close` each once its record is in the log."""
        for name in list(self._fits):
            known = self._waiting[name]
            if known.entry is None or known.fits_since is None:
                continue
            matches = subjects.matches(known.entry)
            if not matches.subjects:  # forgotten meanwhile
                known.fits_since = None
                del self._fits[name]
            elif now - known.fits_since >= (SETTLE if matches.exact else SETTLE_NEARER):
                yield self._joined(known, "joined", matches.subjects)
        crowd = len(self._waiting) - self._most
        for number, known in enumerate(list(self._waiting.values())):
            if known.fits_since is not None:
                continue
            if known.time + self._scales.wait <= now:
                yield self._joined(known, "unmatched")
            elif number < crowd:
                yield self._joined(known, "crowded_out")
            else:
                break

    def forget(self, now: float) -> None:
        """Forget what is over, and as old as feedback may wait; and the oldest of what is over beyond the limit."""
        while self._known:
            name, oldest = next(iter(self._known.items()))
            is_old = oldest.time + self._scales.wait <= now or len(self._known) > self._most_known
            if oldest.entry is not None or not is_old:
                return
            del self._known[name]

    def _joined(
        self, known: _Known, outcome: JoinOutcome, subjects: tuple[FeedbackSubject, ...] = ()
    ) -> JoinedFeedback:
        entry = known.entry
        assert entry is not None
        return JoinedFeedback(
            entry=entry,
            outcome=outcome,
            received_at=datetime.fromtimestamp(known.time, UTC),
            subjects=subjects,
            score=entry.score(self._scales.scales.get(entry.name)),
            series=entry.name if entry.name in self._scales.scales else OTHER,
        )
