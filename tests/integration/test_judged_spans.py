"""The judged span once more, with its scores: what comes out equals what came in, for every captured dialect."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from clickhouse_process import answers, statements
from evaluation_samples import failed, scored, skipped
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from otlp_destination import Destination
from truth import PAYLOADS, folders

from collector.assemble.fold import SideLogs
from collector.assemble.open_traces import TraceLimits
from collector.assemble.stage import AssembleStage
from collector.assemble.trace import Assembler
from collector.backoff import Backoff
from collector.dialects.registry import Dialects
from collector.export.exporter import ExportContext
from collector.export.judged_spans.destinations import KafkaSpans, to_otlp_json, to_protobuf
from collector.export.judged_spans.exporter import JudgedSpansExporter
from collector.export.judged_spans.fold import PREFIX, JudgedSpansStage
from collector.link.turn_router import TurnRouter
from collector.logs.log import TICK, Partitioner, Record, StoredRecord
from collector.logs.memory import MemoryLog
from collector.otlp.decode import read_request
from collector.otlp.own_items import SIGNATURE, OwnItems
from collector.receive.parsed_request import parse
from collector.records.json import turn_from_json
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import DROPS
from evaluators.cases import Turn
from evaluators.results import Evaluation, Subject

OWN = OwnItems(b"key of this test")
SETTINGS = {"otlp": {"endpoint": "http://127.0.0.1:9"}}


class Pipeline:
    """From requests to turns, with the log in which their spans wait for scores."""

    def __init__(self) -> None:
        self.spans, self.turns = MemoryLog("spans", 1), MemoryLog("turns", 1)
        self.judged_spans = MemoryLog("judged_spans", 1)
        self.telemetry = Telemetry()
        self.received: dict[tuple[bytes, bytes], list[ExportTraceServiceRequest]] = {}

    async def assemble(self, requests: Sequence[tuple[str, bytes]], tenant: str = "") -> list[Turn]:
        for name, body in requests:
            signal = "logs" if "logs" in name else "traces"
            records = parse(body, signal, own=OWN, tenant=tenant).records
            if signal == "traces":
                for each in records:
                    self._note(each.value)
            await self.spans.append(records)
        router, limits = TurnRouter(self.turns), TraceLimits(quiet=5.0, linger=60.0)
        stage = AssembleStage(
            Assembler(Dialects.installed()), router, limits, side_logs=SideLogs(judged_spans=self.judged_spans)
        )
        async with stage.open_fold(0, None) as fold:
            records = await self.all(self.spans)
            await fold.deliver(records)
            await fold.deliver([StoredRecord(0, len(records), records[-1].timestamp + 100.0, None, b"", TICK)])
        return [turn_from_json(each.value) for each in await self.all(self.turns)]

    def _note(self, value: bytes) -> None:
        request = ExportTraceServiceRequest.FromString(value)
        for about in request.resource_spans:
            for scope in about.scope_spans:
                for span in scope.spans:
                    alone = ExportTraceServiceRequest()
                    alone.resource_spans.add(resource=about.resource, schema_url=about.schema_url).scope_spans.add(
                        scope=scope.scope, schema_url=scope.schema_url, spans=[span]
                    )
                    self.received.setdefault((span.trace_id, span.span_id), []).append(alone)

    async def judge(self, evaluations: Sequence[Evaluation], **settings: Any) -> None:
        context = ExportContext(telemetry=self.telemetry, judged_spans=self.judged_spans)
        chosen = JudgedSpansExporter.Settings.model_validate({**SETTINGS, **settings})
        async with JudgedSpansExporter.open(chosen, context) as exporter:
            await exporter.export(evaluations)

    @staticmethod
    async def all(log: MemoryLog) -> list[StoredRecord]:
        return [record async for batch in log.read(0, 0) for record in batch]

    def stage(self, destination: Any, **changes: Any) -> JudgedSpansStage:
        options = {"remember": 3600.0, "max_bytes": 1 << 24, "explanation": True, "own": OWN, **changes}
        return JudgedSpansStage(destination, self.telemetry, **options)

    def unknown(self) -> float:
        return self.telemetry.counter(DROPS, "export_spans", "span_unknown")._value.get()


class Collected:
    """A destination that keeps requests."""

    problem = None

    def __init__(self) -> None:
        self.requests: list[ExportTraceServiceRequest] = []

    async def send(self, spans: Sequence[ExportTraceServiceRequest]) -> None:
        self.requests += spans


def of(turn: Turn, number: int = 1, **changes: Any) -> Evaluation:
    subject = Subject(conversation_id="c", turn_id=turn.turn_id, trace_id=turn.trace_id, span_id=turn.span_id)
    return scored(number, subject=subject, **changes)


def only_span(request: ExportTraceServiceRequest) -> Span:
    [about] = request.resource_spans
    [scope] = about.scope_spans
    [span] = scope.spans
    return span


def without_scores(request: ExportTraceServiceRequest) -> ExportTraceServiceRequest:
    plain = ExportTraceServiceRequest.FromString(request.SerializeToString())
    span = only_span(plain)
    for index in reversed(range(len(span.attributes))):
        if span.attributes[index].key.startswith(PREFIX) or span.attributes[index].key == SIGNATURE:
            del span.attributes[index]
    return plain


def value_of(span: Span, name: str) -> Any:
    [value] = [each.value for each in span.attributes if each.key == name]
    return getattr(value, value.WhichOneof("value"))


def requests_of(folder: str) -> list[tuple[str, bytes]]:
    return [(path.name, path.read_bytes()) for path in sorted((PAYLOADS / folder).glob("*.pb"))]


def same(written: ExportTraceServiceRequest, received: Sequence[ExportTraceServiceRequest]) -> bool:
    return without_scores(written) in received


@pytest.mark.parametrize("encoding", [to_protobuf, to_otlp_json])
@pytest.mark.parametrize("folder", folders())
async def test_for_every_dialect_the_span_is_what_came_but_for_the_scores(folder: str, encoding: Any) -> None:
    """Over a topic, in both encodings, and so over OTLP: the request is the same."""
    pipeline = Pipeline()
    turns = await pipeline.assemble(requests_of(folder))
    assert turns
    await pipeline.judge([of(turn, number) for number, turn in enumerate(turns)])
    topic = Topic(encoding)
    async with pipeline.stage(topic.destination(pipeline.telemetry)).open_fold(0, None) as fold:
        await fold.deliver(await pipeline.all(pipeline.judged_spans))
    with_span = [
        turn
        for turn in turns
        if (bytes.fromhex(turn.trace_id or ""), bytes.fromhex(turn.span_id or "")) in pipeline.received
    ]
    assert pipeline.unknown() == len(turns) - len(with_span)
    written = [read(each.value, encoding) for each in topic.records]
    assert {(only_span(each).trace_id.hex(), only_span(each).span_id.hex()) for each in written} == {
        (turn.trace_id, turn.span_id) for turn in with_span
    }
    for each in written:
        span = only_span(each)
        assert same(each, pipeline.received[span.trace_id, span.span_id])
        assert value_of(span, "gen_ai.evaluation.answers_question.score.value") == 0.75
        assert value_of(span, "gen_ai.evaluation.answers_question.score.label") == "good"
        assert value_of(span, "gen_ai.evaluation.answers_question.passed") is True


def read(value: bytes, encoding: Any) -> ExportTraceServiceRequest:
    request = read_request(value, "traces") if encoding is to_otlp_json else None
    return request or ExportTraceServiceRequest.FromString(value)  # type: ignore[return-value]


class Topic:
    """A topic that keeps what is appended, one partition after the other."""

    def __init__(self, encode: Any, largest: int = 1 << 20) -> None:
        self.records: list[Record] = []
        self.encode = encode
        self.largest = largest

    async def append(self, _topic: str, by_partition: dict[int, list[Record]], _size: int) -> None:
        for records in by_partition.values():
            self.records += records

    def destination(self, telemetry: Telemetry) -> KafkaSpans:
        return KafkaSpans(
            "judged", self.encode, self.append, Partitioner("judged", 3, self.largest), telemetry,
            backoff=Backoff(), confirm=_certain,
        )  # fmt: skip


async def _certain() -> None:
    return


@pytest.fixture
async def told() -> tuple[Pipeline, Turn]:
    pipeline = Pipeline()
    turns = await pipeline.assemble(requests_of("openinference-openai"))
    return pipeline, turns[0]


async def test_a_later_evaluation_brings_all_that_are_known_and_a_store_that_replaces_by_id_has_one_row(told) -> None:
    """ClickHouse's ReplacingMergeTree and the like: of rows with one trace and span id the last one stays."""
    pipeline, turn = told
    collected = Collected()
    rows: dict[tuple[bytes, bytes], Span] = {key: only_span(some[-1]) for key, some in pipeline.received.items()}
    before = len(rows)
    evaluations = [
        of(turn, 1),
        of(turn, 2, evaluator="polite", score=0.25, passed=False),
        replace(failed(3, evaluator="grounded"), subject=of(turn).subject),
        of(turn, 4, evaluator="grounded", score=1.0, supersedes=(f"{3:032x}",)),
        replace(skipped(5, evaluator="exact"), subject=of(turn).subject),
    ]
    offset = 0
    async with pipeline.stage(collected).open_fold(0, None) as fold:
        for evaluation in evaluations:
            await pipeline.judge([evaluation])
            records = await pipeline.all(pipeline.judged_spans)
            await fold.deliver(records[offset:])
            offset = len(records)
    for request in collected.requests:
        span = only_span(request)
        rows[span.trace_id, span.span_id] = span
    assert len(collected.requests) == 4, "a skipped one says nothing about the answer"
    assert len(rows) == before
    row = rows[bytes.fromhex(turn.trace_id or ""), bytes.fromhex(turn.span_id or "")]
    scores = {
        name: value_of(row, f"{PREFIX}.{name}.score.value") for name in ("answers_question", "polite", "grounded")
    }
    assert scores == {"answers_question": 0.75, "polite": 0.25, "grounded": 1.0}
    assert f"{PREFIX}.grounded.error.type" not in {each.key for each in row.attributes}
    assert len({each.key for each in row.attributes}) == len(row.attributes)
    third = only_span(collected.requests[2])
    assert value_of(third, f"{PREFIX}.grounded.error.type") == "judge_timeout"


