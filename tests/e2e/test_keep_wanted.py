"""`keep: wanted` in real processes: the same evaluations, scores and counters as with `keep: all`, through kills, too."""

from __future__ import annotations

import asyncio
import itertools
import random
import re
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from faulty_judge import Faults, FaultyJudge
from kafka import KafkaProducer
from made_up import Trace, chat
from payloads import WHOLE_WAY, requests
from service import ServiceProcess, until_ledger
from stand_in_judge import serve_judge
from topics import PARTITIONS, Topics

from collector.config.settings import LogSettings
from collector.evaluate.sampling.draw import draw, keyed_salt
from collector.records.json import turn_from_json
from collector.records.noted_turns import has_note
from collector.records.shared_records import divide_records, is_shared
from collector.service.open_logs import open_logs
from evaluators.cases import Turn
from evaluators.results import Evaluation

KEY = "0" * 64

RATE = 0.2
CHATS = 120


def configuration(judge: str, keep: str, *, quiet: str, evaluators: Sequence[str], **changes: Any) -> dict[str, Any]:
    return {
        "log": {"kind": "sqlite", "path": "evalstream.db"},
        "assemble": {"idle_timeout": quiet, "allowed_lateness": "30s", "keep": keep},
        "judges": {"stand-in": {"model": "stand-in", "base_url": judge}},
        "evaluators": {
            "helpful": {
                "kind": "g_eval",
                "criteria": "Does the actual output answer the input?",
                "evaluation_params": ["input", "actual_output"],
            },
            "kind": {"kind": "conversational_g_eval", "criteria": "Is the assistant kind?"},
        },
        "monitors": {"all": {"evaluators": [*evaluators], "sample": RATE, "idle_timeout": "3s"}},
    } | changes


def traffic() -> list[tuple[str, bytes]]:
    """Chats of one and two turns in spans that dialects know at a glance, and in others."""
    start = time.time_ns() - 5 * 10**9
    bodies: list[tuple[str, bytes]] = []
    for number in range(CHATS):
        trace = Trace(f"{number + 1:032x}", start=start)
        more = {"gen_ai.conversation.id": f"talk-{number % 80}"}
        trace.span(1, "POST /chat").span(2, "chat", chat(f"Question {number}?", "Yes, we are open.", **more), parent=1)
        if number % 3 == 0:
            trace.span(3, "chat", chat(f"And {number}?", "No, we are closed.", **more), parent=1)
        bodies += [(f"{each.signal}.pb", each.value) for each in trace.pieces()]
    return bodies + [(name, body) for dialect in WHOLE_WAY for name, body in requests(dialect)]


def drawn() -> set[str]:
    return {
        name for name in (f"talk-{number}" for number in range(80)) if draw(keyed_salt(KEY, "evalstream"), name) < RATE
    }


TURNS = sum((1 if number % 3 else 2) for number in range(CHATS) if f"talk-{number % 80}" in drawn())


def of_chats(ledger: Sequence[Evaluation]) -> list[Evaluation]:
    return [each for each in ledger if (each.subject.conversation_id or "").startswith("talk-")]


async def post_all(process: ServiceProcess, bodies: Sequence[tuple[str, bytes]]) -> None:
    for name, body in bodies:
        assert await process.post(name, body) == 200


async def with_known_key(log: LogSettings) -> None:
    """Put the key of the draws into the log before the service makes one, so that a test can draw, too."""
    async with open_logs(log) as logs:
        await (await logs.generated_steps()).save("draw/key", f"{KEY} 0")


def log_in(folder: Path) -> LogSettings:
    return LogSettings(kind="sqlite", path=str(folder / "evalstream.db"))


async def turns_in(log: LogSettings) -> list[Turn]:
    async with open_logs(log) as logs:
        return [
            turn_from_json(each.value)
            for partition in range(logs.turns.partitions)
            async for batch in logs.turns.read(partition, 0)
            for each in divide_records(batch)
            if each.key and not each.headers
        ]


