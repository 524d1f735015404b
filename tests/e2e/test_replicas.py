"""Three replicas over a real broker, one killed and one added during traffic: all judged once, within the budget."""

from __future__ import annotations

import asyncio
import copy
import os
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from service import ServiceProcess, until_ledger
from topics import Topics

from collector.config.settings import LogSettings
from collector.demo.judge import Faults, StandInJudge, serve_judge
from collector.logs.log import Record
from collector.opening import open_logs
from collector.records import turn_to_json
from evaluators.cases import Turn

CONVERSATIONS, TURNS = 60, 3
USD_PER_HOUR = 0.05


def configuration(judge: str, topics: Topics, budget: dict[str, Any]) -> dict[str, Any]:
    return {
        "log": topics.log_settings(),
        "receive": {"otlp_http": None},
        "judges": {
            "stand-in": {
                "model": "stand-in",
                "base_url": judge,
                "usd_per_million_input_tokens": 1.0,
                "usd_per_million_output_tokens": 1.0,
            }
        },
        "evaluators": {
            "helpful": {
                "kind": "g_eval",
                "evaluation_steps": ["Say whether the actual output answers the input."],
                "evaluation_params": ["input", "actual_output"],
            },
            "exact": {"kind": "exact_match"},
        },
        "monitors": {"all": {"evaluators": ["helpful", {"name": "exact", "sample": 1.0}], "budget": budget}},
    }


def turns() -> list[Turn]:
    begin = datetime.now(UTC)
    return [
        Turn(
            turn_id=f"turn-{conversation}-{number}",
            conversation_id=f"conversation-{conversation}",
            input=f"What is {conversation} and {number}?",
            actual_output=f"It is {conversation} and {number}.",
            expected_output="x",
            ended_at=begin + timedelta(seconds=number),
        )
        for number in range(TURNS)
        for conversation in range(CONVERSATIONS)
    ]


async def replicas_judge(
    folder: Path, broker: Any, budget: dict[str, Any], within: float = 90.0
) -> tuple[list[Any], dict[str, Any]]:
    topics = Topics(broker.bootstrap)
    async with serve_judge(StandInJudge(Faults(latency=0.3))) as judge:
        config = configuration(judge, topics, budget)
        processes = [
            ServiceProcess(make(folder / f"{n}"), replica(config, n), ("--stages", "evaluate,export")) for n in range(4)
        ]
        for each in processes[:3]:
            await each.start()
        async with open_logs(LogSettings.model_validate(config["log"])) as logs:
            for number, turn in enumerate(turns()):
                key = (turn.conversation_id or "").encode()
                await logs.turns.append([Record(key, turn_to_json(turn))] * (1 + (number % 10 == 0)))
                await asyncio.sleep(0.02)
                if number == 60:
                    await processes[0].kill()
                if number == 90:
                    await processes[3].start()
        ledger = await until_ledger(
            processes[3], 2 * CONVERSATIONS * TURNS if not budget else CONVERSATIONS * TURNS, within
        )
        await asyncio.sleep(3.0)
        ledger = await processes[3].ledger()
        for each in processes[1:]:
            await each.stop()
    return ledger, config


def replica(config: dict[str, Any], number: int) -> dict[str, Any]:
    own = copy.deepcopy(config)
    own["log"]["kafka"]["group_instance_id"] = f"replica-{number}"
    return own


def make(folder: Path) -> Path:
    folder.mkdir()
    return folder


pytestmark = pytest.mark.skipif(
    os.environ.get("EVALSTREAM_REPLICAS") != "1", reason="takes minutes; EVALSTREAM_REPLICAS=1 runs it"
)


@pytest.mark.kafka
@pytest.mark.slow
async def test_three_replicas_one_killed_one_added_judge_everything_once(tmp_path: Path, kafka_broker: Any) -> None:
    ledger, _ = await replicas_judge(tmp_path, kafka_broker, {})
    counted = Counter(each.evaluation_id for each in ledger)
    assert len(counted) == 2 * CONVERSATIONS * TURNS
    twice = [each for each, number in counted.items() if number > 1]
    assert not twice
    assert Counter((each.evaluator, each.outcome) for each in ledger) == {
        ("helpful", "scored"): CONVERSATIONS * TURNS,
        ("exact", "scored"): CONVERSATIONS * TURNS,
    }


@pytest.mark.kafka
@pytest.mark.slow
async def test_three_replicas_share_one_budget(tmp_path: Path, kafka_broker: Any) -> None:
    budget = {"usd_per_hour": USD_PER_HOUR, "hard_cap": 1.0}
    ledger, _ = await replicas_judge(tmp_path, kafka_broker, budget)
    assert sorted(each.subject.turn_id for each in ledger if each.evaluator == "exact") == sorted(
        t.turn_id for t in turns()
    )
    assert all(number == 1 for number in Counter(each.evaluation_id for each in ledger).values())
    spent = sum(each.cost_usd or 0.0 for each in ledger)
    calls = [each for each in ledger if each.cost_usd]
    assert calls, "something is judged"
    assert spent <= USD_PER_HOUR * 1.05
    assert {each.sampling.probability for each in ledger if each.evaluator == "exact"} == {1.0}
    assert max(each.sampling.probability for each in calls) < 1.0