async def test_after_a_restart_everything_known_before_is_known_again(told) -> None:
    pipeline, turn = told
    collected = Collected()
    await pipeline.judge([of(turn, 1)])
    async with pipeline.stage(collected).open_fold(0, None) as fold:
        first = await pipeline.all(pipeline.judged_spans)
        await fold.deliver(first)
        low = fold.low_watermark
    assert low is not None
    await pipeline.judge([of(turn, 2, evaluator="polite")])
    everything = await pipeline.all(pipeline.judged_spans)
    async with pipeline.stage(collected).open_fold(0, None) as fold:
        await fold.replay([each for each in first if each.offset >= low])
        await fold.deliver(everything[len(first) :])
    assert len(collected.requests) == 2
    names = {each.key for each in only_span(collected.requests[1]).attributes}
    assert {f"{PREFIX}.answers_question.score.value", f"{PREFIX}.polite.score.value"} <= names


async def test_what_comes_too_late_or_finds_no_room_is_counted(told) -> None:
    pipeline, turn = told
    await pipeline.judge([of(turn, 1)])
    records = await pipeline.all(pipeline.judged_spans)
    collected = Collected()
    async with pipeline.stage(collected, remember=60.0).open_fold(0, None) as fold:
        await fold.deliver(records[:-1])
        await fold.deliver([replace(records[-1], timestamp=records[-1].timestamp + 61.0)])
        assert fold.low_watermark is None
    assert (collected.requests, pipeline.unknown()) == ([], 1.0)
    async with pipeline.stage(collected, max_bytes=1).open_fold(0, None) as fold:
        await fold.deliver(records)
    assert (collected.requests, pipeline.unknown()) == ([], 2.0)