async def saved_records(log: LogSettings) -> tuple[int, int]:
    """How many pieces of the spans log have a note, and how many records of the turns log several turns share."""
    async with open_logs(log) as logs:
        spans, turns = [
            [each for partition in range(one.partitions) async for batch in one.read(partition, 0) for each in batch]
            for one in (logs.spans, logs.turns)
        ]
    return sum(has_note(each.value) for each in divide_records(spans)), sum(map(is_shared, turns))


COUNTED = re.compile(
    r"^(evalstream_(?:turns|unmatched_turns|evaluations_due|evaluations_started|"
    r"evaluations_ended|evaluations|estimator_\w+|spans_read)_total(?:\{[^}]*\})?) (\S+)$",
    re.MULTILINE,
)


async def run(
    folder: Path, judge: str, keep: str, bodies: Sequence[tuple[str, bytes]], **changes: Any
) -> tuple[Any, Any, list[Turn]]:
    log = LogSettings.model_validate(changes["log"]) if changes else log_in(folder)
    await with_known_key(log)
    process = ServiceProcess(folder, configuration(judge, keep, quiet="3s", evaluators=("helpful",), **changes))
    await process.start()
    await post_all(process, bodies)
    await until_ledger(process, TURNS, of=of_chats)
    seen: dict[str, str] = {}
    async with asyncio.timeout(60):  # the other payloads end
        while True:
            await asyncio.sleep(2.0)
            before, seen = seen, dict(COUNTED.findall(await process.metrics()))
            if before == seen:
                break
    ledger = {
        each.evaluation_id: (each.outcome, each.reason, each.sampling, each.score) for each in await process.ledger()
    }
    assert await process.stop() == 0
    return ledger, seen, await turns_in(log)


def folders_in(folder: Path) -> list[Path]:
    """One for each way to keep turns, with its name."""
    folders = [folder / keep for keep in ("all", "wanted")]
    for each in folders:
        each.mkdir()
    return folders


@pytest.mark.long
async def test_scores_and_counters_are_those_of_keep_all(tmp_path: Path) -> None:
    bodies = traffic()
    async with serve_judge() as url:
        whole, wanted = await asyncio.gather(
            *(run(folder, url, folder.name, bodies) for folder in folders_in(tmp_path))
        )
    assert_the_same(whole, wanted)


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.timeout(240)
async def test_over_kafka_scores_and_counters_are_those_of_keep_all(tmp_path: Path, kafka_broker: Any) -> None:
    bodies = traffic()
    async with serve_judge() as url:
        whole, wanted = [
            await run(folder, url, folder.name, bodies, log=Topics(kafka_broker.bootstrap).log_settings())
            for folder in folders_in(tmp_path)
        ]
    assert_the_same(whole, wanted)


def assert_the_same(of_all: tuple[Any, Any, list[Turn]], of_wanted: tuple[Any, Any, list[Turn]]) -> None:
    (ledger, counters, whole), (other_ledger, other_counters, turns) = of_all, of_wanted
    assert other_ledger == ledger
    numbers, other_numbers = ({name: float(each) for name, each in one.items()} for one in (counters, other_counters))
    assert other_numbers == pytest.approx(numbers, rel=1e-4), "sums of several partitions, in any order, fade with time"
    assert counters['evalstream_turns_total{monitor="all",outcome="sampled_out"}'] != "0.0"
    assert len(turns) == len(whole)
    assert not any(each.incomplete == "unwanted" for each in whole)
    for each in turns:
        named = each.conversation_id or each.trace_id or ""
        assert (each.incomplete == "unwanted") == (draw(keyed_salt(KEY, "evalstream"), named) >= RATE)
        assert each.incomplete != "unwanted" or each.input is None


