"""The open traces of a partition, closed by the clock of the log alone. Without I/O."""

import math
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from collector.assemble.collect_trace import TracePiece

CloseReason = Literal["quiet", "age", "bytes", "memory"]


@dataclass(slots=True, eq=False)
class Emitted:
    """The results of a trace: the ids of turns and feedback, and the spans that its complete turns are about."""

    turn_ids: set[str] = field(default_factory=set[str])
    feedback_ids: set[str] = field(default_factory=set[str])
    covered_spans: set[str] = field(default_factory=set[str])


@dataclass(slots=True, eq=False)
class OpenTrace:
    """A trace and its pieces so far.

    `unread_closings` has the number of pieces at each closing whose results are unknown here; they are found by
    assembling the pieces again if a late piece arrives. Results are unknown after a restart, and for unwanted traces,
    which are nearly all that linger. `emitted` are the results of the other closings, None if there are none.
    """

    trace_id: str
    position: int
    first_at: float
    """When its first piece came. `opened_at` is later if the trace was closed in between."""
    opened_at: float
    last_at: float
    pieces: list[TracePiece] = field(default_factory=list[TracePiece])
    bytes: int = 0
    unread_closings: list[int] = field(default_factory=list[int])
    emitted: Emitted | None = None
    closed_at: float | None = None

    @property
    def may_have_turns(self) -> bool:
        """Whether it may have emitted turns before."""
        return bool(self.unread_closings) or (self.emitted is not None and bool(self.emitted.turn_ids))


@dataclass(frozen=True, slots=True)
class TraceLimits:
    """Limits on the time and size of open traces. Times in seconds of the log's clock.

    A trace is closed after `quiet` without a new piece, after `max_age`, or beyond `max_trace_bytes`. It then stays in
    memory for `linger`, so that late pieces are assembled with the rest. All traces of a partition together take at
    most `max_bytes`; beyond that, the oldest are released early.
    """

    quiet: float = 10.0
    linger: float = 60.0
    max_age: float = 600.0
    max_trace_bytes: int = 32 * 1024**2
    max_bytes: int = 512 * 1024**2


class OpenTraces:
    """The open and lingering traces. Every operation is O(1): each queue is in the order of its due times.

    Time never goes back, though records may: a broker that stood still takes a record after younger ones. So a replay
    begins with the time that it was at the low watermark. With an earlier one it would close traces that were still
    open when the position was committed, and their turns would never be made.
    """

    def __init__(self, limits: TraceLimits, time: float = 0.0) -> None:
        """`time` is the log's time at the low watermark (s since the epoch)."""
        self._limits = limits
        self._time = time
        self._traces: OrderedDict[str, OpenTrace] = OrderedDict()
        """By position; the first one determines the low watermark."""
        self._quiet: OrderedDict[str, OpenTrace] = OrderedDict()
        self._age: OrderedDict[str, OpenTrace] = OrderedDict()
        self._lingering: OrderedDict[str, OpenTrace] = OrderedDict()
        self._not_before = math.inf
        """No trace is closed or released earlier: pieces only defer it, or open a trace that lasts a while."""
        self._shortest = min(limits.quiet, limits.max_age, limits.linger)
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._quiet)

    @property
    def due_at(self) -> float | None:
        """When the next trace is closed or released, if no piece arrives."""
        times: list[float] = []
        if self._quiet:
            times.append(next(iter(self._quiet.values())).last_at + self._limits.quiet)
            times.append(next(iter(self._age.values())).opened_at + self._limits.max_age)
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
        """All that are in memory, by position."""
        yield from self._traces.values()

    def advance(self, now: float) -> Iterator[tuple[OpenTrace, CloseReason]]:
        """Close and release the traces that are due, in order of their times; yields the closed ones."""
        now = self._time = max(self._time, now)
        if now < self._not_before:
            return
        limits = self._limits
        while True:
            quiet, aged = next(iter(self._quiet.values()), None), next(iter(self._age.values()), None)
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
                self._forget(lingering)

    def add(
        self, trace_id: str, piece: TracePiece, position: int, now: float
    ) -> Iterator[tuple[OpenTrace, CloseReason]]:
        """Add a piece; yields the traces that are closed because a size limit is exceeded."""
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
        self._age.setdefault(trace_id, trace)
        self._quiet[trace_id] = trace
        self._quiet.move_to_end(trace_id)
        if trace.bytes > self._limits.max_trace_bytes:
            yield self._close(trace, now), "bytes"
            self._drop_pieces(trace)
        if self.bytes > self._limits.max_bytes:
            yield from self._enforce_memory_limit(now)

    def _enforce_memory_limit(self, now: float) -> Iterator[tuple[OpenTrace, CloseReason]]:
        while self.bytes > self._limits.max_bytes and self._traces:
            if self._lingering:
                self._forget(next(iter(self._lingering.values())))
            else:
                trace = self._close(next(iter(self._age.values())), now)
                yield trace, "memory"
                self._forget(trace)

    def _close(self, trace: OpenTrace, now: float) -> OpenTrace:
        del self._quiet[trace.trace_id]
        del self._age[trace.trace_id]
        trace.closed_at = now
        trace.unread_closings.append(len(trace.pieces))
        self._lingering[trace.trace_id] = trace
        return trace

    def _drop_pieces(self, trace: OpenTrace) -> None:
        """Drop the pieces of a trace that is too large; later pieces are assembled without them."""
        self.bytes -= trace.bytes
        trace.pieces, trace.bytes, trace.unread_closings = [], 0, []

    def _forget(self, trace: OpenTrace) -> None:
        self.bytes -= trace.bytes
        del self._lingering[trace.trace_id]
        del self._traces[trace.trace_id]
