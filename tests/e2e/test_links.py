"""Applications that name no conversation, through the real service: their turns are put together by what they repeat."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
from made_up import Trace, chat, parts
from service import ServiceProcess, service, until_ledger
from stand_in_judge import serve_judge
from topics import Topics
from typer.testing import CliRunner

from collector.cli import app

ANSWERS = (("Hi", "Hello"), ("And {who}?", "{who} is well."), ("Bye", "Goodbye, {who}"))
"""Two people open with the same words."""


def asked(who: str, number: int) -> Trace:
    """One call, which repeats all that was said before."""
    told = [text.format(who=who) for exchange in ANSWERS for text in exchange]
    before = [(role, text) for role, text in zip(("user", "assistant") * number, told, strict=False)]
    question, answer = told[2 * number : 2 * number + 2]
    trace = Trace(f"{number + 1:016x}{ord(who[0]):016x}", start=time.time_ns())
    trace.span(1, "POST /chat", at=10.0 * number, events=[("conversation.ended", {})] if number == 2 else ())
    prompt = {"gen_ai.input.messages": parts(*before, ("user", question))}
    return trace.span(2, "chat", chat(question, answer, **prompt), parent=1, at=10.0 * number)


def configuration(judge: str, log: dict[str, Any]) -> dict[str, Any]:
    return {
        "log": log,
        "assemble": {"idle_timeout": "200ms", "allowed_lateness": "5s", "link": {"services": ["shop"]}},
        "judges": {"stand-in": {"model": "stand-in", "base_url": judge}},
        "evaluators": {"kind": {"kind": "conversational_g_eval", "criteria": "Is the assistant kind?"}},
        "monitors": {
            "all": {"evaluators": ["kind"], "idle_timeout": "1d", "end_markers": {"events": ["conversation.ended"]}}
        },
    }


async def talk(process: ServiceProcess, people: Sequence[str], number: int) -> None:
    """The next turn of everybody; returns when they are in the turns log."""
    before = await taken(process)
    for who in people:
        for piece in asked(who, number).pieces():
            assert await process.post(piece.signal, piece.value) == 200
    async with asyncio.timeout(60):
        while await taken(process) < before + len(people):
            await asyncio.sleep(0.1)


async def taken(process: ServiceProcess) -> float:
    lines = (await process.metrics()).splitlines()
    return sum(
        float(line.rpartition(" ")[2])
        for line in lines
        if line.startswith(("evalstream_turns_total{", "evalstream_unmatched_turns_total "))
    )


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("kafka", marks=[pytest.mark.kafka, pytest.mark.long])])
async def test_two_who_opened_alike_are_judged_apart_and_whole_after_a_kill(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    log: dict[str, Any] = {"kind": "sqlite", "path": "evalstream.db"}
    if kind == "kafka":
        log = Topics(request.getfixturevalue("kafka_broker").bootstrap).log_settings()
        log["kafka"]["session_timeout"] = 6.0
    async with serve_judge() as judge, service(tmp_path, configuration(judge, log)) as process:
        await talk(process, ["ann", "bob"], 0)
        await talk(process, ["ann", "bob"], 1)
        await process.kill()
        await process.start()
        await talk(process, ["ann", "bob"], 2)
        ledger = await until_ledger(process, 2)
    assert [each.attributes["turns"] for each in ledger] == [3, 3]
    openings = {asked(who, 0).trace_id.hex() for who in ("ann", "bob")}
    assert {each.subject.conversation_id for each in ledger} == openings


def test_normalize_shows_the_same_conversations(tmp_path: Path) -> None:
    config = tmp_path / "evalstream.yaml"
    config.write_text(orjson.dumps(configuration("http://127.0.0.1:9/v1", {"kind": "memory"})).decode())
    for number in range(3):
        [piece] = asked("ann", number).pieces()
        (tmp_path / f"{number}-traces.pb").write_bytes(piece.value)
    for arguments, conversations in ((["-c", str(config)], 1), ([], 0)):
        ended = CliRunner().invoke(app, ["turns", *map(str, sorted(tmp_path.glob("*.pb"))), *arguments])
        assert ended.exit_code == 0
        turns = [orjson.loads(line) for line in ended.stdout.splitlines()]
        assert [turn["input"] for turn in turns] == ["Hi", "And ann?", "Bye"]
        assert len({turn.get("conversation_id") for turn in turns} - {None}) == conversations
