"""Runs of agents inside turns through a real process: judged beside their turn, once, through redelivery and restart."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from made_up_agents import supervised
from service import service, until_ledger

CONFIG: dict[str, Any] = {
    "log": {"kind": "sqlite", "path": "evalstream.db"},
    "assemble": {"idle_timeout": "1s", "allowed_lateness": "30s", "agent_runs": True},
    "evaluators": {"short": {"kind": "length", "unit": "words", "maximum": 20}, "errors": {"kind": "tool_errors"}},
    "monitors": {
        "answers": {"evaluators": ["short"]},
        "agents": {"subjects": "agent_runs", "evaluators": ["short", "errors"]},
    },
}
EXPECTED = [
    ("agents", "errors", "trains"),
    ("agents", "errors", "wind"),
    ("agents", "short", "trains"),
    ("agents", "short", "wind"),
    ("answers", "short", "supervisor"),
]


@pytest.mark.long
async def test_runs_are_judged_beside_their_turn_once(tmp_path: Path) -> None:
    trace = supervised(start=time.time_ns() - 40 * 10**9)

    async def send(process: Any) -> None:
        for piece in trace.pieces():
            assert await process.post(piece.signal, piece.value) == 200

    async with service(tmp_path, CONFIG) as process:
        await send(process)
        first = await until_ledger(process, len(EXPECTED))
        await send(process)  # redelivered
        await process.kill()
        await process.start()
        await send(process)
        await asyncio.sleep(3)
        ledger = await process.ledger()
        metrics = await process.metrics()
    assert sorted((each.monitor, each.evaluator, each.attributes["agent"]) for each in ledger) == EXPECTED
    assert {each.evaluation_id for each in ledger} == {each.evaluation_id for each in first}
    [turn] = [each for each in ledger if each.monitor == "answers"]
    runs = [each for each in ledger if each.monitor == "agents"]
    assert {each.attributes["agent_run_of"] for each in runs} == {turn.subject.turn_id}
    assert {each.subject.conversation_id for each in ledger} == {"talk-7"}
    assert {each.sampling.probability for each in ledger} == {1.0}
    assert {each.subject.span_id for each in runs} == {f"{number:016x}" for number in (4, 11)}
    assert 'evalstream_turns_total{monitor="answers"' in metrics
