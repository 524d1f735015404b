"""Ready-made turns where the stages run apart, where no text is kept, and where nothing outlives the process."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from configurations import checked
from stand_in_judge import serve_judge

from collector.config.configured import Config
from collector.config.loading import check
from collector.logs.log import Log
from collector.records.json import evaluation_from_json, turn_from_json
from collector.service import app
from collector.service.app import running
from evaluators.results import Evaluation

TURN = {"conversation_id": "c", "input": "Hi", "actual_output": "Hello", "expected_output": "Hello"}


@pytest.fixture(autouse=True)
def _truncating_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "TRUNCATE_TEXT_EVERY", 0.01)


def configured(folder: Path, **log: Any) -> Config:
    (folder / "turns.json").write_text(json.dumps([TURN, TURN]))
    return checked(
        {"exact": {"kind": "exact_match"}},
        store_text=False,
        log=log,
        receive={"files": [str(folder / "turns.json")]},
        export={},
    )


async def until_held(log: Log, count: int) -> list[bytes]:
    """What a log holds beside ticks and decisions, as soon as that is so many records."""
    async with asyncio.timeout(60):
        while True:
            held = [record async for batch in log.read(0, 0) for record in batch if not record.headers]
            if len(held) >= count:
                return [record.value for record in held]
            await asyncio.sleep(0.02)


def assert_scored_without_text(evaluations: list[Evaluation]) -> None:
    assert [each.outcome for each in evaluations] == ["scored"] * 2
    assert {each.explanation for each in evaluations} == {None}
    assert len({each.subject.turn_id for each in evaluations}) == 2


async def test_receive_alone_then_evaluate_alone(tmp_path: Path) -> None:
    config = configured(tmp_path, kind="sqlite", path=str(tmp_path / "logs.db"))
    async with running(config, {"receive"}) as service:
        await until_held(service.logs.turns, 2)
        await asyncio.sleep(0.1)  # texts are not kept, but these nobody has judged
        turns = [turn_from_json(value) for value in await until_held(service.logs.turns, 2)]
    assert [turn.input for turn in turns] == ["Hi", "Hi"]
    async with running(config, {"evaluate"}) as service:
        assert_scored_without_text(list(map(evaluation_from_json, await until_held(service.logs.evaluations, 2))))


async def test_what_is_said_of_a_conversation_reaches_its_judge(tmp_path: Path) -> None:
    """Role adherence asks for the role, and would be skipped without it."""
    document = {"conversation_id": "c", "chatbot_role": "A patient clerk.", "turns": [TURN]}
    (tmp_path / "conversation.json").write_text(json.dumps(document))
    async with serve_judge() as judge:
        values = {
            "log": {"kind": "memory"},
            "receive": {"files": [str(tmp_path / "conversation.json")]},
            "judges": {"stand-in": {"model": "stand-in", "base_url": judge}},
            "evaluators": {"role": {"kind": "role_adherence"}},
            "monitors": {"all": {"evaluators": ["role"], "idle_timeout": "100ms"}},
            "export": {},
        }
        async with running(check(values, "test")) as service:
            [held] = await until_held(service.logs.evaluations, 1)
    assert evaluation_from_json(held).outcome == "scored"


async def test_all_of_it_in_memory(tmp_path: Path) -> None:
    async with running(configured(tmp_path, kind="memory")) as service:
        assert_scored_without_text(list(map(evaluation_from_json, await until_held(service.logs.evaluations, 2))))
