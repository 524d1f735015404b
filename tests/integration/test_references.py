"""References over HTTP, from files and topics: joined with their turns before, with and after them, once each."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections import Counter
from collections.abc import AsyncIterator
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

from collector.config.loading import load
from collector.logs.log import Record
from collector.records.json import turn_to_json
from collector.service.app import Running, running
from evaluators.cases import Turn
from evaluators.results import Evaluation

TOKENS = {name: f"a-token-of-{name}-0123456789" for name in ("team-a", "team-b")}


def turn(n: int, **changes: Any) -> Turn:
    values: dict[str, Any] = {
        "turn_id": f"t{n}",
        "conversation_id": f"c{n}",
        "trace_id": f"{n + 1:032x}",
        "response_id": f"chatcmpl-{n}",
        "ended_at": datetime.now(UTC),
        "input": f"What is {n}?",
        "actual_output": f"{n}",
    }
    return Turn(**(values | changes))


def record(case: Turn) -> Record:
    return Record((case.conversation_id or "").encode(), turn_to_json(case))


def settings_of(world: World, *, wait: str = "1h", **receive: Any) -> dict[str, Any]:
    return {
        "receive": {"otlp_http": {"port": 0}} | receive,
        "evaluators": {
            "exact": {"kind": "exact_match"},
            "tools": {"kind": "tool_calls"},
            "short": {"kind": "length", "maximum": 9},
            "closed": {"kind": "outcome", "outcome": "ticket_reopened", "good": [False]},
        },
        "monitors": {"all": {"evaluators": ["exact", "tools", "short", "closed"], "references": {"wait": wait}}},
    }


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with a_world(tmp_path, {"path": str(tmp_path / "evalstream.db")}) as world:
        yield world


@asynccontextmanager
async def serving(world: World) -> AsyncIterator[Running]:
    async with running(load(world.folder / "evalstream.yaml"), {"receive", "evaluate", "export"}) as service:
        yield service


async def post(url: str, *documents: Any, token: str = "") -> tuple[int, Any]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with aiohttp.ClientSession() as session:
        body = json.dumps(documents[0] if len(documents) == 1 else list(documents)).encode()
        async with session.post(f"{url}/v1/references", data=body, headers=headers) as response:
            return response.status, await response.json(content_type=None)


def of(ledger: list[Evaluation], evaluator: str) -> dict[str, Evaluation]:
    found = [each for each in ledger if each.evaluator == evaluator]
    assert len({each.subject.turn_id for each in found}) == len(found), "each once"
    return {each.subject.turn_id or "": each for each in found}


async def test_before_with_and_after_by_every_id_and_twice(world: World) -> None:
    world.configure(**settings_of(world))
    references = [
        {"turn_id": "t0", "expected_output": "0", "expected_tools": [], "outcomes": {"ticket_reopened": False}},
        {"trace_id": f"{2:032X}", "expected_output": "one", "expected_tools": [{"name": "prices"}]},
        {"response_id": "chatcmpl-2", "expected_output": "2"},
        {"conversation_id": "c3", "expected_output": "3", "outcomes": {"ticket_reopened": True}},
        {"turn_id": "t4", "trace_id": f"{99:032x}", "expected_output": "of no turn"},
    ]
    async with serving(world) as service:
        url = f"http://127.0.0.1:{service.otlp_port}"
        assert await post(url, *references[:2]) == (200, {"accepted": 2})
        await service.logs.turns.append([record(turn(n)) for n in range(6)])
        await service.logs.turns.append([record(turn(5, turn_id="t6", expected_output="5"))])
        assert await post(url, *references[2:]) == (200, {"accepted": 3})
        assert await post(url, *references) == (200, {"accepted": 5})
        ledger = await world.until(lambda found: len(found) >= 7 + 5 + 2 + 2)
        async with asyncio.timeout(20):
            while value(service, "evalstream_references_total", outcome="duplicate") < 5:
                await asyncio.sleep(0.05)
        assert value(service, "evalstream_references_total", outcome="received") == 5
        assert value(service, "evalstream_references_total", outcome="joined") == 4
        assert value(service, "evalstream_references_awaited") == 2 + 5 + 5  # exact of t4, t5; tools and closed of most
        for name in ("exact", "tools", "closed", "short"):
            due = value(service, "evalstream_evaluations_due_total", evaluator=name)
            assert due == value(service, "evalstream_evaluations_ended_total", evaluator=name), name
    assert {name: each.score for name, each in of(ledger, "exact").items()} == {
        "t0": 1.0, "t1": 0.0, "t2": 1.0, "t3": 1.0, "t6": 1.0,
    }  # fmt: skip
    assert {name: each.score for name, each in of(ledger, "tools").items()} == {"t0": 1.0, "t1": 0.0}
    assert {name: each.score for name, each in of(ledger, "closed").items()} == {"t0": 1.0, "t3": 0.0}
    assert len(of(ledger, "short")) == 7, "what needs no reference does not wait"


async def test_what_never_comes_is_skipped_counted_and_can_be_made_later(world: World) -> None:
    world.configure(**settings_of(world, wait="1s"))
    async with serving(world) as service:
        await service.logs.turns.append([record(turn(n)) for n in range(2)])
        ledger = await world.until(lambda found: len(found) == 8)
        assert {each.reason for each in of(ledger, "exact").values()} == {"reference_missing: expected_output"}
        assert {each.reason for each in of(ledger, "closed").values()} == {"reference_missing: outcome.ticket_reopened"}
        assert value(service, "evalstream_references_missing_total", evaluator="exact") == 2
        ended = "evalstream_evaluations_ended_total"
        assert value(service, ended, evaluator="exact", outcome="skipped", reason="reference_missing") == 2
        url = f"http://127.0.0.1:{service.otlp_port}"
        assert (await post(url, {"turn_id": "t1", "expected_output": "1"}))[0] == 200
        done = await world.command("rejudge", "--evaluator", "exact")
        assert "made 1 of 1 (1 scored)" in done.stdout, done.output
        assert "1 evaluation left out: no reference has come" in done.stdout
        due = "evalstream_evaluations_due_total"
        origins = {name: value(service, due, evaluator="exact", origin=name) for name in ("retried", "backfilled")}
        assert origins == {"retried": 1, "backfilled": 0}, "it replaces the skip"
        async with asyncio.timeout(30):
            while value(service, "evalstream_evaluations_backfilled_total", evaluator="exact") < 1:
                await asyncio.sleep(0.05)
        assert value(service, "evalstream_evaluations_replaced_total", evaluator="exact") == 0, (
            "no alert counts this skip"
        )
        await world.until_drained()
    scored = [each for each in await world.ledger() if each.evaluator == "exact" and each.score is not None]
    assert [(each.subject.turn_id, each.score) for each in scored] == [("t1", 1.0)]


async def test_a_tenants_reference_joins_its_own_turns_alone(world: World) -> None:
    tenants = [{"name": name, "token": token} for name, token in TOKENS.items()]
    world.configure(**settings_of(world, otlp_http={"port": 0, "auth": {"tenants": tenants}}))
    from collector.records.tenants import in_tenant

    async with serving(world) as service:
        url = f"http://127.0.0.1:{service.otlp_port}"
        assert (await post(url, {"turn_id": "t0", "expected_output": "0"}))[0] == 401
        for name in ("turn_id", "conversation_id", "trace_id"):
            ids = {"turn_id": "t0", "conversation_id": "c0", "trace_id": f"{1:032x}"}
            document = {name: ids[name], "expected_output": "0"}
            assert (await post(url, document, token=TOKENS["team-a"]))[0] == 200
        for name in TOKENS:
            mine = in_tenant(turn(0), name)
            await service.logs.turns.append([record(mine)])
        ledger = await world.until(lambda found: len(found) == 3)
        await asyncio.sleep(0.2)
    [exact] = [each for each in ledger if each.evaluator == "exact"]
    assert exact.subject.turn_id == "evalstream.tenant/team-a/t0"


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"expected_output": "0"}, "a reference names a turn or a conversation"),
        ({"turn_id": "t0"}, "a reference says something"),
        ({"turn_id": "t0", "expected_ouput": "0"}, "unknown key 'expected_ouput'; did you mean 'expected_output'?"),
        ({"turn_id": 7, "expected_output": "0"}, "turn_id: a text of 1 to 1000 characters"),
        ({"turn_id": "t0", "expected_output": 7}, "expected_output"),
        ({"turn_id": "t0", "outcomes": {"x": [1]}}, "outcomes: a value is a number"),
        ("t0", "not a reference: an object is needed"),
        ({"turn_id": "t0", "expected_tools": [{"name": "f", "arguments": nested(70)}]}, "nested deeper than 64"),
    ],
)
async def test_what_is_no_reference_is_refused_whole(document: Any, message: str, world: World) -> None:
    world.configure(**settings_of(world))
    async with serving(world) as service:
        url = f"http://127.0.0.1:{service.otlp_port}"
        status, answer = await post(url, {"turn_id": "t0", "expected_output": "0"}, document)
        assert status == 400
        assert message in answer["message"], answer
        assert "reference 2 of 2" in answer["message"]
        assert [batch async for batch in service.logs.turns.read(0, 0)] == [], "all or nothing"


async def test_references_are_redacted_like_turns_and_read_from_files(world: World, tmp_path: Path) -> None:
    file = tmp_path / "known.references.jsonl"
    file.write_text('{"turn_id": "t0", "expected_output": "Write to ann@example.com"}\n')
    settings = settings_of(world, files=[str(file)])
    world.configure(**settings, redact={"enabled": True})
    async with serving(world) as service:
        async with asyncio.timeout(20):
            while not (stored := [each async for batch in service.logs.turns.read(0, 0) for each in batch]):
                await asyncio.sleep(0.05)
    assert b"ann@example.com" not in stored[0].value
    assert orjson.loads(stored[0].value)["expected_output"].startswith("Write to ")


async def test_check_says_who_waits_and_who_never_can(world: World) -> None:
    settings = settings_of(world)
    world.configure(**settings)
    shown = (await world.command("check", "-v")).stdout
    assert "- exact (exact_match): each turn (waits up to 1 h for references), without a judge" in " ".join(
        shown.split()
    )
    assert "- short (length in words): each turn, without a judge" in shown
    notes = [line for line in shown.splitlines() if line.startswith("note ")]
    assert notes == ["note       no evaluator asks the judge main"], shown
    world.configure(**settings | {"monitors": {"all": {"evaluators": ["exact", "closed"]}}})
    shown = (await world.command("check")).stdout
    assert "exact of monitor all needs expected_output, which traces lack" in shown
    assert "closed of monitor all needs outcome.ticket_reopened" in shown
    world.configure(**settings | {"monitors": {"all": {"evaluators": ["short"], "references": {}}}})
    assert "monitors.all.references does nothing" in (await world.command("check")).stdout


async def killed_while_they_wait(world: World, settings: dict[str, Any]) -> None:
    """Turns and references, each half before a kill and half after it; everything once."""
    process = ServiceProcess(world.folder, world.settings | settings, ["--stages", "receive,assemble,evaluate,export"])
    number = 12
    try:
        await process.start()
        await say(process, [n for n in range(number - 1) if n % 2])
        await put_turns(world, range(number))
        await world.until(lambda found: len(of(found, "short")) == number)
        await process.kill()
        await process.start()
        await say(process, range(number - 1))
        await process.kill()
        await process.start()
        await say(process, range(0, number - 1, 3))
        ledger = await world.until(lambda found: len(of(found, "exact")) == number - 1)
        assert await process.stop() == 0
    finally:
        await process.end()
    assert Counter(each.evaluation_id for each in ledger).most_common(1)[0][1] == 1
    assert {each.score for each in of(ledger, "exact").values()} == {1.0}


async def say(process: ServiceProcess, numbers: Any) -> None:
    """By trace id, so that every partition has a copy; sent again until it is taken."""
    for n in numbers:
        async with asyncio.timeout(60):
            while (await post(process.url, {"trace_id": f"{n + 1:032x}", "expected_output": f"{n}"}))[0] != 200:
                await asyncio.sleep(0.2)


async def put_turns(world: World, numbers: range) -> None:
    from collector.service.open_logs import open_logs

    async with open_logs(load(world.folder / "evalstream.yaml").settings.log) as logs:
        await logs.turns.append([record(turn(n)) for n in numbers])


@pytest.mark.long
@pytest.mark.timeout(240)
async def test_kills_while_they_wait(world: World) -> None:
    await killed_while_they_wait(world, settings_of(world))


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.timeout(400)
async def test_kills_on_kafka_and_a_source_topic(kafka_broker: Any, tmp_path: Path) -> None:
    topics = {
        "bootstrap_servers": [kafka_broker.bootstrap],
        "prefix": f"references-{uuid.uuid4().hex[:8]}",
        "partitions": 3,
        "group_instance_id": "one",
    }
    source = f"known-{uuid.uuid4().hex[:8]}"

    def make_topic() -> None:
        admin = KafkaAdminClient(bootstrap_servers=kafka_broker.bootstrap)
        admin.create_topics({source: {"num_partitions": 2, "replication_factor": 1}}, wait_for_metadata=True)
        admin.close()

    async with a_world(tmp_path, {"kind": "kafka", "kafka": topics}) as world:
        await killed_while_they_wait(world, settings_of(world))
        await asyncio.to_thread(make_topic)
        brokers = [kafka_broker.bootstrap]
        from_topic = settings_of(world, kafka=[{"bootstrap_servers": brokers, "references": [source]}])
        world.configure(**from_topic)
        lines = [orjson.dumps({"response_id": f"chatcmpl-{n}", "expected_output": f"{n}"}) for n in range(20, 26)]
        await produce(kafka_broker, source, [{"value": lines[0] + b"\n" + lines[1]}, {"value": lines[2]}])
        async with serving(world) as service:
            await service.logs.turns.append([record(turn(n)) for n in range(20, 26)])
            await produce(kafka_broker, source, [{"value": each} for each in (*lines[3:], *lines, b"no")])
            ledger = await world.until(lambda found: len(of(found, "exact")) == 11 + 6)
            async with asyncio.timeout(30):
                while value(service, "evalstream_dead_letters_total", stage="receive") < 1:
                    await asyncio.sleep(0.1)
            assert value(service, "evalstream_references_total", outcome="joined") == 6
        assert {each.score for each in of(ledger, "exact").values()} == {1.0}
