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
    """What one process does: it replays from the low watermark to the offset, then continues until it dies."""

    def __init__(self, log: Sequence[Piece], committed: Committed, quiet: float) -> None:
        self._log, self._latest = log, 0.0
        self._open = OpenTraces.at(committed, replace(LIMITS, quiet=quiet))
        self.replayed = set[tuple[str, int]]()
        for position in range(committed.low_watermark, committed.offset):
            self._open.use_past_limits(position)
            self.replayed.update(self.apply(position))
        self._open.use_configured_limits(committed.offset)

    def apply(self, position: int) -> list[tuple[str, int]]:
        """Take in a record; the traces that it closes, each with the position of its last piece."""
        record = self._log[position]
        self._latest = max(self._latest, record.time)
        closed = list(self._open.advance(self._latest))
        if record.trace is not None:
            piece = TracePiece("traces", b"x", position)
            closed += self._open.add(record.trace, piece, position, self._latest)
        return [(trace.trace_id, trace.pieces[-1].number) for trace, _ in closed]

    def committed(self, offset: int) -> Committed:
        low = self._open.low_watermark
        low = offset if low is None else low
        return Committed(low, offset, self._open.commit_text(low))


@given(
    st.lists(st.tuples(st.booleans(), STEPS), min_size=1, max_size=60),
    st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30), st.sampled_from([0.2, 0.5, 4.0])), max_size=8),
)
@example(steps=[(False, 100.0), (True, -45.0), (True, 0.6), (True, 0.6)], lives=[(4, 3, 0.5)])
@example(steps=[(True, 0.1), (False, 3.0), (False, 0.1)], lives=[(2, 2, 4.0)])
@example(steps=[(True, 0.1), (False, 0.4), (False, 0.1), (True, 0.1), (False, 3.0)], lives=[(2, 2, 0.2), (3, 3, 4.0)])
def test_every_trace_closes_in_some_life(steps: list[tuple[bool, float]], lives: list[tuple[int, int, float]]) -> None:
    """Also where the configuration changes between two lives when a trace is closed for its silence. What a replay
    closes was closed before, or its turns would never be made.
    """
    time, log = 1000.0, list[Piece]()
    for number, (has_trace, step) in enumerate(steps):
        time += step
        log.append(Piece(f"trace-{number // 3}" if has_trace else None, time))
    log += [Piece(None, max(piece.time for piece in log) + after) for after in (1.0, 20.0)]
    closed, position = set[tuple[str, int]](), Committed(0, 0)
    for length, commits_after, quiet in [*lives, (len(log), len(log), 0.5)]:
        life, begin = Life(log, position, quiet), position.offset
        assert life.replayed <= closed
        for offset in range(begin, min(begin + length, len(log))):
            closed.update(life.apply(offset))
            if offset - begin + 1 <= commits_after:
                position = life.committed(offset + 1)
    assert {trace for trace, _ in closed} == {piece.trace for piece in log if piece.trace is not None}


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
            assert fold.metadata == "0.0 0:10.0:60.0"


def test_a_replay_uses_past_limits_also_where_only_one_is_left() -> None:
    """What only a start reads besides, like `max_age`, is in no commit: it belongs to the limits in force."""
    traces = OpenTraces.at(Committed(0, 200, "1.0 0:10.0:60.0 100:5.0:60.0"), replace(LIMITS, quiet=5.0, linger=60.0))
    traces.use_past_limits(0)
    assert traces.commit_text(100).split()[1:] == ["100:5.0:60.0"]
    traces.use_past_limits(100)
    assert traces._limits.quiet == 5.0


async def test_a_shorter_timeout_loses_no_turn_at_a_restart() -> None:
    turns = MemoryLog("turns", partitions=1)
    stages = [
        AssembleStage(Assembler(Dialects.installed()), TurnRouter(turns), TraceLimits(quiet=quiet))
        for quiet in (10.0, 5.0, 5.0)
    ]
    piece = Trace().span(1, "chat", chat("Are you open?", "Yes.")).pieces()[0]
    record = StoredRecord(0, 0, 100.0, b"ab" * 16, piece.value, (("signal", piece.signal.encode()),))
    ticks = [StoredRecord(0, offset, 100.0 + 7 * offset, None, b"", TICK) for offset in (1, 2)]
    async with stages[0].open_fold(0, None) as fold:
        await fold.deliver([record, ticks[0]])
        committed = Committed(0, 2, fold.metadata)
    for stage in stages[1:]:  # one more dies before anything is delivered to it
        async with stage.open_fold(0, committed) as fold:
            await fold.replay([record, ticks[0]])
            committed = Committed(fold.low_watermark or 0, 2, fold.metadata)
            if stage is stages[-1]:
                await fold.deliver([ticks[1]])
                assert fold.metadata == "100.0 0:10.0:60.0 2:5.0:60.0"
    assert await turns.end_offset(0) == 1


async def test_an_empty_batch_changes_nothing() -> None:
    """A fold that divides shared records may have none to pass on."""
    stage = AssembleStage(Assembler(Dialects.installed()), TurnRouter(MemoryLog("turns", partitions=1)))
    async with stage.open_fold(0, Committed(3, 5, "100.0 0:10.0:60.0")) as fold:
        before = fold.metadata
        await fold.replay([])
        await fold.deliver([])
        assert fold.metadata == before
