"""The traces of a partition that are in memory: open, or lingering. Their only clock is the log's. No I/O.

A record brings a *piece* of a trace. A trace is *open* until it closes, and turns are made from its pieces. Then it
*lingers*: a late piece opens it again. At last it is *released*: it leaves memory.
"""

import math
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from collector.assemble.collect_trace import TracePiece
from collector.logs.log import Committed

CloseReason = Literal["quiet", "age", "bytes", "memory"]
"""Why a trace closes: no new piece came, it is too old, it is too large, or all traces together are too large."""


@dataclass(slots=True, eq=False)
class Emitted:
    """The results of a trace so far: the ids of its turns, of its feedback, and of the spans of its complete turns and
    of its `unwanted` turns, which have no content because no monitor selects them.
    """

    turn_ids: set[str] = field(default_factory=set[str])
    feedback_ids: set[str] = field(default_factory=set[str])
    covered_spans: set[str] = field(default_factory=set[str])


@dataclass(slots=True, eq=False)
class OpenTrace:
    """A trace and its pieces so far. `position` is the number of its first record.

    A closing is *unread* if its results are not in memory: a restart came after it, or no monitor wants the trace.
    `unread_closings` has the number of pieces at each such closing. If a late piece arrives, these pieces are assembled
    again to find the results. `emitted` are the results of the other closings, None if there are none.
    """

    trace_id: str
    position: int
    first_at: float
    """When the first piece came. `opened_at` is later if the trace was closed and opened again."""
    opened_at: float
    last_at: float
    pieces: list[TracePiece] = field(default_factory=list[TracePiece])
    bytes: int = 0
    unread_closings: list[int] = field(default_factory=list[int])
    emitted: Emitted | None = None
    closed_at: float | None = None

    @property
    def may_have_turns(self) -> bool:
        """Whether the trace may have emitted turns before."""
        return bool(self.unread_closings) or (self.emitted is not None and bool(self.emitted.turn_ids))


@dataclass(frozen=True, slots=True)
class TraceLimits:
    """Limits on the time and size of open traces. Times in seconds of the log's clock.

    A trace is closed after `quiet` without a new piece, after `max_age`, or beyond `max_trace_bytes`. It then stays in
    memory for `linger`, so that late pieces are assembled with the rest. All traces of a partition together take at
    most `max_bytes`; beyond that, the oldest lingering ones are released first.
    """

    quiet: float = 10.0
    linger: float = 60.0
    max_age: float = 600.0
    max_trace_bytes: int = 32 * 1024**2
    max_bytes: int = 512 * 1024**2


_MOST_CHANGES = 20
"""The most changes of the limits that a commit contains, because a commit has room for only 2,000 characters."""


