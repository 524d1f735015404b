"""The traces of a partition that are still waited for, by the clock of the log alone. Without I/O."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from collector.assemble.gather import Piece

CloseReason = Literal["quiet", "age", "bytes", "memory"]


@dataclass(slots=True, eq=False)
class OpenTrace:
    """A trace and what has come of it so far.

    `closings` are how many pieces there were each time it was closed whose turns have not been looked at: after a
    restart they are only if a late piece asks for it. `emitted` are the ids of its turns, with how much feedback
    they had, `covered` the spans that the complete ones are about.
    """

    trace_id: str
    position: int
    opened_at: float
    last_at: float
    pieces: list[Piece] = field(default_factory=list[Piece])
    bytes: int = 0
    closings: list[int] = field(default_factory=list[int])
    emitted: dict[str, int] = field(default_factory=dict[str, int])
    covered: set[str] = field(default_factory=set[str])
    closed_at: float | None = None


@dataclass(frozen=True, slots=True)
class Waits:
    """How long a trace is waited for. Times in seconds of the log's clock.

    A trace is closed when nothing of it came for `quiet`, when it is open for `max_age`, or when it holds more than
    `max_trace_bytes`. Closed, it is kept for `linger`, so that late pieces are put together with the rest. All traces
    of a partition hold `max_bytes` at most: beyond, the oldest are let go early.
    """

    quiet: float = 10.0
    linger: float = 60.0
    max_age: float = 600.0
    max_trace_bytes: int = 32 * 1024**2
    max_bytes: int = 512 * 1024**2


class OpenTraces:
    """Which traces are open or lingering, and when that changes. Every operation is O(1), whatever is open."""

    def __init__(self, waits: Waits) -> None:
        self._waits = waits
        self._all: OrderedDict[str, OpenTrace] = OrderedDict()
        """By position: what is needed longest comes first."""
        self._quiet: OrderedDict[str, OpenTrace] = OrderedDict()
        self._age: OrderedDict[str, OpenTrace] = OrderedDict()
        self._lingering: OrderedDict[str, OpenTrace] = OrderedDict()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._quiet)

    @property
    def due_at(self) -> float | None:
        """When the next trace is closed or forgotten, if nothing comes."""
        times: list[float] = []
        if self._quiet:
            times.append(next(iter(self._quiet.values())).last_at + self._waits.quiet)
            times.append(next(iter(self._age.values())).opened_at + self._waits.max_age)
        if self._lingering:
            times.append((next(iter(self._lingering.values())).closed_at or 0.0) + self._waits.linger)
        return min(times, default=None)

    @property
    def low_watermark(self) -> int | None:
        """The oldest position of any piece that is still held."""
        return next(iter(self._all.values())).position if self._all else None

    def advance(self, now: float) -> Iterator[tuple[OpenTrace, CloseReason]]:
        """Close and forget what time has come for, in the order in which it came; gives what was closed."""
        while (due := self.due_at) is not None and due <= now:
            closed = self._next_due(due)
            if closed is not None:
                yield closed

    def _next_due(self, due: float) -> tuple[OpenTrace, CloseReason] | None:
        if self._quiet:
            trace = next(iter(self._quiet.values()))
            if trace.last_at + self._waits.quiet <= due:
                return self._close(trace, due), "quiet"
            trace = next(iter(self._age.values()))
            if trace.opened_at + self._waits.max_age <= due:
                return self._close(trace, due), "age"
        self._forget(next(iter(self._lingering.values())))
        return None

    def add(self, trace_id: str, piece: Piece, position: int, now: float) -> Iterator[tuple[OpenTrace, CloseReason]]:
        """Take a piece; gives what is closed because there is too much."""
        trace = self._all.get(trace_id)
        if trace is None:
            trace = self._all[trace_id] = OpenTrace(trace_id, position, now, now)
        elif trace.closed_at is not None:
            trace.closed_at, trace.opened_at = None, now
            del self._lingering[trace_id]
        trace.last_at = now
        trace.pieces.append(piece)
        trace.bytes += len(piece.value)
        self.bytes += len(piece.value)
        self._age.setdefault(trace_id, trace)
        self._quiet[trace_id] = trace
        self._quiet.move_to_end(trace_id)
        if trace.bytes > self._waits.max_trace_bytes:
            yield self._close(trace, now), "bytes"
            self._empty(trace)
        yield from self._make_room(now)

    def _make_room(self, now: float) -> Iterator[tuple[OpenTrace, CloseReason]]:
        while self.bytes > self._waits.max_bytes and self._all:
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
        trace.closings.append(len(trace.pieces))
        self._lingering[trace.trace_id] = trace
        return trace

    def _empty(self, trace: OpenTrace) -> None:
        """Let go of the pieces of a trace that is too large; what comes of it later is read on its own."""
        self.bytes -= trace.bytes
        trace.pieces, trace.bytes, trace.closings = [], 0, []

    def _forget(self, trace: OpenTrace) -> None:
        self.bytes -= trace.bytes
        del self._lingering[trace.trace_id]
        del self._all[trace.trace_id]
