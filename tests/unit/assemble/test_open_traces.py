"""When traces are closed and released, and what stays of them."""

from __future__ import annotations

import pytest

from collector.assemble.collect_trace import TracePiece
from collector.assemble.open_traces import OpenTrace, OpenTraces, TraceLimits

LIMITS = TraceLimits(quiet=10.0, linger=60.0, max_age=25.0, max_trace_bytes=100, max_bytes=250)


class Traces:
    """Open traces, with closings as ids and reasons."""

    def __init__(self, limits: TraceLimits = LIMITS) -> None:
        self._open = OpenTraces(limits)
        self.seen: dict[str, OpenTrace] = {}
        self.position = 0

    def __len__(self) -> int:
        return len(self._open)

    @property
    def due_at(self) -> float | None:
        return self._open.due_at

    @property
    def low_watermark(self) -> int | None:
        return self._open.low_watermark

    @property
    def bytes(self) -> int:
        return self._open.bytes

    def receive(self, trace: str, now: float, size: int = 1) -> list[tuple[str, str]]:
        """Add a piece of `size` bytes; positions rise by one."""
        piece = TracePiece("traces", b"x" * size)
        closed = list(self._open.add(trace, piece, self.position, now))
        self.position += 1
        self.seen |= {each.trace_id: each for each, _ in closed}
        return [(each.trace_id, reason) for each, reason in closed]

    def close(self, now: float) -> list[tuple[str, str]]:
        closed = list(self._open.advance(now))
        self.seen |= {each.trace_id: each for each, _ in closed}
        return [(each.trace_id, reason) for each, reason in closed]


def test_a_trace_closes_when_it_has_been_quiet_and_is_released_when_it_has_lingered() -> None:
    traces = Traces()
    assert (traces.due_at, traces.low_watermark, len(traces), traces.bytes) == (None, None, 0, 0)
    traces.receive("a", 0.0, 30)
    traces.receive("a", 5.0, 20)
    assert (traces.due_at, traces.low_watermark, len(traces), traces.bytes) == (15.0, 0, 1, 50)
    assert traces.close(14.9) == []
    assert traces.close(15.0) == [("a", "quiet")]
    assert (traces.due_at, traces.low_watermark, len(traces), traces.bytes) == (75.0, 0, 0, 50)
    closed = traces.seen["a"]
    assert (closed.opened_at, closed.last_at, closed.closed_at, closed.unread_closings) == (0.0, 5.0, 15.0, [2])
    assert traces.close(74.9) == []
    assert traces.low_watermark == 0
    assert traces.close(75.0) == []
    assert (traces.due_at, traces.low_watermark, len(traces), traces.bytes) == (None, None, 0, 0)


def test_a_trace_that_never_falls_quiet_closes_by_its_age() -> None:
    traces = Traces()
    for now in (0.0, 8.0, 16.0, 24.0):
        traces.receive("a", now)
    assert traces.due_at == 25.0
    assert traces.close(24.9) == []
    assert traces.close(25.0) == [("a", "age")]


def test_quiet_comes_before_age_where_both_are_due() -> None:
    traces = Traces()
    traces.receive("old", 0.0)
    traces.receive("old", 9.0)
    traces.receive("quiet", 15.0)
    traces.receive("old", 17.0)
    assert traces.close(25.0) == [("quiet", "quiet"), ("old", "age")]


def test_traces_close_and_are_released_in_the_order_of_their_times() -> None:
    traces = Traces()
    traces.receive("a", 0.0)
    traces.receive("b", 1.0)
    traces.receive("a", 2.0)
    assert traces.close(1000.0) == [("b", "quiet"), ("a", "quiet")]
    assert (traces.seen["b"].closed_at, traces.seen["a"].closed_at) == (11.0, 12.0), "at their due times, not later"
    assert (traces.due_at, traces.low_watermark, traces.bytes) == (None, None, 0)


def test_a_late_piece_reopens_a_trace_that_lingers_with_all_it_has() -> None:
    traces = Traces()
    traces.receive("a", 0.0, 30)
    traces.close(10.0)
    traces.receive("a", 40.0, 30)
    assert (len(traces), traces.due_at, traces.low_watermark, traces.bytes) == (1, 50.0, 0, 60)
    assert traces.close(49.9) == []
    assert traces.close(50.0) == [("a", "quiet")]
    assert (len(traces.seen["a"].pieces), traces.seen["a"].unread_closings) == (2, [1, 2])
    assert traces.due_at == 110.0, "it lingers anew"


def test_the_age_of_a_reopened_trace_counts_from_then() -> None:
    traces = Traces()
    traces.receive("a", 0.0)
    traces.close(10.0)
    for now in (40.0, 48.0, 56.0, 64.0):
        traces.receive("a", now)
    assert traces.due_at == 65.0
    assert traces.close(65.0) == [("a", "age")]


def test_after_its_release_a_trace_begins_anew() -> None:
    traces = Traces()
    traces.receive("a", 0.0)
    traces.close(70.0)
    traces.receive("a", 71.0)
    assert traces.low_watermark == 1
    assert traces.close(81.0) == [("a", "quiet")]
    assert len(traces.seen["a"].pieces) == 1


def test_a_trace_that_grows_too_large_is_closed_and_its_pieces_are_dropped() -> None:
    traces = Traces()
    assert traces.receive("a", 0.0, 60) == []
    assert traces.receive("a", 1.0, 40) == [], "exactly at the limit"
    assert traces.receive("a", 2.0, 1) == [("a", "bytes")]
    dropped = traces.seen["a"]
    assert (dropped.pieces, dropped.bytes, dropped.unread_closings, dropped.closed_at) == ([], 0, [], 2.0)
    assert (traces.bytes, len(traces), traces.due_at, traces.low_watermark) == (0, 0, 62.0, 0)
    assert traces.receive("a", 3.0, 60) == [], "later pieces begin from nothing"
    assert traces.close(13.0) == [("a", "quiet")]
    assert (len(traces.seen["a"].pieces), traces.bytes) == (1, 60)


def test_beyond_all_memory_lingering_traces_are_released_first_and_then_the_oldest_are_closed() -> None:
    traces = Traces()
    traces.receive("lingers", 0.0, 90)
    traces.close(10.0)
    assert traces.receive("a", 11.0, 80) == []
    assert traces.receive("b", 12.0, 80) == [], "exactly at the limit"
    assert (traces.bytes, traces.low_watermark) == (250, 0)
    assert traces.receive("c", 13.0, 80) == [], "what lingered is released without a word"
    assert (traces.bytes, traces.low_watermark, len(traces)) == (240, 1, 3)
    assert traces.receive("a", 14.0, 11) == [("a", "memory")], "the oldest, although it was heard of last"
    assert (traces.bytes, traces.low_watermark, len(traces)) == (160, 2, 2)
    assert traces.seen["a"].closed_at == 14.0
    assert len(traces.seen["a"].pieces) == 2, "it is assembled from what it has"


@pytest.mark.parametrize(
    ("name", "value"),
    [("quiet", 10.0), ("linger", 60.0), ("max_age", 600.0), ("max_trace_bytes", 33554432), ("max_bytes", 536870912)],
)
def test_limits_unless_configured(name: str, value: float) -> None:
    assert getattr(TraceLimits(), name) == value