class OpenTraces:
    """The open and lingering traces. Every operation is O(1), because each queue is in the order of its due times.

    A replay must close exactly the traces that were closed before. If it closed a trace that was still open when the
    position was committed, the turns of this trace would never be made. So a replay begins with the log's time at the
    low watermark, which was committed too. And at each offset it uses the limits that were in force there, even if the
    configuration has changed since.
    """

    def __init__(self, limits: TraceLimits, time: float = 0.0, past: Sequence[tuple[int, TraceLimits]] = ()) -> None:
        """`time` is the log's time at the low watermark (s since the epoch). `past` are the limits in force from there
        on, each with the offset at which it begins to apply.
        """
        self._configured = limits
        self._past = list(past) or [(0, limits)]
        self._limits = self._past[0][1]
        self._time = time
        self._traces: OrderedDict[str, OpenTrace] = OrderedDict()
        """All traces in memory, in the order of their positions; the first trace determines the low watermark."""
        self._by_last_piece: OrderedDict[str, OpenTrace] = OrderedDict()
        self._by_opening: OrderedDict[str, OpenTrace] = OrderedDict()
        self._lingering: OrderedDict[str, OpenTrace] = OrderedDict()
        self._not_before = math.inf
        """No trace is due to close or to be released before this time, so that `advance` need not look."""
        self._shortest = min(self._limits.quiet, self._limits.max_age, self._limits.linger)
        self.bytes = 0

    @classmethod
    def at(cls, committed: Committed | None, limits: TraceLimits) -> "OpenTraces":
        """An empty collection for a replay from a committed position. `limits` are the configured ones.

        They also apply to the past if no limits were committed: there is no commit, or an old version made it.
        """
        words = committed.metadata.split() if committed is not None else []
        try:
            numbers = [[float(number) for number in word.split(":")] for word in words]
            if not all(math.isfinite(number) for entry in numbers for number in entry):
                return cls(limits)
            past = [(int(offset), replace(limits, quiet=quiet, linger=linger)) for offset, quiet, linger in numbers[1:]]
            return cls(limits, numbers[0][0] if numbers else 0.0, past)
        except ValueError:
            return cls(limits)

    def commit_text(self, low_watermark: int) -> str:
        """The text in a commit from which `at` begins a replay at the offset `low_watermark`."""
        while len(self._past) > _MOST_CHANGES or (len(self._past) > 1 and self._past[1][0] <= low_watermark):
            del self._past[0]
        changes = [f"{start}:{limits.quiet!r}:{limits.linger!r}" for start, limits in self._past]
        return " ".join([repr(self.time), *changes])

    def use_past_limits(self, offset: int) -> None:
        """Use the limits that were in force at `offset`."""
        if len(self._past) > 1 or self._limits is not self._past[0][1]:
            self._use(next((limits for start, limits in reversed(self._past) if start <= offset), self._past[0][1]))

    def use_configured_limits(self, offset: int) -> None:
        """Use the configured limits from `offset` on."""
        if self._past[-1][1] != self._configured:
            self._past.append((offset, self._configured))
        self._use(self._configured)

    def _use(self, limits: TraceLimits) -> None:
        if limits is not self._limits:
            self._limits, self._not_before = limits, -math.inf
            self._shortest = min(limits.quiet, limits.max_age, limits.linger)

    def __len__(self) -> int:
        return len(self._by_last_piece)

    @property
    def due_at(self) -> float | None:
        """When the next trace closes or is released, if no piece arrives."""
        times: list[float] = []
        if self._by_last_piece:
            times.append(next(iter(self._by_last_piece.values())).last_at + self._limits.quiet)
            times.append(next(iter(self._by_opening.values())).opened_at + self._limits.max_age)
        if self._lingering:
            times.append((next(iter(self._lingering.values())).closed_at or 0.0) + self._limits.linger)
        return min(times, default=None)

    @property
    def low_watermark(self) -> int | None:
        """The oldest position of a trace in memory."""
        return next(iter(self._traces.values())).position if self._traces else None

    @property
    def time(self) -> float:
        """The time of the log at the low watermark (s since the epoch)."""
        return next(iter(self._traces.values())).first_at if self._traces else self._time

    def traces(self) -> Iterator[OpenTrace]:
        """All traces in memory, in the order of their positions."""
        yield from self._traces.values()

    def advance(self, now: float) -> Iterator[tuple[OpenTrace, CloseReason]]:
        """Close and release the traces that are due at `now`, in the order of their due times. Yields the closed ones
        with the reason.
        """
        now = self._time = max(self._time, now)
        if now < self._not_before:
            return
        limits = self._limits
        while True:
            quiet, aged = next(iter(self._by_last_piece.values()), None), next(iter(self._by_opening.values()), None)
            lingering = next(iter(self._lingering.values()), None)
            quiet_at = math.inf if quiet is None else quiet.last_at + limits.quiet
            aged_at = math.inf if aged is None else aged.opened_at + limits.max_age
            released_at = math.inf if lingering is None else (lingering.closed_at or 0.0) + limits.linger
            due = self._not_before = min(quiet_at, aged_at, released_at)
            if due > now:
                return
            if quiet is not None and quiet_at == due:
                yield self._close(quiet, due), "quiet"
            elif aged is not None and aged_at == due:
                yield self._close(aged, due), "age"
            elif lingering is not None:
                self._release(lingering)

    def add(
        self, trace_id: str, piece: TracePiece, position: int, now: float
    ) -> Iterator[tuple[OpenTrace, CloseReason]]:
        """Add a piece. Yields the traces that close because a size limit is exceeded, with the reason."""
        now = self._time = max(self._time, now)
        trace = self._traces.get(trace_id)
        if trace is None:
            trace = self._traces[trace_id] = OpenTrace(trace_id, position, now, now, now)
        elif trace.closed_at is not None:
            trace.closed_at, trace.opened_at = None, now
            del self._lingering[trace_id]
        trace.last_at = now
        trace.pieces.append(piece)
        trace.bytes += len(piece.value)
        self.bytes += len(piece.value)
        self._not_before = min(self._not_before, now + self._shortest)
        self._by_opening.setdefault(trace_id, trace)
        self._by_last_piece[trace_id] = trace
        self._by_last_piece.move_to_end(trace_id)
        if trace.bytes > self._limits.max_trace_bytes:
            yield self._close(trace, now), "bytes"
            self.bytes -= trace.bytes
            trace.pieces, trace.bytes, trace.unread_closings = [], 0, []  # later pieces are assembled without these
        if self.bytes > self._limits.max_bytes:
            yield from self._enforce_memory_limit(now)

    def _enforce_memory_limit(self, now: float) -> Iterator[tuple[OpenTrace, CloseReason]]:
        while self.bytes > self._limits.max_bytes and self._traces:
            if self._lingering:
                self._release(next(iter(self._lingering.values())))
            else:
                trace = self._close(next(iter(self._by_opening.values())), now)
                yield trace, "memory"
                self._release(trace)

    def _close(self, trace: OpenTrace, now: float) -> OpenTrace:
        del self._by_last_piece[trace.trace_id]
        del self._by_opening[trace.trace_id]
        trace.closed_at = now
        trace.unread_closings.append(len(trace.pieces))
        self._lingering[trace.trace_id] = trace
        return trace

    def _release(self, trace: OpenTrace) -> None:
        self.bytes -= trace.bytes
        del self._lingering[trace.trace_id]
        del self._traces[trace.trace_id]