async def test_a_span_that_is_too_large_for_the_topic_is_counted_and_the_rest_goes_out(told) -> None:
    pipeline, turn = told
    await pipeline.judge([of(turn, 1)])
    topic = Topic(to_protobuf, largest=100)
    async with pipeline.stage(topic.destination(pipeline.telemetry)).open_fold(0, None) as fold:
        await fold.deliver(await pipeline.all(pipeline.judged_spans))
    assert topic.records == []
    assert pipeline.telemetry.counter(DROPS, "export_spans", "too_large")._value.get() == 1


async def test_two_tenants_with_one_trace_id_do_not_get_each_others_spans() -> None:
    pipeline = Pipeline()
    requests = requests_of("openinference-openai")
    turns = await pipeline.assemble(requests, tenant="red")
    await pipeline.judge(
        [of(turns[0], 1, attributes={"tenant": "blue"}), of(turns[0], 2, attributes={"tenant": "red"})]
    )
    collected = Collected()
    async with pipeline.stage(collected).open_fold(0, None) as fold:
        await fold.deliver(await pipeline.all(pipeline.judged_spans))
    assert [value_of(only_span(each), f"{PREFIX}.answers_question.id") for each in collected.requests] == [f"{2:032x}"]
    assert pipeline.unknown() == 1


async def test_a_written_span_that_comes_back_is_not_judged_again(told) -> None:
    pipeline, turn = told
    await pipeline.judge([of(turn, 1)])
    collected = Collected()
    async with pipeline.stage(collected).open_fold(0, None) as fold:
        await fold.deliver(await pipeline.all(pipeline.judged_spans))
    [request] = collected.requests
    parsed = parse(request.SerializeToString(), "traces", own=OWN)
    assert (parsed.accepted, parsed.self_emitted) == (0, 1)
    parsed = parse(to_otlp_json(request), "traces", "json", own=OWN)
    assert (parsed.accepted, parsed.self_emitted) == (0, 1)
    forged = only_span(request)
    forged.span_id = b"\x01" * 8
    assert parse(request.SerializeToString(), "traces", own=OWN).accepted == 1, (
        "somebody else's span is not hidden by it"
    )


