"""Feedback in six dialects, by HTTP and in ready-made turns, before, with, after and long after its turn, while the
service is killed: each once, none lost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import orjson
import pytest
from feedback_forms import DIALECTS, with_feedback
from made_up import Trace
from past_world import World, a_world
from service import ServiceProcess

from collector.config.loading import load
from collector.logs.log import Log
from collector.records.feedback import JoinedFeedback, is_joined_feedback, parse_joined_feedback
from collector.service.open_logs import open_logs

WHEN = ("before", "with", "after", "long after")
CASES = [(dialect, when) for dialect in (*DIALECTS, "http") for when in WHEN]
READY_MADE = 4
STAGES = "receive,assemble,evaluate,export,watch"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with a_world(tmp_path, {"path": str(tmp_path / "evalstream.db")}) as world:
        yield world


def trace_id(number: int) -> str:
    return f"{number + 1:032x}"


def asked(number: int, start: int) -> Trace:
    dialect, _ = CASES[number]
    attributes, _ = DIALECTS["otel_genai" if dialect == "http" else dialect]
    return Trace(trace_id(number), start=start).span(1, "chat", attributes, at=0.0, took=0.1)


def feedback(number: int, trace: Trace) -> Trace:
    attributes, form = DIALECTS[CASES[number][0]]
    return with_feedback(trace, form, attributes)


async def post(url: str, path: str, body: bytes, kind: str = "application/x-protobuf") -> None:
    """Send it again until it is taken."""
    async with asyncio.timeout(60), aiohttp.ClientSession() as session:
        while True:
            try:
                async with session.post(f"{url}{path}", data=body, headers={"Content-Type": kind}) as response:
                    if response.status == 200:
                        return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.1)


async def send(process: ServiceProcess, trace: Trace) -> None:
    for piece in trace.pieces():
        await post(process.url, f"/v1/{piece.signal}", piece.value)


async def say(process: ServiceProcess, number: int, start: int) -> None:
    """The feedback by itself, without its turn."""
    if CASES[number][0] == "http":
        body = orjson.dumps({"trace_id": trace_id(number), "name": "thumbs", "value": 1.0})
        await post(process.url, "/v1/feedback", body, "application/json")
    else:
        await send(process, feedback(number, Trace(trace_id(number), start=start)))


async def say_turn(process: ServiceProcess, number: int, start: int) -> None:
    """The turn, with its feedback where that comes with it."""
    dialect, when = CASES[number]
    trace = asked(number, start)
    await send(process, feedback(number, trace) if when == "with" and dialect != "http" else trace)
    if when == "with" and dialect == "http":
        await say(process, number, start)


def numbers(when: str) -> Iterator[int]:
    yield from (number for number, (_, each) in enumerate(CASES) if each == when)


async def joined_in(labels: Log) -> list[JoinedFeedback]:
    return [
        parse_joined_feedback(each.value)
        for partition in range(labels.partitions)
        async for batch in labels.read(partition, 0)
        for each in batch
        if is_joined_feedback(each)
    ]


async def stopped(process: ServiceProcess) -> None:
    await process.kill()
    await process.start()


@pytest.mark.long
@pytest.mark.timeout(400)
async def test_feedback_of_every_way_and_time_joins_once_through_kills(world: World) -> None:
    file = world.folder / "chats.jsonl"
    turns = [
        {"turn_id": f"made-{n}", "input": "Open?", "actual_output": "Yes.", "feedback": [{"name": "thumbs", "value": n % 2}]}
        for n in range(READY_MADE)
    ]  # fmt: skip
    file.write_bytes(b"\n".join(map(orjson.dumps, turns)))
    settings = {
        "receive": {"otlp_http": {"port": 0}, "files": [str(file)]},
        "assemble": {"idle_timeout": "1s", "allowed_lateness": "3s"},
        "evaluators": {"short": {"kind": "length", "maximum": 9}},
        "monitors": {"all": {"evaluators": ["short"]}},
        "export": {"prometheus": {"port": 0}},
    }
    process = ServiceProcess(world.folder, world.settings | settings, ["--stages", STAGES])
    start = time.time_ns()
    expected = len(CASES) + READY_MADE
    try:
        await process.start()
        for number in numbers("before"):
            await say(process, number, start)
        await stopped(process)
        for number in range(len(CASES)):
            await say_turn(process, number, start)
            if number == len(CASES) // 2:
                await stopped(process)
        await stopped(process)
        for number in numbers("after"):
            await say(process, number, start)
        await asyncio.sleep(5.0)  # traces are assembled, and forgotten after they lingered
        await stopped(process)
        for number in numbers("long after"):
            await say(process, number, start)
        await stopped(process)
        for number in numbers("long after"):  # a sender that heard nothing sends it again
            await say(process, number, start)
        await asyncio.sleep(5.0)  # near the moment when it joins
        await stopped(process)
        async with open_logs(load(world.folder / "evalstream.yaml").settings.log) as logs:
            async with asyncio.timeout(200):
                while len(await joined_in(logs.labels)) < expected:
                    await asyncio.sleep(0.5)
            await asyncio.sleep(3.0)
        assert await process.stop() == 0
    finally:
        await process.end()
    async with open_logs(load(world.folder / "evalstream.yaml").settings.log) as logs:
        joined = await joined_in(logs.labels)
    assert {each.outcome for each in joined} == {"joined"}
    about = sorted((each.entry.trace_id or each.entry.turn_id or "") for each in joined)
    assert about == sorted([*map(trace_id, range(len(CASES))), *(f"made-{n}" for n in range(READY_MADE))])
    assert all(len(each.subjects) == 1 for each in joined)
