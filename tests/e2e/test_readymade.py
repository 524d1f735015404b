"""Turns that producers made themselves, through real processes: out of files, and out of a Kafka topic."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from service import ServiceProcess, service
from stand_in_judge import serve_judge
from topics import Topics

from collector.commands.dead_letters import LetterFilter, redrive_letters
from collector.config.loading import load
from collector.dead_letters import letters_in
from collector.records.json import evaluation_from_json
from collector.service.open_logs import open_logs
from evaluators.results import Evaluation

MAIL = "ada@example.com"


@pytest.fixture
async def judge() -> AsyncIterator[str]:
    async with serve_judge() as url:
        yield url


def configuration(judge: str, **changes: Any) -> dict[str, Any]:
    return {
        "judges": {"stand-in": {"model": "stand-in", "base_url": judge}},
        "evaluators": {
            "exact": {"kind": "exact_match"},
            "kind": {"kind": "conversational_g_eval", "criteria": "Is the assistant kind?"},
        },
        "monitors": {"all": {"evaluators": ["exact", "kind"], "idle_timeout": "2s", "allowed_lateness": "1s"}},
        "export": {"jsonl": {"path": "scores.jsonl"}},
    } | changes


def chat(exchanges: int, name: str = "growing") -> dict[str, Any]:
    said = [
        [{"role": "user", "content": f"What is {n}? I am {MAIL}"}, {"role": "assistant", "content": f"{n} is a number"}]
        for n in range(exchanges)
    ]
    return {"id": name, "messages": list(itertools.chain(*said)), "expected_output": f"{exchanges - 1} is a number"}


TURN = {"input": "Hi", "actual_output": "Hello", "expected_output": "Hello"}
CONVERSATION = {
    "conversation_id": "whole",
    "turns": [{"input": "One?", "actual_output": "1"}, {"input": "Two?", "actual_output": "2"}, {"input": "Three?"}],
}
MESSAGES: list[Any] = [chat(1), [TURN, TURN], chat(2), TURN | {"conversation_id": "named"}, CONVERSATION]
TURNS = 2 + 2 + 1 + 3
CONVERSATIONS = 1 + 2 + 1 + 1


def assert_judged_once(ledger: list[Evaluation]) -> None:
    """Each turn, and each conversation at its end."""
    assert Counter(each.evaluation_id for each in ledger).most_common(1)[0][1] == 1
    turns = Counter(each.subject.conversation_id for each in ledger if each.evaluator == "exact")
    assert sorted(turns.values()) == [1, 1, 1, 2, 3]
    assert (turns["named"], turns["growing"], turns["whole"]) == (1, 2, 3)
    wholes = {each.subject.conversation_id: each for each in ledger if each.evaluator == "kind"}
    assert wholes.keys() == turns.keys()
    assert {each.attributes["closed_by"] for each in wholes.values()} == {"idle"}
    assert (wholes["growing"].attributes["turns"], wholes["growing"].outcome) == (2, "scored")
    assert (wholes["whole"].attributes["turns"], wholes["whole"].outcome) == (3, "scored")
    assert wholes["whole"].details["incomplete_turns"] == 1  # its answer has no text


async def counted(process: ServiceProcess, name: str, **labels: str) -> float:
    """A counter of the service, 0 where it does not count that."""
    for line in (await process.metrics()).splitlines():
        found = re.fullmatch(rf"{name}\{{(.*)\}} (\S+)", line)
        if found and dict(re.findall(r'(\w+)="(.*?)"', found[1])) == labels:
            return float(found[2])
    return 0.0


async def until_exported(process: ServiceProcess, count: int, within: float = 90.0) -> list[Evaluation]:
    """Wait until so many evaluations are in the JSONL file; then all of it."""
    path = process.folder / "scores.jsonl"
    lines: list[bytes] = []
    try:
        async with asyncio.timeout(within):
            while len(lines) < count:
                await asyncio.sleep(0.1)
                lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []  # the last may be half written
    except TimeoutError:
        said = process.stderr.read_text()[-3000:]
        raise AssertionError(f"{len(lines)} of {count} evaluations; the service said: {said}") from None
    return [evaluation_from_json(line) for line in lines]


async def test_chats_in_files_are_judged_like_traces(judge: str, tmp_path: Path) -> None:
    lines = [*MESSAGES, {"resourceSpans": []}, {"question": "Hi"}]
    (tmp_path / "chats.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    config = configuration(judge, log={"kind": "sqlite", "path": "evalstream.db"}, receive={"files": ["chats.jsonl"]})
    async with service(tmp_path, config) as process:
        ledger = await until_exported(process, TURNS + CONVERSATIONS)
        assert (
            await counted(process, "evalstream_receive_items_total", source="files", signal="turns", result="accepted")
            == TURNS
        )
        assert (
            await counted(
                process,
                "evalstream_turns_assembled_total",
                dialect="readymade",
                outcome="incomplete",
                reason="no_content",
            )
            == 1
        )
        assert await counted(process, "evalstream_drops_total", stage="receive", reason="unreadable_file") == 1
        assert await process.stop() == 0
    assert_judged_once(ledger)
    assert "chats.jsonl:7 is skipped: no OTLP request" in process.stderr.read_text()
    assert MAIL.encode() not in (tmp_path / "evalstream.db").read_bytes()


class Chats:
    """A topic that an application writes its chats into, all into one partition."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self.name = name
        self._bootstrap = bootstrap
        admin = KafkaAdminClient(bootstrap_servers=bootstrap)
        admin.create_topics({name: {"num_partitions": 3, "replication_factor": 1}})
        admin.close()

    def publish(self, *values: bytes) -> None:
        producer = KafkaProducer(bootstrap_servers=self._bootstrap, acks="all")
        for value in values:
            producer.send(self.name, value, partition=1)
        producer.flush()
        producer.close()