async def test_over_otlp_in_requests_that_fit(told) -> None:
    pipeline, turn = told
    destination = Destination()
    async with destination.serve(), opened(pipeline, destination) as exporter:
        await exporter.export([of(turn, 1)])
        log, group, folds = exporter.second_log
        assert group == "judged_spans"
        async with folds(0, None) as fold:
            await fold.deliver(await pipeline.all(log))
    [span] = destination.spans
    assert value_of(span, f"{PREFIX}.answers_question.explanation") == "It names the price."
    assert (span.trace_id.hex(), span.span_id.hex()) == (turn.trace_id, turn.span_id)


@asynccontextmanager
async def opened(pipeline: Pipeline, destination: Destination) -> AsyncIterator[JudgedSpansExporter]:
    context = ExportContext(telemetry=pipeline.telemetry, judged_spans=pipeline.judged_spans, own=OWN)
    settings = JudgedSpansExporter.Settings.model_validate({"otlp": {"endpoint": destination.endpoint}})
    async with JudgedSpansExporter.open(settings, context) as exporter:
        yield exporter


def test_json_has_ids_in_hex_and_numbers_for_enumerations() -> None:
    body = next(iter(Path(PAYLOADS / "openinference-openai").glob("*traces.pb"))).read_bytes()
    records = parse(body, "traces").records
    request = ExportTraceServiceRequest.FromString(records[0].value)
    alone = ExportTraceServiceRequest()
    about = request.resource_spans[0]
    alone.resource_spans.add().scope_spans.add(spans=[about.scope_spans[0].spans[0]])
    only_span(alone).links.add(trace_id=b"\x01" * 16, span_id=b"\x02" * 8)
    plain = orjson.loads(to_otlp_json(alone))["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    assert plain["traceId"] == only_span(alone).trace_id.hex()
    assert plain["links"] == [{"traceId": "01" * 16, "spanId": "02" * 8}]
    assert isinstance(plain["kind"], int)


@pytest.mark.long
@pytest.mark.timeout(400)
async def test_in_clickhouse_one_row_of_a_span_stays_with_all_its_scores() -> None:
    pipeline = Pipeline()
    turns = await pipeline.assemble(requests_of("openinference-openai"))
    collected = Collected()
    async with pipeline.stage(collected).open_fold(0, None) as fold:
        offset = 0
        for each in (of(turns[0], 1), of(turns[0], 2, evaluator="polite", score=0.25)):
            await pipeline.judge([each])
            records = await pipeline.all(pipeline.judged_spans)
            await fold.deliver(records[offset:])
            offset = len(records)
    lines = [to_otlp_json(each).decode().replace("\\", "\\\\").replace("'", "\\'") for each in collected.requests]
    assert len(lines) == 2
    *made, means = statements("judged_spans.sql")
    topic = [re.sub(r"ENGINE = Kafka\(.*\)", "ENGINE = Null", each) for each in made]
    assert topic != made
    written = [f"INSERT INTO judged_spans_topic VALUES ('{each}')" for each in lines]
    rows = "SELECT *, toUnixTimestamp64Nano(started) AS nanoseconds FROM judged_spans FINAL"
    *_, by_model, [row], [all_rows] = await answers(
        [*topic, *written, means, rows, "SELECT count() AS n FROM judged_spans"]
    )
    assert int(all_rows["n"]) == 2
    assert (row["trace_id"], row["span_id"]) == (turns[0].trace_id, turns[0].span_id)
    [about] = MessageToDict(collected.requests[1])["resourceSpans"]
    [span] = about["scopeSpans"][0]["spans"]
    assert str(row["nanoseconds"]) == span["startTimeUnixNano"]
    attributes = {
        each["key"]: str(next(iter(each["value"].values())))
        for each in span["attributes"]
        if "arrayValue" not in each["value"]
    }
    assert {name: row["attributes"][name].lower() for name in attributes} == {
        name: each.lower() for name, each in attributes.items()
    }
    scores = {
        name: row["attributes"][f"gen_ai.evaluation.{name}.score.value"] for name in ("answers_question", "polite")
    }
    assert scores == {"answers_question": "0.75", "polite": "0.25"}
    assert [(int(each["spans"]), each["mean"]) for each in by_model] == [(1, 0.75)]
