"""Feedback that comes when its turn was made: it reaches nobody, and is counted."""

from __future__ import annotations

from made_up import Trace, chat

from collector.assemble.open_traces import TraceLimits
from collector.assemble.stage import AssembleFold, AssembleStage
from collector.assemble.trace import Assembler
from collector.dialects.registry import Dialects
from collector.link.turn_router import TurnRouter
from collector.logs.log import TICK, StoredRecord
from collector.logs.memory import MemoryLog
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import LATE_FEEDBACK, TURNS_ASSEMBLED

ASSEMBLER = Assembler(Dialects.installed())
SAID = {"gen_ai.evaluation.name": "thumbs", "gen_ai.evaluation.score.value": 1.0, "gen_ai.response.id": "r-1"}


def asked() -> Trace:
    return Trace().span(1, "chat", chat("Are you open?", "Yes.", **{"gen_ai.response.id": "r-1"}))


async def pour(fold: AssembleFold, trace: Trace, time: float) -> None:
    for number, piece in enumerate(trace.pieces()):
        position = int(time) * 10 + number
        headers = (("signal", piece.signal.encode()),)
        await fold.deliver([StoredRecord(0, position, time, b"ab" * 16, piece.value, headers)])
    await fold.deliver([StoredRecord(0, int(time) * 10 + 9, time + 10.0, None, b"", TICK)])


async def test_feedback_after_its_turn_is_counted_once_whether_the_trace_lingers_or_is_forgotten() -> None:
    turns, telemetry = MemoryLog("turns", partitions=1), Telemetry()

    def assembled() -> float:
        return telemetry.counter(TURNS_ASSEMBLED, "otel_genai", "complete", "")._value.get()

    def late() -> float:
        return telemetry.counter(LATE_FEEDBACK)._value.get()

    feedback = Trace().record(None, "gen_ai.evaluation.result", None, SAID)
    stage = AssembleStage(ASSEMBLER, TurnRouter(turns), TraceLimits(quiet=5.0, linger=60.0), telemetry=telemetry)
    async with stage.open_fold(0, None) as fold:
        await pour(fold, asked().record(None, "gen_ai.evaluation.result", None, SAID), 100.0)
        assert (assembled(), late()) == (1, 0), "in time"
        await pour(fold, feedback, 500.0)
        assert late() == 1, "its trace is forgotten"
        await pour(fold, asked(), 900.0)
        await pour(fold, feedback, 920.0)
        assert late() == 2, "its trace lingers"
        await pour(fold, feedback, 940.0)
        assert late() == 2, "the same again"
    assert await turns.end_offset(0) == assembled() == 2, "a trace that closes again counts no turn again"