@pytest.mark.kafka
async def test_chats_on_a_topic_are_judged_once_and_poison_is_put_aside(
    judge: str, tmp_path: Path, kafka_broker: Any
) -> None:
    topics = Topics(kafka_broker.bootstrap)
    chats = Chats(kafka_broker.bootstrap, f"{topics.name}.chats")
    source = {"bootstrap_servers": [kafka_broker.bootstrap], "turns": [chats.name], "group": topics.name}
    config = configuration(judge, log=topics.log_settings(), receive={"kafka": [source | {"group_instance_id": "me"}]})
    config["dead_letters"] = {"keep_values": True}
    first, second, *others = (json.dumps(each).encode() for each in MESSAGES)
    chats.publish(
        first, second, b'{"input": "Hi", "anwser": "Hello"}', *others
    )  # at once: turns far apart make two chats
    async with service(tmp_path, config) as process:
        ledger = await until_exported(process, TURNS + CONVERSATIONS)
        assert (
            await counted(process, "evalstream_receive_items_total", source="kafka", signal="turns", result="accepted")
            == TURNS
        )
        assert await counted(process, "evalstream_dead_letters_total", stage="receive", reason="BadInput") == 1
    assert_judged_once(ledger)
    async with open_logs(load(process.path).settings.log) as logs:
        [letter] = [each async for each in letters_in(logs.dead_letters)]
    assert (letter.source, letter.partition, letter.position, letter.signal) == (chats.name, 1, 2, "turns")
    assert letter.reason.startswith("anwser: unknown key")
    said: list[str] = []
    assert await redrive_letters(load(process.path), LetterFilter(stage="receive"), said.append) == 1
    assert said == [f"{letter.letter_id}: {letter.reason}", "1 failed again"]

    chats.publish(json.dumps(chat(3)).encode())
    async with service(tmp_path, config) as process:
        ledger = await until_exported(process, TURNS + CONVERSATIONS + 2)
        assert (
            await counted(process, "evalstream_receive_items_total", source="kafka", signal="turns", result="ignored")
            == 2
        )
    assert sum(each.evaluator == "exact" and each.subject.conversation_id == "growing" for each in ledger) == 3
