"""A process that dies loses no trace: another one replays from the committed position and closes what was open there.

A broker that stood still takes records after younger ones. A consumer gives each record the latest time that it has
seen, so the process that replays may see an earlier time than the one that committed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hypothesis import example, given, strategies as st
from made_up import Trace, chat

from collector.assemble.collect_trace import TracePiece
from collector.assemble.open_traces import OpenTraces, TraceLimits
from collector.assemble.stage import AssembleStage
from collector.assemble.trace import Assembler
from collector.dialects.registry import Dialects
from collector.link.turn_router import TurnRouter
from collector.logs.log import TICK, Committed, StoredRecord
from collector.logs.memory import MemoryLog

LIMITS = TraceLimits(quiet=0.5, linger=10.0)
STEPS = st.sampled_from([0.0, 0.1, 0.4, 3.0, 20.0, -0.2, -5.0, -50.0])


@dataclass(frozen=True)
class Piece:
    """A record of the log: a tick where there is no trace."""

    trace: str | None
    time: float


class Life:
    """What one process does: it replays from `low` to `offset`, then goes on until it dies."""

    def __init__(self, log: Sequence[Piece], offset: int, low: int, time: float) -> None:
        self._log, self._open, self._latest = log, OpenTraces(LIMITS, time), 0.0
        for position in range(low, offset):
            self.apply(position)

    def apply(self, position: int) -> list[str]:
        """Take in a record; the traces that it closes."""
        record = self._log[position]
        self._latest = max(self._latest, record.time)
        closed = list(self._open.advance(self._latest))
        if record.trace is not None:
            piece = TracePiece("traces", b"x", position)
            closed += self._open.add(record.trace, piece, position, self._latest)
        return [trace.trace_id for trace, _ in closed]

    def committed(self, offset: int) -> tuple[int, int, float]:
        low = self._open.low_watermark
        return offset, offset if low is None else low, self._open.time


@given(
    st.lists(st.tuples(st.booleans(), STEPS), min_size=1, max_size=60),
    st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), max_size=8),
)
@example(steps=[(False, 100.0), (True, -45.0), (True, 0.6), (True, 0.6)], lives=[(4, 3)])
def test_every_trace_closes_in_some_life(steps: list[tuple[bool, float]], lives: list[tuple[int, int]]) -> None:
    time, log = 1000.0, list[Piece]()
    for number, (has_trace, step) in enumerate(steps):
        time += step
        log.append(Piece(f"trace-{number}" if has_trace else None, time))
    log += [Piece(None, max(piece.time for piece in log) + after) for after in (1.0, 20.0)]
    closed, position = set[str](), (0, 0, 0.0)
    for length, commits_after in [*lives, (len(log), len(log))]:
        life, begin = Life(log, *position), position[0]
        for offset in range(begin, min(begin + length, len(log))):
            closed.update(life.apply(offset))
            if offset - begin + 1 <= commits_after:
                position = life.committed(offset + 1)
    assert closed == {piece.trace for piece in log if piece.trace is not None}


async def test_a_turn_that_was_open_at_the_commit_is_made_after_a_restart() -> None:
    turns = MemoryLog("turns", partitions=1)
    stage = AssembleStage(Assembler(Dialects.installed()), TurnRouter(turns), TraceLimits(quiet=5.0))
    first, second = (
        StoredRecord(0, offset, 140.0 + offset, letter * 16, piece.value, (("signal", piece.signal.encode()),))
        for offset, letter in ((1, b"ab"), (9, b"cd"))
        for piece in Trace().span(1, "chat", chat("Are you open?", "Yes.")).pieces()
    )
    late = StoredRecord(0, 0, 200.0, None, b"", TICK)
    async with stage.open_fold(0, None) as fold:
        # The consumer has seen the time of the tick, and gives it to what a broker took after it.
        await fold.deliver([late, replace(first, timestamp=200.0), replace(second, timestamp=200.0)])
        committed = Committed(fold.low_watermark or 0, 10, fold.metadata)
    assert (committed.low_watermark, await turns.end_offset(0)) == (1, 0)
    async with stage.open_fold(0, committed) as fold:
        await fold.replay([first, second])
        await fold.deliver([StoredRecord(0, 10, 210.0, None, b"", TICK)])
    assert await turns.end_offset(0) == 2


async def test_a_position_without_a_time_is_read_as_one_of_an_earlier_release() -> None:
    stage = AssembleStage(Assembler(Dialects.installed()), TurnRouter(MemoryLog("turns", partitions=1)))
    for text in ("", "inf", "nan", "{}"):
        async with stage.open_fold(0, Committed(0, 0, text)) as fold:
            assert fold.metadata == "0.0"
