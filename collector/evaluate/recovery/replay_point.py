"""Replay points, from which a partition's state can be rebuilt, and the metadata committed for a restart.

The state depends on the records from the low watermark on, and on three things from before: the time that had passed,
the sampling rates in force, and which of the evaluations that these records lead to are done. The last two are also
known by the configuration of then: what another one made due stays due, and what it has done is not done again.

How much work comes after an offset is noted: a restart that begins there has to do it again.

Offsets are retained so that recovery never starts in the middle of a conversation. A replay that begins within one sees
only a part of its turns, and would close it as another conversation. The jobs of such a replay below the offset
`done_below` are skipped, as done. So the oldest offset of a conversation is retained until `done_below` comes after the
record at which the conversation was removed or snapshotted.
"""

import heapq
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import orjson

from collector.evaluate.budget.rates import FULL_RATES, RateReduction, Rates


class ReplayPoint(NamedTuple):
    """An offset, the partition's time (s since the epoch) just before its record, and the rates in force there."""

    offset: int
    time: float = 0.0
    rates: Rates = FULL_RATES

    def lies_before(self, offset: int, time: float) -> bool:
        """Whether it lies before an offset or a time."""
        return self.offset < offset or self.time < time


SampleRates = Mapping[str, float | str]
"""The values that a configuration draws with: the rates of monitors and `monitor/evaluator`s by name, the salt by
""."""

MAX_METADATA = 2000
"""Characters that a fold may commit."""


@dataclass(frozen=True, slots=True)
class CommitMetadata:
    """The state committed beside the two offsets.

    `ledger_offset` is where to begin reading the evaluations log back. Evaluations that records below `done_below` led
    to are done. `replay_point` is that of the low watermark.

    `configuration` is the number of the configuration in force at the low watermark; 0 where none has a number yet.
    `past` are the newest of those that were in force before: what they have judged may be superseded.

    While evaluations are pending there is more. `pending` has, by evaluator, the offset of the oldest record that led
    to one; all that was delivered is done by the others. `sampled` is what the records since the last offset in
    `former` were drawn with, `former` what those before were, each up to an offset.
    """

    ledger_offset: int = 0
    done_below: int = 0
    replay_point: ReplayPoint = field(default_factory=lambda: ReplayPoint(0))
    pending: Mapping[str, int] | None = None
    sampled: SampleRates | None = None
    former: tuple[tuple[int, SampleRates], ...] = ()
    configuration: int = 0
    past: tuple[int, ...] = ()

    def to_json(self) -> str:
        """As JSON. It grows with the monitors that have a budget; the configuration is checked for that.

        Dispensable parts are left out if there is no room: then more may be judged again after a change of the
        configuration.
        """
        parts: dict[str, Any] = {"l": self.ledger_offset, "e": self.done_below, "t": round(self.replay_point.time, 6)}
        if self.replay_point.rates.by_monitor:
            parts["r"] = self.replay_point.rates.to_json()
        if self.configuration:
            parts["c"] = self.configuration
        text = orjson.dumps(parts).decode()
        optional = {"p": self.pending, "s": self.sampled, "h": self.former, "o": self.past}
        for name, value in optional.items():
            if value:
                longer = orjson.dumps(parts | {name: value}).decode()
                if len(longer) <= MAX_METADATA and longer.isascii():
                    parts[name], text = value, longer
        return text

    @classmethod
    def from_json(cls, text: str, low_watermark: int) -> "CommitMetadata":
        """Read what `to_json` gave; an empty text is the metadata of a first start."""
        if not text:
            return cls(replay_point=ReplayPoint(low_watermark))
        parts = cast("Mapping[str, Any]", orjson.loads(text))
        rates = Rates.from_json(cast("Mapping[str, Any]", parts.get("r", {})))
        return cls(
            ledger_offset=parts["l"],
            done_below=parts["e"],
            replay_point=ReplayPoint(low_watermark, parts["t"], rates),
            pending=parts.get("p"),
            sampled=parts.get("s"),
            former=tuple((until, sampled) for until, sampled in parts.get("h", ())),
            configuration=parts.get("c", 0),
            past=tuple(parts.get("o", ())),
        )

    def done_below_of(self, evaluator: str, delivered: int) -> int:
        """The offset below which everything that became due for an evaluator is done, of what was `delivered`."""
        if self.pending is None:
            return self.done_below
        return self.pending.get(evaluator, delivered)

    def draws_until(self, delivered: int, now: SampleRates) -> tuple[tuple[int, SampleRates], ...]:
        """The rates that records were drawn with, each up to an offset, if they differ from those of `now`."""
        if self.sampled is None or self.sampled == now:
            return self.former
        return (*self.former, (delivered, self.sampled))


_FAR = 1 << 50


def longest_metadata(limited: Iterable[str]) -> CommitMetadata:
    """The longest possible metadata, given the names of the monitors that have a budget."""
    rates = Rates({name: RateReduction(0.00123456, fallback=True) for name in limited})
    point = ReplayPoint(_FAR, 9e9 + 0.123456, rates)
    return CommitMetadata(ledger_offset=_FAR, done_below=_FAR, replay_point=point, configuration=999_999)


_NOTES = 256
"""Notes for the amount that is asked for: how exact the answers are."""


class ReplayWork:
    """The cost of applying the records of a partition, noted by offset.

    `work` only grows; it is what all records below the next offset have cost, in any unit.
    """

    def __init__(self) -> None:
        self._notes: deque[tuple[float, int]] = deque()
        self._latest = 0.0

    def __len__(self) -> int:
        return len(self._notes)

    def note(self, work: float, next_offset: int, amount: float) -> None:
        """The records below `next_offset` have cost `work`; `amount` is about what is going to be asked for."""
        if not self._notes or work - self._notes[-1][0] >= amount / _NOTES:
            self._notes.append((work, next_offset))
        self._latest = work

    def offset_behind(self, amount: float) -> int:
        """The newest known offset such that the records from it on have cost at least `amount`; 0 if there is none.

        Notes before an answer are forgotten: a later question for more has no answer until that many have come.
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
        """Retain points until all jobs of records up to and with `until` are done; `until` never falls."""
        for point in points:
            self._until.append((until, point))
            heapq.heappush(self._points, point)

    def release(self, done_below: int) -> None:
        """All jobs of records below `done_below` are done."""
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
