"""How many spans each dialect has read, and how many none has: in a trace of a model's, beside it, and without any."""

from __future__ import annotations

from typing import Any

import pytest
from made_up import Trace, chat

from collector.assemble.open_traces import TraceLimits
from collector.assemble.stage import AssembleStage
from collector.assemble.trace import Assembler
from collector.dialects.registry import Dialects
from collector.link.turn_router import TurnRouter
from collector.logs.log import TICK, StoredRecord
from collector.logs.memory import MemoryLog
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import SPANS_READ

PLAIN: dict[str, Any] = {"http.request.method": "GET"}


def made(chats: int, others: int) -> Trace:
    trace = Trace()
    for number in range(1, others + 1):
        trace = trace.span(number, "GET /", PLAIN)
    for number in range(others + 1, others + chats + 1):
        trace = trace.span(number, "chat", chat(f"What is {number}?", "Yes."))
    return trace


@pytest.mark.parametrize(
    ("chats", "others", "expected"),
    [
        (1, 0, {"otel_genai": 1}),
        (0, 3, {"none": 3}),
        (1, 2, {"otel_genai": 1, "none": 2}),
        (2, 1, {"otel_genai": 2, "none": 1}),
    ],
)
async def test_each_span_is_counted(chats: int, others: int, expected: dict[str, int]) -> None:
    telemetry = Telemetry()
    stage = AssembleStage(
        Assembler(Dialects.installed()), TurnRouter(MemoryLog("turns", 1)), TraceLimits(quiet=5.0), telemetry=telemetry
    )
    records = [
        StoredRecord(0, offset, 100.0, b"ab" * 16, piece.value, (("signal", piece.signal.encode()),))
        for offset, piece in enumerate(made(chats, others).pieces())
    ]
    async with stage.open_fold(0, None) as fold:
        await fold.deliver([*records, *records, StoredRecord(0, 9, 200.0, None, b"", TICK)])
    counts = {
        sample.labels["dialect"]: sample.value
        for metric in telemetry.registry.collect()
        for sample in metric.samples
        if sample.name == SPANS_READ.name
    }
    assert counts == expected
