"""`assemble.keep: wanted` at every receiver, and when the configuration changes while the service runs."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from aiohttp import ClientSession
from kafka_logs import produce
from made_up import Trace, chat
from stand_in_judge import serve_judge
from test_live_configuration import ConfigFile, look, value
from test_otlp_grpc import TRACES
from topics import Topics

from collector.config.loading import load
from collector.evaluate.sampling.draw import draw, keyed_salt
from collector.logs.log import Log, StoredRecord
from collector.records.json import evaluation_from_json, turn_from_json
from collector.records.noted_turns import has_note
from collector.records.shared_records import divide_records
from collector.service.app import Running, running
from evaluators.cases import Turn
from evaluators.results import Evaluation

KEY = "0" * 64
SALT = keyed_salt(KEY, "evalstream")

RATE = 0.3
TALKS = tuple(f"talk-{number}" for number in range(30))
WANTED = frozenset(name for name in TALKS if draw(SALT, name) < RATE)


def spans(talks: Sequence[str], first: int = 1, start: int | None = None) -> bytes:
    """A request with a plain call of each conversation, in a trace of its own, at a time in nanoseconds or now."""
    traces = [
        Trace(f"{number:032x}", start=start or time.time_ns())
        .span(1, "POST /chat")
        .span(2, "chat", chat("Are you open?", "Yes, until ten.", **{"gen_ai.conversation.id": talk}), parent=1)
        for number, talk in enumerate(talks, first)
    ]
    for each in traces[1:]:
        traces[0].spans.MergeFrom(each.spans)
    return traces[0].spans.SerializeToString()


class WantedFile(ConfigFile):
    """A configuration that judges a share of the conversations, and keeps what was said in those alone."""

    def __init__(self, folder: Path, url: str, receive: Mapping[str, Any], rate: float = RATE) -> None:
        super().__init__(folder, url)
        criteria = {"judge": "main", "criteria": "Is the assistant kind?"}
        self.values |= {
            "receive": receive,
            "assemble": {"idle_timeout": "500ms", "allowed_lateness": "30s"},
            "evaluators": {
                "helpful": {"kind": "g_eval", "evaluation_params": ["input", "actual_output"], **criteria},
                "kind": {"kind": "conversational_g_eval", **criteria},
            },
            "monitors": {"all": {"evaluators": ["helpful", "kind"], "sample": rate, "idle_timeout": "5s"}},
        }
        self.write()


async def records_of(log: Log) -> list[StoredRecord]:
    found = [each for number in range(log.partitions) async for batch in log.read(number, 0) for each in batch]
    return [each for each in divide_records(found) if not each.is_tick]


async def turns_of(service: Running) -> list[Turn]:
    return [turn_from_json(each.value) for each in await records_of(service.logs.turns) if not each.headers]


async def until_turns(service: Running, count: int) -> list[Turn]:
    async with asyncio.timeout(60):
        while len(turns := await turns_of(service)) < count:
            await asyncio.sleep(0.05)
    return turns


async def post(service: Running, body: bytes) -> None:
    headers = {"Content-Type": "application/x-protobuf"}
    url = f"http://127.0.0.1:{service.otlp_port}/v1/traces"
    async with ClientSession() as session, session.post(url, data=body, headers=headers) as response:
        assert response.status == 200


async def call(service: Running, body: bytes) -> None:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{service.grpc_port}") as channel:
        await channel.unary_unary(TRACES)(body)


async def nothing(_service: Running, _body: bytes) -> None: ...


Send = Callable[[Running, bytes], Awaitable[None]]
LOOPBACK = {"host": "127.0.0.1", "port": 0}


@pytest.mark.parametrize(
    ("receive", "send"),
    [({"otlp_http": LOOPBACK}, post), ({"otlp_grpc": LOOPBACK}, call), ({"files": ["traces.pb"]}, nothing)],
    ids=["http", "grpc", "file"],
)
async def test_what_nobody_wants_is_noted_at_every_receiver(
    receive: Mapping[str, Any], send: Send, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "traces.pb").write_bytes(spans(TALKS))
    await assert_noted(WantedFile(tmp_path, "http://127.0.0.1:9/v1", receive), send)


@pytest.mark.kafka
async def test_what_nobody_wants_is_noted_out_of_kafka(tmp_path: Path, kafka_broker: Any) -> None:
    topics = Topics(kafka_broker.bootstrap)
    await produce(kafka_broker, f"{topics.name}.otlp_spans", [{"value": spans(TALKS), "partition": 0}])
    await assert_noted(WantedFile(tmp_path, "http://127.0.0.1:9/v1", {"kafka": [topics.source_settings()]}), nothing)


async def assert_noted(file: WantedFile, send: Send) -> None:
    async with running(load(file.path), {"receive", "assemble"}) as service:
        await send(service, spans(TALKS))
        turns = await until_turns(service, len(TALKS))
        pieces = await records_of(service.logs.spans)
    assert Counter(has_note(each.value) for each in pieces) == {True: len(TALKS) - len(WANTED), False: len(WANTED)}
    assert all(b"until ten" in each.value for each in pieces), "the spans log has all that was said"
    assert Counter(each.conversation_id for each in turns) == Counter(TALKS)
    for each in turns:
        assert (each.incomplete, each.input) == (
            (None, "Are you open?") if each.conversation_id in WANTED else ("unwanted", None)
        )


UNWANTED = sorted(TALKS, key=lambda name: draw(SALT, name))[-20:]
ONE_BEFORE, TWO_BEFORE, NONE_BEFORE = UNWANTED[:6], UNWANTED[6:12], UNWANTED[12:]
BEFORE = (*ONE_BEFORE, *TWO_BEFORE, *TWO_BEFORE)


def raise_rate(file: WantedFile) -> None:
    file.change(lambda values: values["monitors"]["all"].update(sample=1.0))


async def test_a_rate_that_is_raised_counts_for_turns_from_then_on(tmp_path: Path) -> None:
    """From 1 to 100 % while it runs: what the evaluate stage has passed over is in no conversation, as ever."""
    async with serve_judge() as url:
        file = WantedFile(tmp_path, url, {"otlp_http": LOOPBACK}, rate=0.01)
        async with running(load(file.path), path=file.path) as service:
            await post(service, spans(BEFORE))
            await until_turns(service, len(BEFORE))
            await until_passed_over(service)
            raise_rate(file)
            await look(service)
            await post(service, spans(UNWANTED, first=100))
            made = await until_ended(service, 2 * len(UNWANTED))
            turns = await turns_of(service)
    after = {(each.trace_id, each.span_id) for each in turns if each.incomplete is None}
    assert len(after) == len(UNWANTED)
    assert len(turns) == len(BEFORE) + len(UNWANTED)
    assert {(each.scope, each.outcome) for each in made} == {("turn", "scored"), ("conversation", "scored")}
    for scope in ("turn", "conversation"):
        judged = [each.subject for each in made if each.scope == scope]
        assert {(each.trace_id, each.span_id) for each in judged} == after
        assert len(judged) == len(after)
    assert all(len(each.subject.links) == 1 for each in made if each.scope == "conversation")


async def test_what_waited_while_the_rate_was_raised_is_skipped(tmp_path: Path) -> None:
    """Turns were stored at 1 %, and the evaluate stage comes to them at 100 %."""
    async with serve_judge() as url:
        file = WantedFile(tmp_path, url, {"otlp_http": LOOPBACK}, rate=0.01)
        start = time.time_ns()  # of all: however long a restart takes, no conversation ends between
        async with running(load(file.path), {"receive", "assemble"}) as service:
            await post(service, spans(BEFORE, start=start))
            await until_turns(service, len(BEFORE))
        raise_rate(file)
        async with running(load(file.path), {"receive", "assemble"}) as service:
            await post(service, spans(UNWANTED, first=100, start=start))
            await until_turns(service, len(BEFORE) + len(UNWANTED))
        async with running(load(file.path), {"evaluate"}) as service:
            made = await until_ended(service, len(BEFORE) + 2 * len(UNWANTED))
    of_turns = Counter((each.outcome, each.reason) for each in made if each.scope == "turn")
    assert of_turns == {("scored", None): len(UNWANTED), ("skipped", "incomplete: unwanted"): len(BEFORE)}
    ends = {each.subject.conversation_id: (each.outcome, each.reason) for each in made if each.scope == "conversation"}
    assert {ends[each] for each in (*ONE_BEFORE, *NONE_BEFORE)} == {("scored", None)}, "at least half are whole"
    assert {ends[each] for each in TWO_BEFORE} == {("skipped", "incomplete: unwanted")}


async def until_passed_over(service: Running) -> None:
    async with asyncio.timeout(60):
        while value(service, "evalstream_turns_total", outcome="sampled_out") < len(BEFORE):
            await asyncio.sleep(0.05)


async def until_ended(service: Running, count: int) -> list[Evaluation]:
    async with asyncio.timeout(60):
        while True:
            records = await records_of(service.logs.evaluations)
            made = [evaluation_from_json(each.value) for each in records if not each.headers]
            if len(made) >= count:
                return made
            await asyncio.sleep(0.1)
