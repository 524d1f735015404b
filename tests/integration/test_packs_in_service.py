"""Packs through the whole service with the stand-in judge, and `compare evaluators` that compares them with single requests."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from stand_in_judge import StandInJudge, serve_judge
from typer.testing import CliRunner

from collector.cli import app
from collector.config.loading import load
from collector.logs.log import Record
from collector.records.json import evaluation_from_json, turn_to_json
from collector.service.app import running
from evaluators.cases import Turn
from evaluators.results import Evaluation

START = datetime(2026, 11, 20, tzinfo=UTC)
NAMES = ["helpful", "polite", "grounded"]
TURNS = 6


def turns() -> list[Turn]:
    return [
        Turn(
            turn_id=f"t{n}",
            conversation_id=f"c{n // 2}",
            trace_id=f"{n:032x}",
            span_id=f"{n:016x}",
            input=f"Please tell me, where is the parcel number {n}?",
            actual_output=f"The parcel number {n} is where I please." if n % 3 else "Bananas grow on trees.",
            retrieval_context=(f"The parcel number {n} is in Rome.",),
            started_at=START + timedelta(minutes=n),
            ended_at=START + timedelta(minutes=n),
        )
        for n in range(TURNS)
    ]


def configure(folder: Path, url: str, name: str, **monitor: Any) -> Path:
    rated = {"kind": "g_eval", "evaluation_params": ["input", "actual_output"], "threshold": 0.5}
    prices = {"usd_per_million_input_tokens": 1.0, "usd_per_million_output_tokens": 1.0}
    path = folder / name
    settings = {
        "log": {"path": str(folder / f"{name}.db")},
        "judges": {"main": {"model": "m", "base_url": url, **prices}},
        "evaluators": {
            "helpful": {**rated, "evaluation_steps": ["Does it answer?"]},
            "polite": {**rated, "evaluation_steps": ["Is it polite?"]},
            "grounded": {"kind": "faithfulness", "threshold": 0.5},
        },
        "monitors": {"all": {"evaluators": NAMES, **monitor}},
        "export": {},
    }
    path.write_text(json.dumps(settings))  # which is YAML, too
    return path


async def judged(path: Path) -> list[Evaluation]:
    """The records of a service that has judged all turns."""
    async with running(load(path), {"evaluate"}) as service:
        await service.logs.turns.append([Record((t.conversation_id or "").encode(), turn_to_json(t)) for t in turns()])
        async with asyncio.timeout(60):
            while len(found := await records_of(service.logs.evaluations)) < len(NAMES) * TURNS:
                await asyncio.sleep(0.05)
    return found


async def records_of(log: Any) -> list[Evaluation]:
    return [
        evaluation_from_json(record.value)
        for partition in range(log.partitions)
        async for batch in log.read(partition, 0)
        for record in batch
        if not record.headers
    ]


async def test_a_packed_service_asks_twice_a_turn_and_replay_compares_it(tmp_path: Path) -> None:
    judge = StandInJudge()
    async with serve_judge(judge) as url:
        alone, packed = configure(tmp_path, url, "alone.yaml"), configure(tmp_path, url, "packed.yaml", pack="auto")
        before = await judged(alone)
        assert judge.calls == 4 * TURNS
        judge.calls = 0
        after = await judged(packed)
        assert judge.calls == 2 * TURNS
        judge.calls = 0
        command = ["compare", "evaluators", "-c", str(alone), "--with", str(packed), "--json", "--from", "1h"]
        done = await asyncio.to_thread(CliRunner().invoke, app, command)
        assert done.exit_code == 0, (done.output, done.exception)
        assert judge.calls == 2 * TURNS
    report = json.loads(done.stdout)
    assert Counter(each.evaluator for each in after) == dict.fromkeys(NAMES, TURNS)
    assert all(each.outcome == "scored" for each in (*before, *after))
    single, packs = ({each.evaluator: each.evaluator_version for each in some} for some in (before, after))
    assert not set(single.values()) & set(packs.values())
    for each in report["evaluators"]:
        assert each["pairs"] == TURNS
        assert each["mean"]["difference"] == pytest.approx(
            0.0, abs=1e-9
        )  # the stand-in counts words, whoever asks beside
        assert (each["old"]["version"], each["new"]["version"]) == (
            single[each["new"]["evaluator"]],
            packs[each["new"]["evaluator"]],
        )
    scores = {(each.evaluator, each.subject.turn_id): each.score for each in before}
    assert scores == pytest.approx({(each.evaluator, each.subject.turn_id): each.score for each in after})