@pytest.mark.long
async def test_killed_again_and_again_it_judges_everything_once(tmp_path: Path) -> None:
    bodies, chance = traffic(), random.Random(1)
    async with serve_judge(FaultyJudge(Faults(latency=0.2))) as url:
        await with_known_key(log_in(tmp_path))
        process = ServiceProcess(tmp_path, configuration(url, "wanted", quiet="1s", evaluators=("helpful", "kind")))
        await process.start()
        for part in range(3):
            await post_all(process, bodies[part::3])
            await asyncio.sleep(chance.uniform(0.1, 2.0))
            await process.kill()
            await process.start()
        ledger = await until_ledger(process, TURNS + len(drawn()), within=60, of=lambda each: [
            one for one in of_chats(each) if not superseded(each, one)
        ])  # fmt: skip
        await process.stop()
    assert_judged_once(ledger, await turns_in(log_in(tmp_path)))


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.timeout(240)
async def test_over_kafka_killed_again_and_again_it_judges_everything_once(tmp_path: Path, kafka_broker: Any) -> None:
    """Out of a topic, in portions between the kills."""
    topics, chance = Topics(kafka_broker.bootstrap), random.Random(2)
    bodies = traffic()
    changes = {"log": topics.log_settings(), "receive": {"kafka": [topics.source_settings()]}}
    async with serve_judge(FaultyJudge(Faults(latency=0.2))) as url:
        settings = configuration(url, "wanted", quiet="1s", evaluators=("helpful", "kind"), **changes)
        await with_known_key(LogSettings.model_validate(changes["log"]))
        process = ServiceProcess(tmp_path, settings)
        try:
            await process.start()
            for part in range(3):
                await asyncio.to_thread(produce, topics, bodies[part::3])
                await asyncio.sleep(chance.uniform(0.1, 2.0))
                await process.kill()
                await process.start()
            ledger = await until_ledger(process, TURNS + len(drawn()), within=120, of=lambda each: [
                one for one in of_chats(each) if not superseded(each, one)
            ])  # fmt: skip
            await process.stop()
        finally:
            await process.end()
    log = LogSettings.model_validate(changes["log"])
    assert_judged_once(ledger, await turns_in(log))
    noted, together = await saved_records(log)
    assert noted > CHATS / 4
    assert together > 0


def produce(topics: Topics, bodies: Sequence[tuple[str, bytes]]) -> None:
    """As the Collector does, to all partitions."""
    producer = KafkaProducer(bootstrap_servers=topics.bootstrap, acks="all")
    for (name, body), partition in zip(bodies, itertools.cycle(range(PARTITIONS)), strict=False):
        signal = "logs" if "logs" in name else "spans"
        producer.send(f"{topics.name}.otlp_{signal}", body, partition=partition)
    producer.flush()
    producer.close()


def assert_judged_once(ledger: Sequence[Evaluation], turns: Sequence[Turn]) -> None:
    """Every turn of the chats is stored once, and all of those that are drawn are judged, once."""
    assert Counter(each.evaluation_id for each in ledger).most_common(1)[0][1] == 1
    judged = of_chats(ledger)
    assert {each.outcome for each in judged} == {"scored"}
    assert {each.subject.conversation_id for each in judged} == drawn()
    of_turns = Counter(each.subject.turn_id for each in judged if each.scope == "turn")
    assert sum(of_turns.values()) == len(of_turns) == TURNS
    stored = {(each.trace_id, each.turn_id) for each in turns}
    unwanted = {each.conversation_id for each in turns if each.incomplete == "unwanted"}
    assert unwanted.isdisjoint(drawn())
    assert {f"talk-{number}" for number in range(80)} - drawn() <= unwanted
    assert not any(each.input for each in turns if each.incomplete == "unwanted")
    chats = [trace for trace, _ in stored if trace is not None and trace.startswith("0" * 20)]
    assert Counter(chats) == {f"{number + 1:032x}": 1 if number % 3 else 2 for number in range(CHATS)}


def superseded(ledger: Sequence[Evaluation], one: Evaluation) -> bool:
    return any(one.evaluation_id in each.supersedes for each in ledger)
