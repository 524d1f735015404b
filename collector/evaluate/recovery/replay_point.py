"""Replay points, from which a partition's state can be rebuilt, and the metadata committed for a restart.

The state depends on the records from the low watermark on, and on three things from before: the time that had passed,
the sampling rates in force, and which of the evaluations that these records lead to are done. The last two also depend
on the configuration of that time: evaluations that it made due stay due, and those that it made are not made again.

The work after an offset is noted, because a restart that begins there has to do it again.

Offsets are retained so that recovery never starts in the middle of a conversation. A replay that begins within a
conversation sees only some of its turns, and would close it as another conversation. Such a replay skips the jobs below
the offset `done_below`, since they are done. So the oldest offset of a conversation is retained until `done_below` has
passed the record at which the conversation was removed or snapshotted.
"""

import heapq
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import orjson

from collector.evaluate.budget.rates import FULL_RATES, RateReduction, Rates
from collector.logs.log import Committed


class ReplayPoint(NamedTuple):
    """An offset, the partition's time (s since the epoch) just before its record, and the rates in force there."""

    offset: int
    time: float = 0.0
    rates: Rates = FULL_RATES

    def lies_before(self, offset: int, time: float) -> bool:
        """Whether it lies before an offset, or before a time."""
        return self.offset < offset or self.time < time


SampleRates = Mapping[str, float | str]
"""The values that a configuration draws with: the rates of monitors and `monitor/evaluator`s by name, the salt by
""."""

MAX_METADATA = 2000
"""The most characters that a fold may commit."""


@dataclass(frozen=True, slots=True)
class CommitMetadata:
    """The state that is committed in addition to the two offsets.

    The evaluations log is read back from `ledger_offset` on. The evaluations of records below `done_below` are done.
    `replay_point` belongs to the low watermark.

    `configuration` is the number of the configuration in force at the low watermark; 0 if it has no number yet. `past`
    are the numbers of the newest ones before it; their evaluations may be superseded.

    `pending` has, by evaluator, the offset of the oldest record with a pending evaluation; evaluators that are not in
    it have none. It is None while no evaluation is pending.
    """

    ledger_offset: int = 0
    done_below: int = 0
    replay_point: ReplayPoint = field(default_factory=lambda: ReplayPoint(0))
    pending: Mapping[str, int] | None = None
    configuration: int = 0
    past: tuple[int, ...] = ()

    def to_json(self) -> str:
        """The metadata as JSON. It grows with the number of monitors that have a budget; the configuration is checked
        for that.

        Dispensable parts are left out if there is no room: then more evaluations may be made again after a change of
        the configuration.
        """
        parts: dict[str, Any] = {"l": self.ledger_offset, "e": self.done_below, "t": round(self.replay_point.time, 6)}
        if self.replay_point.rates.by_monitor:
            parts["r"] = self.replay_point.rates.to_json()
        if self.configuration:
            parts["c"] = self.configuration
        text = orjson.dumps(parts).decode()
        for name, value in {"p": self.pending, "o": self.past}.items():
            if value:
                longer = orjson.dumps(parts | {name: value}).decode()
                if len(longer) <= MAX_METADATA and longer.isascii():
                    parts[name], text = value, longer
        return text

    @classmethod
    def from_json(cls, text: str, low_watermark: int) -> "CommitMetadata":
        """Read the result of `to_json`; an empty text is the metadata of a first start."""
        if not text:
            return cls(replay_point=ReplayPoint(low_watermark))
        parts = cast("Mapping[str, Any]", orjson.loads(text))
        rates = Rates.from_json(cast("Mapping[str, Any]", parts.get("r", {})))
        return cls(
            ledger_offset=parts["l"],
            done_below=parts["e"],
            replay_point=ReplayPoint(low_watermark, parts["t"], rates),
            pending=parts.get("p"),
            configuration=parts.get("c", 0),
            past=tuple(parts.get("o", ())),
        )

    def done_below_of(self, evaluator: str, delivered: int) -> int:
        """The offset below which all evaluations of an evaluator are done; at most `delivered`."""
        return self.done_below if self.pending is None else self.pending.get(evaluator, delivered)


_FAR = 1 << 50


def longest_metadata(limited: Iterable[str]) -> CommitMetadata:
    """The longest possible metadata, given the names of the monitors that have a budget."""
    rates = Rates({name: RateReduction(0.00123456, fallback=True) for name in limited})
    point = ReplayPoint(_FAR, 9e9 + 0.123456, rates)
    return CommitMetadata(ledger_offset=_FAR, done_below=_FAR, replay_point=point, configuration=999_999)


_NOTES = 256
"""The number of notes within the amount that is asked for; more notes make answers more exact."""


class ReplayWork:
    """The cost of applying the records of a partition, noted by offset.

    `work` only grows; it is the cost of all records below the next offset, in any unit.
    """

    def __init__(self) -> None:
        self._notes: deque[tuple[float, int]] = deque()
        self._latest = 0.0

    def __len__(self) -> int:
        return len(self._notes)

    def note(self, work: float, next_offset: int, amount: float) -> None:
        """Note that the records below `next_offset` have cost `work`; `amount` is roughly the amount that will be asked
        for.
        """
        if not self._notes or work - self._notes[-1][0] >= amount / _NOTES:
            self._notes.append((work, next_offset))
        self._latest = work

    def offset_behind(self, amount: float) -> int:
        """The newest known offset such that the records from it on have cost at least `amount`; 0 if there is none.

        Notes before the answer are forgotten, so a later question for a larger amount has no answer for a while.
        """
        while len(self._notes) > 1 and self._latest - self._notes[1][0] >= amount:
            self._notes.popleft()
        return self._notes[0][1] if self._notes and self._latest - self._notes[0][0] >= amount else 0


# Why not release it with the conversation: a job of an earlier record may still be pending, and `done_below` then lies
# before the conversation's end. A replay from its middle would make a job for a part of its turns, which has another
# id: the conversation would be judged twice.
class RetainedOffsets:
    """Replay points, each retained until everything up to an offset is done."""

    def __init__(self) -> None:
        self._until: deque[tuple[int, ReplayPoint]] = deque()
        self._points: list[ReplayPoint] = []
        self._released: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._until)

    def retain(self, points: Iterable[ReplayPoint], until: int) -> None:
        """Retain points until all jobs of records up to and including `until` are done; `until` never falls."""
        for point in points:
            self._until.append((until, point))
            heapq.heappush(self._points, point)

    def release(self, done_below: int) -> None:
        """Release the points that are no longer needed, since all jobs of records below `done_below` are done."""
        while self._until and self._until[0][0] < done_below:
            _, point = self._until.popleft()
            self._released[point.offset] = self._released.get(point.offset, 0) + 1

    @property
    def low_watermark(self) -> ReplayPoint | None:
        """The oldest point that is retained."""
        while self._points and (released := self._released.get(self._points[0].offset, 0)):
            offset = heapq.heappop(self._points).offset
            if released == 1:
                del self._released[offset]
            else:
                self._released[offset] = released - 1
        return self._points[0] if self._points else None


def metadata_of(committed: Committed | None) -> CommitMetadata:
    """The metadata of a committed state; that of a first start if there is none."""
    return CommitMetadata.from_json(committed.metadata, committed.low_watermark) if committed else CommitMetadata()
