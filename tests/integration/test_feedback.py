"""Feedback before, with, after and long after its turn, by OTLP, HTTP, files and topics: each once, none lost."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
from kafka.admin import KafkaAdminClient
from kafka_logs import produce
from past_world import World, a_world
from running_service import value
from service import ServiceProcess

from collector.calibration import feedback_join
from collector.config.loading import load
from collector.logs.log import Log, Record
from collector.records.feedback import JoinedFeedback, is_feedback, is_joined_feedback, parse_joined_feedback
from collector.records.json import label_from_json, turn_to_json
from collector.records.tenants import in_tenant
from collector.service.app import Running, running
from collector.service.open_logs import open_logs
from evaluators.cases import Turn
from evaluators.results import Label

TOKENS = {name: f"a-token-of-{name}-0123456789" for name in ("team-a", "team-b")}
STAGES = {"receive", "assemble", "evaluate", "export", "watch"}


def turn(n: int, **changes: Any) -> Turn:
    values: dict[str, Any] = {
        "turn_id": f"t{n}",
        "conversation_id": f"c{n}",
        "trace_id": f"{n + 1:032x}",
        "span_id": f"{n + 1:016x}",
        "response_id": f"chatcmpl-{n}",
        "ended_at": datetime.now(UTC),
        "input": f"What is {n}?",
        "actual_output": f"{n}",
    }
    return Turn(**(values | changes))


def record(case: Turn) -> Record:
    return Record((case.conversation_id or "").encode(), turn_to_json(case))


def settings_of(world: World, **changes: Any) -> dict[str, Any]:
    return {
        "receive": {"otlp_http": {"port": 0}} | changes.pop("receive", {}),
        "evaluators": {
            "short": {"kind": "length", "maximum": 9},
            "liked": {"kind": "outcome", "outcome": "feedback.thumbs", "good": [True, 1]},
        },
        "monitors": {"all": {"evaluators": ["short"]}},
        "feedback": {"names": {"thumbs": {}, "stars": {"scale": [1, 5]}}},
        "export": {"prometheus": {"port": 0}},
    } | changes


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setattr(feedback_join, "SETTLE", 0.3)
    monkeypatch.setattr(feedback_join, "SETTLE_NEARER", 1.0)
    async with a_world(tmp_path, {"path": str(tmp_path / "evalstream.db")}) as world:
        yield world


@asynccontextmanager
async def serving(world: World) -> AsyncIterator[Running]:
    async with running(load(world.folder / "evalstream.yaml"), STAGES) as service:
        yield service


async def post(url: str, *documents: Any, token: str = "") -> tuple[int, Any]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with aiohttp.ClientSession() as session:
        body = orjson.dumps(documents[0] if len(documents) == 1 else list(documents))
        async with session.post(f"{url}/v1/feedback", data=body, headers=headers) as response:
            return response.status, await response.json(content_type=None)


async def joined_in(labels: Log) -> list[JoinedFeedback]:
    return [
        parse_joined_feedback(each.value)
        for partition in range(labels.partitions)
        async for batch in labels.read(partition, 0)
        for each in batch
        if is_joined_feedback(each)
    ]


async def labels_in(labels: Log) -> list[Label]:
    return [
        label_from_json(each.value)
        for partition in range(labels.partitions)
        async for batch in labels.read(partition, 0)
        for each in batch
        if not each.headers and each.value
    ]


async def until_joined(labels: Log, enough: Callable[[list[JoinedFeedback]], bool]) -> list[JoinedFeedback]:
    async with asyncio.timeout(90):
        while not enough(found := await joined_in(labels)):
            await asyncio.sleep(0.1)
    assert Counter(each.entry.feedback_id for each in found).most_common(1)[0][1] == 1, "each once"
    return found


async def test_before_with_and_after_by_every_id_and_twice(world: World) -> None:
    world.configure(**settings_of(world))
    async with serving(world) as service:
        url, labels = f"http://127.0.0.1:{service.otlp_port}", service.logs.labels
        first = [
            {"turn_id": "t0", "name": "thumbs", "value": True, "comment": "Right."},
            {"trace_id": f"{2:032X}", "name": "stars", "value": 2},
            {"response_id": "chatcmpl-2", "label": "thumbs_down", "source": "code"},
        ]
        assert await post(url, *first) == (200, {"accepted": 3})
        await service.logs.turns.append([record(turn(n)) for n in range(7)])
        ledger = await world.until(lambda found: len(found) == 7)
        evaluation = next(each for each in ledger if each.subject.turn_id == "t5")
        later = [
            {"span_id": f"{3 + 1:016x}", "trace_id": f"{4:032x}", "name": "thumbs", "value": 1},
            {"conversation_id": "c4", "name": "csat", "value": 0.5},
            {"evaluation_id": evaluation.evaluation_id, "value": False, "author": "ann"},
            {"turn_id": "t6", "conversation_id": "c5", "value": 1},
            {"turn_id": "t6", "comment": "Only words."},
        ]
        assert await post(url, *later) == (200, {"accepted": 5})
        assert await post(url, *first, *later) == (200, {"accepted": 8})
        found = await until_joined(labels, lambda found: len(found) == 7)
        async with asyncio.timeout(20):
            while value(service, "evalstream_feedback_verdicts_total") < 7:
                await asyncio.sleep(0.05)
        assert value(service, "evalstream_feedback_total", outcome="joined") == 7
        assert value(service, "evalstream_feedback_total", outcome="duplicate") == 8
        assert value(service, "evalstream_feedback_waiting") == 1, "t6 in c5 is of no turn"
        assert value(service, "evalstream_feedback_wy_total", feedback="stars") == 0.25
        assert value(service, "evalstream_feedback_wy_total", feedback="thumbs") == 2.0
        assert value(service, "evalstream_feedback_verdicts_total", verdict="none") == 1
        assert await labels_in(labels) == [], "a user's feedback is about the turn, and no label of a score"
    assert {each.subjects[0].turn_id: each.score for each in found} == {
        "t0": 1.0, "t1": 0.25, "t2": 0.0, "t3": 1.0, "t4": 0.5, "t5": 0.0, "t6": None,
    }  # fmt: skip


async def test_what_finds_nothing_is_counted_once_and_not_again_after_a_restart(world: World) -> None:
    world.configure(**settings_of(world, feedback={"wait": "1s"}))
    async with serving(world) as service:
        url = f"http://127.0.0.1:{service.otlp_port}"
        assert (await post(url, {"turn_id": "never", "value": 1}))[0] == 200
        [joined] = await until_joined(service.logs.labels, bool)
        assert (joined.outcome, joined.subjects) == ("unmatched", ())
        assert value(service, "evalstream_feedback_total", outcome="unmatched") == 1
    async with serving(world) as service:
        await asyncio.sleep(2.5)
        assert len(await joined_in(service.logs.labels)) == 1


async def test_experts_feedback_of_an_evaluation_is_a_label_where_experts_are_believed(world: World) -> None:
    tenants = [{"name": name, "token": token} for name, token in TOKENS.items()]
    receive = {"otlp_http": {"port": 0, "auth": {"tenants": tenants}}}
    world.configure(**settings_of(world, receive=receive, feedback={"experts": ["team-a"]}))
    async with serving(world) as service:
        url, labels = f"http://127.0.0.1:{service.otlp_port}", service.logs.labels
        await service.logs.turns.append([record(in_tenant(turn(n), name)) for n, name in enumerate(TOKENS)])
        ledger = await world.until(lambda found: len(found) == 2)
        [mine] = [each for each in ledger if "team-a" in each.subject.conversation_id]
        said = {"evaluation_id": mine.evaluation_id, "source": "expert", "value": 0.25, "author": "ann"}
        assert (await post(url, said))[0] == 401
        status, answer = await post(url, said, token=TOKENS["team-b"])
        assert (status, "feedback.experts" in answer["message"]) == (403, True)
        assert (await post(url, said | {"source": "user"}, token=TOKENS["team-b"]))[0] == 200
        assert (await post(url, {"turn_id": "t0", "value": 1}, token=TOKENS["team-b"]))[0] == 200
        assert (await post(url, said, token=TOKENS["team-a"]))[0] == 200
        found = await until_joined(labels, bool)
        await asyncio.sleep(1.5)
        found = await joined_in(labels)
        [label] = await labels_in(labels)
    assert [each.entry.source for each in found] == ["expert"], "nothing of team-b speaks of team-a's"
    assert (label.score, label.given_by, label.judge_score, label.label_probability) == (0.25, "ann", mine.score, None)


async def test_an_evaluator_that_asks_for_feedback_gets_it(world: World) -> None:
    monitors = {"all": {"evaluators": ["short", "liked"], "references": {"wait": "1h"}}}
    world.configure(**settings_of(world, monitors=monitors))
    async with serving(world) as service:
        url = f"http://127.0.0.1:{service.otlp_port}"
        await service.logs.turns.append([record(turn(n)) for n in range(2)])
        assert (await post(url, {"turn_id": "t0", "name": "thumbs", "value": True}))[0] == 200
        assert (await post(url, {"turn_id": "t1", "name": "thumbs", "value": False}))[0] == 200
        assert (await post(url, {"turn_id": "t1", "name": "stars", "value": 5}))[0] == 200
        ledger = await world.until(lambda found: len(found) == 4)
    assert {each.subject.turn_id: each.score for each in ledger if each.evaluator == "liked"} == {"t0": 1.0, "t1": 0.0}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"value": 1}, "feedback names what it is about"),
        ({"turn_id": "t0"}, "feedback says something"),
        ({"turn_id": "t0", "valeu": 1}, "unknown key 'valeu'; did you mean 'value'?"),
        ({"turn_id": 7, "value": 1}, "turn_id: a text of 1 to 1000 characters"),
        ({"trace_id": "0" * 32, "value": 1}, "trace_id: all zeros, OpenTelemetry's id outside of a span"),
        ({"evaluation_id": "nonsense", "value": 1}, "evaluation_id: the id of a score of evalstream is needed, 32 hex"),
        ({"turn_id": "t0", "value": [1]}, "value: a number"),
        ({"turn_id": "t0", "value": 1e300}, "value: a number"),
        ({"turn_id": "t0", "comment": "x" * 4001}, "comment: a text of 1 to 4000"),
        ({"turn_id": "t0", "value": 1, "source": "root"}, "source: one of user, expert, code"),
        ({"turn_id": "t0", "value": 1, "source": "expert"}, "feedback.experts"),
        ({"turn_id": "t0", "name": "stars", "value": 9}, "value: 9 is not on the scale of stars, 1 to 5; send"),
        ({"turn_id": "t0", "source": "expert", "label": "disagre"}, "label: did you mean 'disagree'?"),
        ("t0", "not feedback: an object is needed"),
    ],
)
async def test_what_is_no_feedback_is_refused_whole(document: Any, message: str, world: World) -> None:
    world.configure(**settings_of(world))
    async with serving(world) as service:
        url = f"http://127.0.0.1:{service.otlp_port}"
        status, answer = await post(url, {"turn_id": "t0", "value": 1}, document)
        assert status in (400, 403)
        assert message in answer["message"], answer
        assert [batch async for batch in service.logs.labels.read(0, 0)] == [], "all or nothing"


@pytest.mark.parametrize("store_text", [True, False])
async def test_comments_are_redacted_and_not_stored_where_no_text_is(
    world: World, tmp_path: Path, *, store_text: bool
) -> None:
    file = tmp_path / "known.feedback.jsonl"
    file.write_text('{"turn_id": "t0", "value": 1, "source": "expert", "comment": "Write to ann@example.com"}\n')
    settings = settings_of(world, receive={"files": [str(file)]})
    world.configure(**settings, redact={"enabled": True}, store_text=store_text)
    async with serving(world) as service:
        async with asyncio.timeout(20):
            while not (stored := [each async for batch in service.logs.labels.read(0, 0) for each in batch]):
                await asyncio.sleep(0.05)
    assert b"ann@example.com" not in stored[0].value
    assert orjson.loads(stored[0].value).get("comment", "").startswith("Write to ") == store_text


async def killed_while_it_waits(world: World, settings: dict[str, Any]) -> None:
    """Turns and feedback, each half before a kill and half after it; everything once."""
    process = ServiceProcess(
        world.folder, world.settings | settings, ["--stages", "receive,assemble,evaluate,export,watch"]
    )
    number = 12
    try:
        await process.start()
        await say(process, [n for n in range(number) if n % 2])
        await put_turns(world, range(number))
        await world.until(lambda found: len(found) == number)
        await process.kill()
        await process.start()
        await say(process, range(number))
        await asyncio.sleep(5.0)  # near the moment when it joins
        await process.kill()
        await process.start()
        await say(process, range(0, number, 3))
        async with open_logs(load(world.folder / "evalstream.yaml").settings.log) as logs:
            found = await until_joined(logs.labels, lambda found: len(found) == number)
        await asyncio.sleep(3.0)
        assert await process.stop() == 0
    finally:
        await process.end()
    async with open_logs(load(world.folder / "evalstream.yaml").settings.log) as logs:
        assert len(await joined_in(logs.labels)) == number, "none twice"
        stored = [
            each
            for partition in range(logs.labels.partitions)
            async for batch in logs.labels.read(partition, 0)
            for each in batch
            if is_feedback(each)
        ]
    assert len(stored) > number, "it was sent several times"
    assert sorted(each.subjects[0].turn_id or "" for each in found) == sorted(f"t{n}" for n in range(number))


async def say(process: ServiceProcess, numbers: Any) -> None:
    """Sent again until it is taken."""
    for n in numbers:
        async with asyncio.timeout(60):
            while (await post(process.url, {"trace_id": f"{n + 1:032x}", "value": n % 2}))[0] != 200:
                await asyncio.sleep(0.2)


async def put_turns(world: World, numbers: range) -> None:
    async with open_logs(load(world.folder / "evalstream.yaml").settings.log) as logs:
        await logs.turns.append([record(turn(n)) for n in numbers])


@pytest.mark.long
@pytest.mark.timeout(240)
async def test_kills_while_it_waits(world: World) -> None:
    await killed_while_it_waits(world, settings_of(world))


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.timeout(400)
async def test_kills_on_kafka_and_a_source_topic(kafka_broker: Any, tmp_path: Path) -> None:
    topics = {
        "bootstrap_servers": [kafka_broker.bootstrap],
        "prefix": f"feedback-{uuid.uuid4().hex[:8]}",
        "partitions": 3,
        "group_instance_id": "one",
    }
    source = f"said-{uuid.uuid4().hex[:8]}"

    def make_topic() -> None:
        admin = KafkaAdminClient(bootstrap_servers=kafka_broker.bootstrap)
        admin.create_topics({source: {"num_partitions": 2, "replication_factor": 1}}, wait_for_metadata=True)
        admin.close()

    async with a_world(tmp_path, {"kind": "kafka", "kafka": topics}) as world:
        await killed_while_it_waits(world, settings_of(world))
        await asyncio.to_thread(make_topic)
        from_topic = {"kafka": [{"bootstrap_servers": [kafka_broker.bootstrap], "feedback": [source]}]}
        world.configure(**settings_of(world, receive=from_topic))
        lines = [orjson.dumps({"response_id": f"chatcmpl-{n}", "value": 1}) for n in range(20, 26)]
        await produce(kafka_broker, source, [{"value": lines[0] + b"\n" + lines[1]}, {"value": lines[2]}])
        async with serving(world) as service:
            await service.logs.turns.append([record(turn(n)) for n in range(20, 26)])
            await produce(kafka_broker, source, [{"value": each} for each in (*lines[3:], *lines, b"no")])
            await until_joined(service.logs.labels, lambda found: len(found) == 12 + 6)
            async with asyncio.timeout(30):
                while value(service, "evalstream_dead_letters_total", stage="receive") < 1:
                    await asyncio.sleep(0.1)
