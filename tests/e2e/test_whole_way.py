"""Captured payloads of real libraries through real processes: in by HTTP or Kafka, out as evaluations."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from made_up import Trace, chat
from payloads import WHOLE_WAY, exchanges, requests
from service import free_port, service, until_ledger
from stand_in_judge import serve_judge
from topics import Topics

from evaluators.results import Evaluation

EXCHANGES = exchanges()
ANSWERED = [each for each in EXCHANGES if not each["failed"]]
EVALUATORS = 2
CUT = "incomplete: no_content"


@pytest.fixture
async def judge() -> AsyncIterator[str]:
    async with serve_judge() as url:
        yield url


def configuration(judge: str, **changes: Any) -> dict[str, Any]:
    return {
        "log": {"kind": "sqlite", "path": "evalstream.db"},
        "assemble": {"idle_timeout": "1s", "allowed_lateness": "30s"},
        "judges": {"stand-in": {"model": "stand-in", "base_url": judge}},
        "evaluators": {
            "helpful": {
                "kind": "g_eval",
                "criteria": "Does the actual output answer the input?",
                "evaluation_params": ["input", "actual_output"],
                "threshold": 0.5,
            },
            "exact": {"kind": "exact_match"},
        },
        "monitors": {"all": {"evaluators": ["helpful", "exact"]}},
    } | changes


def of_whole_turns(ledger: Sequence[Evaluation]) -> list[Evaluation]:
    """Without those of turns that a trace closed with before everything of it had come.

    Spans and log records come on two ways. Where one is `idle_timeout` behind the other, on a loaded machine or after a
    kill, the first part is a turn without texts; it is skipped, and the whole turn comes when the trace closes again.
    """
    return [each for each in ledger if each.reason != CUT]


def assert_each_exchange_judged_once(ledger: list[Evaluation]) -> None:
    assert Counter(each.evaluation_id for each in ledger).most_common(1)[0][1] == 1
    scored = [each for each in ledger if each.evaluator == "helpful" and each.outcome == "scored"]
    assert sorted(each.subject.trace_id or "" for each in scored) == sorted(each["trace_ids"][0] for each in ANSWERED)
    conversations = {each["trace_ids"][0]: each["conversation_id"] for each in ANSWERED}
    assert {each.subject.trace_id: each.subject.conversation_id for each in scored} == conversations
    skipped = [each for each in of_whole_turns(ledger) if each.evaluator == "helpful" and each.outcome == "skipped"]
    assert len(skipped) == len(EXCHANGES) - len(ANSWERED)
    assert {each.reason for each in skipped} == {"application_error"}


async def judged_by_http(judge: str, folder: Path) -> list[Evaluation]:
    async with service(folder, configuration(judge)) as process:
        for dialect in WHOLE_WAY:
            for name, body in requests(dialect):
                assert await process.post(name, body) == 200
        ledger = await until_ledger(process, EVALUATORS * len(EXCHANGES), of=of_whole_turns)
        turns = float(len({each.subject.turn_id for each in ledger}))
        assert f'evalstream_turns_total{{monitor="all",outcome="sampled"}} {turns}' in await process.metrics()
    return ledger


async def test_captured_payloads_by_http_are_each_judged_once_in_the_right_trace(judge: str, tmp_path: Path) -> None:
    assert_each_exchange_judged_once(await judged_by_http(judge, tmp_path))


async def test_captured_payloads_by_grpc_are_each_judged_once(tmp_path: Path) -> None:
    port = free_port()
    config = configuration("http://127.0.0.1:9/v1", receive={"otlp_grpc": {"port": port}})
    config["monitors"]["all"]["evaluators"] = ["exact"]
    exchanged = exchanges(("openinference-openai", "otel-genai-openai-event"))
    async with service(tmp_path, config) as process, grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        for dialect in ("openinference-openai", "otel-genai-openai-event"):
            for name, body in requests(dialect):
                signal = "logs.v1.Logs" if "logs" in name else "trace.v1.Trace"
                await channel.unary_unary(f"/opentelemetry.proto.collector.{signal}Service/Export")(body)
        ledger = await until_ledger(process, len(exchanged))
        said = process.stderr.read_text()
        assert f"OTLP/gRPC on port {port}" in said
        assert await process.stop() == 0
    assert len(ledger) == len(exchanged)
    assert {each.subject.trace_id for each in ledger} == {each["trace_ids"][0] for each in exchanged}


async def test_a_conversation_ends_by_an_event_of_the_applications_own(judge: str, tmp_path: Path) -> None:
    """On a span that no dialect reads, and as a log record."""
    config = configuration(judge)
    config["evaluators"] = {"kind": {"kind": "conversational_g_eval", "criteria": "Is the assistant kind?"}}
    config["monitors"] = {
        "all": {
            "evaluators": ["kind"],
            "idle_timeout": "1d",
            "end_markers": {"events": ["conversation.ended", "session.end"]},
        }
    }
    conversations = ("by a span", "by a record", "not yet")
    traces = [Trace(f"{number + 1:032x}", start=time.time_ns()) for number in range(len(conversations))]
    for trace, conversation in zip(traces, conversations, strict=True):
        events = [("conversation.ended", {})] if conversation == "by a span" else [("saved", {})]
        trace.span(1, "POST /chat", events=events)
        trace.span(2, "chat", chat("Bye?", "Bye!", **{"gen_ai.conversation.id": conversation}), parent=1)
    traces[1].record(1, "session.end")
    async with service(tmp_path, config) as process:
        for trace in traces:
            for piece in trace.pieces():
                assert await process.post(piece.signal, piece.value) == 200
        ledger = await until_ledger(process, 2)
    assert {each.subject.conversation_id for each in ledger} == {"by a span", "by a record"}
    assert {each.attributes["closed_by"] for each in ledger} == {"explicit"}


@pytest.mark.kafka
async def test_the_same_through_kafka_gives_the_same_evaluations(judge: str, tmp_path: Path, kafka_broker: Any) -> None:
    """As the Collector's exporter writes: no keys, several traces in a message, spans and log records in topics apart."""
    topics = Topics(kafka_broker.bootstrap)
    topics.produce_payloads(WHOLE_WAY)
    changes = {"log": topics.log_settings(), "receive": {"kafka": [topics.source_settings()]}}
    async with service(make(tmp_path / "kafka"), configuration(judge, **changes)) as process:
        ledger = await until_ledger(process, EVALUATORS * len(EXCHANGES), within=90, of=of_whole_turns)
    assert_each_exchange_judged_once(ledger)
    by_http = await judged_by_http(judge, make(tmp_path / "http"))
    assert ids(of_whole_turns(ledger)) == ids(of_whole_turns(by_http))


def ids(ledger: Sequence[Evaluation]) -> set[str]:
    return {each.evaluation_id for each in ledger}


def make(folder: Path) -> Path:
    folder.mkdir()
    return folder
