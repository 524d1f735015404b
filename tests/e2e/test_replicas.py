"""Three replicas over a real broker, one killed and one added during traffic: all judged once, within the budget."""

from __future__ import annotations

import asyncio
import copy
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from faulty_judge import Faults, FaultyJudge
from prometheus_client.parser import text_string_to_metric_families
from service import ServiceProcess
from stand_in_judge import serve_judge
from topics import Topics

from collector.config.settings import LogSettings
from collector.evaluate.recovery.control_records import CONTROL_HEADERS
from collector.logs.log import Log, Record
from collector.records.json import evaluation_from_json, turn_to_json
from collector.service.open_logs import open_logs
from evaluators.cases import Turn
from evaluators.results import Evaluation

CONVERSATIONS, TURNS = 80, 3
PARTITIONS = 6
USD_PER_HOUR = 0.002
"""A few calls' worth: less than the first rate of a tenth of the traffic would cost."""
FREE = ("helpful", "exact")


def question(judge: str) -> dict[str, Any]:
    return {
        "kind": "g_eval",
        "evaluation_steps": ["Say whether the actual output answers the input."],
        "evaluation_params": ["input", "actual_output"],
        "judge": judge,
    }


def configuration(judge: str, topics: Topics) -> dict[str, Any]:
    log = topics.log_settings()
    log["kafka"] |= {"partitions": PARTITIONS, "session_timeout": 6.0}
    price = {"usd_per_million_input_tokens": 1.0, "usd_per_million_output_tokens": 1.0}
    return {
        "log": log,
        "receive": {"otlp_http": None},
        "judges": {
            "free": {"model": "stand-in", "base_url": judge},
            "priced": {"model": "stand-in-priced", "base_url": judge, **price},
        },
        "evaluators": {
            "helpful": question("free"),
            "exact": {"kind": "exact_match"},
            "costly": question("priced"),
        },
        "monitors": {
            "all": {"evaluators": list(FREE)},
            "paid": {"evaluators": ["costly"], "budget": {"usd_per_hour": USD_PER_HOUR, "hard_cap_factor": 1.0}},
        },
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


async def send(log: Log, some: Iterable[Turn]) -> None:
    """Append them one after the other, every tenth twice."""
    for number, turn in enumerate(some):
        record = Record((turn.conversation_id or "").encode(), turn_to_json(turn))
        await log.append([record] * (1 + (number % 10 == 0)))
        await asyncio.sleep(0.005)


def replica(folder: Path, config: dict[str, Any], number: int) -> ServiceProcess:
    own = copy.deepcopy(config)
    own["log"]["kafka"]["group_instance_id"] = f"replica-{number}"
    folder = folder / str(number)
    folder.mkdir()
    return ServiceProcess(folder, own, ("--stages", "evaluate,export"))


async def counts(process: ServiceProcess) -> Counter[tuple[str, str]]:
    """What a process says became of evaluations, by evaluator."""
    families = text_string_to_metric_families(await process.metrics())
    found: Counter[tuple[str, str]] = Counter()
    for sample in (each for family in families for each in family.samples):
        if sample.name == "evalstream_evaluations_due_total":
            found[sample.labels["evaluator"], sample.labels["origin"]] += int(sample.value)
        if sample.name == "evalstream_evaluations_ended_total":
            found[sample.labels["evaluator"], sample.labels["reason"] or sample.labels["outcome"]] += int(sample.value)
    return found


async def until_at_work(process: ServiceProcess) -> None:
    async with asyncio.timeout(60):
        while not (await counts(process))["helpful", "scored"]:
            await asyncio.sleep(0.1)


async def until_judged(log: Log, count: int) -> None:
    """Wait until the log holds so many different evaluations of the free evaluators."""
    found: list[Evaluation] = []
    positions = [0] * log.partitions
    async with asyncio.timeout(180):
        while len({each.evaluation_id for each in found if each.evaluator in FREE}) < count:
            await asyncio.sleep(0.3)
            found += await news(log, positions)


async def news(log: Log, positions: list[int]) -> list[Evaluation]:
    """What the log holds from the positions on, which are moved to its end."""
    found: list[Evaluation] = []
    for partition, start in enumerate(positions):
        async for batch in log.read(partition, start):
            found += [evaluation_from_json(each.value) for each in batch if each.headers != CONTROL_HEADERS]
            positions[partition] = batch[-1].offset + 1
    return found


async def until_quiet(processes: Sequence[ServiceProcess]) -> list[Counter[tuple[str, str]]]:
    """Wait until all that fell due in these processes has ended, and nothing more falls due; what they counted."""
    before: list[Counter[tuple[str, str]]] = []
    for _ in range(120):
        now = [await counts(each) for each in processes]
        if now == before and all(map(balanced, now)):
            return now
        before = now
        await asyncio.sleep(0.5)
    raise AssertionError(f"not in balance after a minute: {before}")


def balanced(counted: Counter[tuple[str, str]]) -> bool:
    due = sum(number for (_, what), number in counted.items() if what in ("matched", "resumed"))
    return due == sum(number for (_, what), number in counted.items() if what not in ("matched", "resumed"))


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.timeout(400)
async def test_three_replicas_one_killed_one_added_judge_everything_once_within_the_budget(
    tmp_path: Path, kafka_broker: Any
) -> None:
    sent = turns()
    third = len(sent) // 3
    async with AsyncExitStack() as stack:
        judge = await stack.enter_async_context(serve_judge(FaultyJudge(Faults(latency=0.3))))
        config = configuration(judge, Topics(kafka_broker.bootstrap))
        processes = [replica(tmp_path, config, number) for number in range(4)]
        for each in processes:
            stack.push_async_callback(each.end)
        first, *_, added = processes
        await asyncio.gather(*(each.start() for each in processes[:3]))
        async with open_logs(LogSettings.model_validate(config["log"])) as logs:
            await send(logs.turns, sent[:third])
            await until_at_work(first)
            await send(logs.turns, sent[third : 2 * third])
            await first.kill()
            await asyncio.gather(added.start(), send(logs.turns, sent[2 * third :]))
            await until_judged(logs.evaluations, len(FREE) * len(sent))
            counted = await until_quiet(processes[1:])
            ledger = await news(logs.evaluations, [0] * PARTITIONS)
        assert [await each.stop() for each in processes[1:]] == [0, 0, 0]
    assert_all_once(ledger, sent)
    assert_within_budget(ledger, counted)


def assert_all_once(ledger: list[Evaluation], sent: list[Turn]) -> None:
    assert Counter(each.evaluation_id for each in ledger).most_common(1)[0][1] == 1
    for evaluator in FREE:
        judged = [each for each in ledger if each.evaluator == evaluator]
        assert sorted(each.subject.turn_id or "" for each in judged) == sorted(each.turn_id for each in sent)
        assert {each.outcome for each in judged} == {"scored"}


def assert_within_budget(ledger: list[Evaluation], counted: list[Counter[tuple[str, str]]]) -> None:
    costly = [each for each in ledger if each.evaluator == "costly"]
    calls = [each.cost_usd for each in costly if each.cost_usd]
    assert calls, "something is judged"
    assert sum(calls) <= USD_PER_HOUR + 4 * max(calls), "each of four processes may pass its share by a call"
    assert {each.reason for each in costly if not each.cost_usd} <= {"over_budget"}
    assert all(0.0 < each.sampling.probability <= 1.0 for each in costly), "a start judges all, for a minute's money"
    assert sum(each["costly", "sampled_out"] for each in counted) > 0
