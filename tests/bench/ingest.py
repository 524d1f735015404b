"""From OTLP bytes to turns, against two floors of the same run: parsing alone, and parsing with attribute dicts.

One core, no I/O, garbage collected as seldom as in the service. The aims: 6 times the second floor for spans of model
calls (12 attributes, 2 kB of messages each), 1.1 times for spans that are none. A sampled-out turn is assembled all the
same; what is not done for it is judging.
"""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from judgeless_plan import plan
from measured import Figure, arguments, beside, by_turns, cpu_of
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.assemble.collect_trace import CollectedTrace, TracePiece, collect_trace
from collector.assemble.read_spans import SpanTree, read_spans
from collector.assemble.trace import Assembler
from collector.dialects.registry import Dialects
from collector.evaluate.partition_state import PartitionState
from collector.evaluate.recovery.replay_point import ReplayPoint
from collector.logs.log import StoredRecord
from collector.otlp.decode import request_from_protobuf, split_by_trace
from collector.receive.parsed_request import parse
from collector.records.json import turn_to_json
from collector.service.garbage import COLLECT_AFTER

BATCH = 512


GROUP = "ingest"
MODEL_CALL_AIM, PLAIN_AIM = 6.0, 1.1
DIALECTS = (
    "otel-genai-openai-span",
    "openinference-openai",
    "traceloop-sdk",
    "langfuse-openai",
    "vercel-ai-7",
    "logfire-openai",
    "langsmith-openai",
    "litellm-v1",
)
"""Captured traffic under tests/golden/otlp."""


def main() -> None:
    given = arguments(__doc__ or "")
    gc.set_threshold(*COLLECT_AFTER)
    total, repeats = (512, 1) if given.smoke else (50_000, 9) if given.long else (10_000, 5)
    assembler = Assembler(Dialects.installed())
    spans_to_turns(total, repeats, assembler)
    requests = list(batches(total, parts_span, 1))
    parts_of(requests, total, repeats, assembler)
    floors, works = by_turns(repeats, partial(dicts, requests), partial(taken_in, requests))
    note = "floor: parse and attribute dicts; reading and cutting up by trace, before anything is decoded"
    beside(GROUP, "intake of a batch of 512 traces", "µs CPU/span", floors, works, 1e6 / total, note=note).show()
    not_sampled(total, repeats, assembler)
    for name in DIALECTS[: 1 if given.smoke else None]:
        captured(name, max(1, total // 400), repeats, assembler)


def spans_to_turns(total: int, repeats: int, assembler: Assembler) -> None:
    """Spans of four kinds, from bytes to turns."""
    for name, fill, per_trace, aim in (
        ("model calls, parts as JSON (OpenTelemetry)", parts_span, 1, MODEL_CALL_AIM),
        ("model calls, indexed attributes (OpenInference)", indexed_span, 1, MODEL_CALL_AIM),
        ("model calls below an HTTP span", mixed_span, 2, MODEL_CALL_AIM),
        ("spans that are no model calls", plain_span, 10, PLAIN_AIM),
    ):
        requests = list(batches(total, fill, per_trace))
        floors, works = by_turns(repeats, partial(dicts, requests), partial(turns, requests, assembler))
        parse = min(cpu_of(partial(parsed, requests)) for _ in range(3)) / total * 1e6
        note = f"floor: parse and attribute dicts; parsing alone takes {parse:.2f}"
        beside(GROUP, name, "µs CPU/span", floors, works, 1e6 / total, aim=aim, note=note).show()


def parts_of(requests: list[bytes], total: int, repeats: int, assembler: Assembler) -> None:
    """Where the time of a model call goes: each part by itself, on what the part before it made."""
    traces = list(pieces(requests).values())
    gathered = [_gather(held, assembler) for held in traces]
    trees = [(each, SpanTree(each.spans)) for each in gathered]
    made = [each.turn for held in gathered for each in assembler.analyze(held).assembly.turns]
    for name, work in (
        ("reading and cutting up by trace", partial(pieces, requests)),
        ("attributes of the spans that matter", lambda: [_gather(held, assembler) for held in traces]),
        (
            "what dialects and messages say",
            lambda: [read_spans(each, tree, assembler.dialects, assembler.identity) for each, tree in trees],
        ),
        ("the row above, and exchanges and turns", lambda: [assembler.analyze(each) for each in gathered]),
        ("turns as JSON", lambda: [turn_to_json(each) for each in made]),
    ):
        costs = tuple(cpu_of(work) / total * 1e6 for _ in range(repeats))
        Figure(GROUP, f"of model calls, parts as JSON: {name}", "µs CPU/span", costs).show()


def _gather(held: list[TracePiece], assembler: Assembler) -> CollectedTrace:
    found = collect_trace(held, assembler.dialects, assembler.identity, lambda _error: None)
    assert found is not None
    return found


def taken_in(requests: list[bytes]) -> None:
    for request in requests:
        parse(request, "traces", "protobuf", max_items=20_000)


def not_sampled(total: int, repeats: int, assembler: Assembler) -> None:
    """What the evaluate stage does with a turn whose conversation is not in the sample: it is not decoded."""
    requests = list(batches(total, parts_span, 1))
    made = [each.turn for held in pieces(requests).values() for each in assembler.assemble(held).turns]
    records = [
        StoredRecord(0, position, 1e9 + position, (turn.conversation_id or "").encode(), turn_to_json(turn))
        for position, turn in enumerate(made)
    ]

    def fold() -> None:
        async def apply() -> None:
            state = PartitionState(plan(sample=1e-9), ReplayPoint(0))
            for record in records:
                assert not await state.apply(record)

        asyncio.run(apply())

    floors, works = by_turns(repeats, partial(dicts, requests), fold)
    note = "floor: parse and attribute dicts; only what comes after the turn was assembled"
    beside(
        GROUP, "a turn that is not sampled, in evaluate", "µs CPU/turn", floors, works, 1e6 / total, aim=1.5, note=note
    ).show()


def captured(name: str, times: int, repeats: int, assembler: Assembler) -> None:
    folder = Path(__file__).parents[1] / "golden" / "otlp" / name
    bodies = [each.read_bytes() for each in sorted(folder.glob("*-traces.pb"))]
    spans = sum(split_by_trace(request_from_protobuf(body, "traces")).items for body in bodies)
    made = turns(bodies, assembler)

    def repeat(work: Callable[[], object]) -> Callable[[], None]:
        def many() -> None:
            for _ in range(times):
                work()

        return many

    floors, works = by_turns(repeats, repeat(partial(dicts, bodies)), repeat(partial(turns, bodies, assembler)))
    note = f"captured: {spans} spans, {made} turns"
    scale = 1e6 / spans / times
    beside(GROUP, f"{name}, as captured", "µs CPU/span", floors, works, scale, aim=MODEL_CALL_AIM, note=note).show()


def parsed(requests: list[bytes]) -> None:
    for request in requests:
        ExportTraceServiceRequest.FromString(request)


def dicts(requests: list[bytes]) -> None:
    for request in requests:
        for resource in ExportTraceServiceRequest.FromString(request).resource_spans:
            for scope in resource.scope_spans:
                for span in scope.spans:
                    attributes = {}
                    for pair in span.attributes:
                        kind = pair.value.WhichOneof("value")
                        attributes[pair.key] = getattr(pair.value, kind) if kind else None


def model_call_floor(spans: int = 5000) -> Callable[[], float]:
    """What measures seconds of CPU for parsing a model call and making a dict of its attributes: the whole way's floor."""
    requests = list(batches(spans, parts_span, 1))
    return lambda: min(cpu_of(partial(dicts, requests)) for _ in range(2)) / spans


def pieces(requests: list[bytes]) -> dict[str, list[TracePiece]]:
    traces: dict[str, list[TracePiece]] = {}
    for request in requests:
        for trace_id, value in split_by_trace(request_from_protobuf(request, "traces"), request).pieces:
            traces.setdefault(trace_id, []).append(TracePiece("traces", value))
    return traces


def turns(requests: list[bytes], assembler: Assembler) -> int:
    made = 0
    for held in pieces(requests).values():
        for each in assembler.assemble(held).turns:
            turn_to_json(each.turn)
            made += 1
    return made


def batches(total: int, fill: Callable[[object, int], None], per_trace: int) -> Iterator[bytes]:
    for first in range(0, total, BATCH):
        request = ExportTraceServiceRequest()
        resource = request.resource_spans.add()
        put(resource.resource.attributes, "service.name", "bench")
        scope = resource.scope_spans.add()
        scope.scope.name = "bench.instrumentation"
        for number in range(first, min(first + BATCH, total)):
            span = scope.spans.add()
            span.trace_id = (number // per_trace + 1).to_bytes(16, "big")
            span.span_id = (number + 1).to_bytes(8, "big")
            if number % per_trace:
                span.parent_span_id = (number - number % per_trace + 1).to_bytes(8, "big")
            span.start_time_unix_nano = 1_795_230_000_000_000_000 + number * 1000
            span.end_time_unix_nano = span.start_time_unix_nano + 900
            fill(span, number)
        yield request.SerializeToString()


def put(attributes: object, key: str, value: object) -> None:
    pair = attributes.add()
    pair.key = key
    if isinstance(value, str):
        pair.value.string_value = value
    elif isinstance(value, int):
        pair.value.int_value = value
    elif isinstance(value, list):
        pair.value.array_value.values.add().string_value = value[0]
    else:
        pair.value.double_value = value


def texts(number: int) -> list[tuple[str, str]]:
    line = "How much is a double kayak for two days, and may I pay in cash? " * 4
    roles = ("system", "user", "assistant", "user", "assistant", "user")
    # with its full stop, as texts of one length that end within a sentence are taken for cut ones
    return [(role, f"{line}{number}.{index}.") for index, role in enumerate(roles)]


def parts_span(span: object, number: int) -> None:
    span.name = "chat gpt-4o-mini"
    given = [{"role": role, "parts": [{"type": "text", "content": text}]} for role, text in texts(number)]
    came = [{"role": "assistant", "parts": [{"type": "text", "content": "84 euros. " * 12}], "finish_reason": "stop"}]
    for key, value in (
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.provider.name", "openai"),
        ("gen_ai.request.model", "gpt-4o-mini"),
        ("gen_ai.conversation.id", f"session-{number // 5}"),
        ("gen_ai.request.temperature", 0.2),
        ("gen_ai.response.finish_reasons", ["stop"]),
        ("gen_ai.response.model", "gpt-4o-mini-2024-07-18"),
        ("gen_ai.response.id", f"chatcmpl-{number}"),
        ("gen_ai.usage.input_tokens", 41),
        ("gen_ai.usage.output_tokens", 17),
        ("gen_ai.input.messages", json.dumps(given)),
        ("gen_ai.output.messages", json.dumps(came)),
    ):
        put(span.attributes, key, value)


def indexed_span(span: object, number: int) -> None:
    span.name = "ChatCompletion"
    for key, value in (
        ("openinference.span.kind", "LLM"),
        ("llm.model_name", "gpt-4o-mini"),
        ("session.id", f"session-{number // 5}"),
        ("llm.token_count.prompt", 41),
        ("llm.token_count.completion", 17),
        ("llm.output_messages.0.message.role", "assistant"),
        ("llm.output_messages.0.message.content", "84 euros. " * 12),
    ):
        put(span.attributes, key, value)
    for index, (role, text) in enumerate(texts(number)):
        put(span.attributes, f"llm.input_messages.{index}.message.role", role)
        put(span.attributes, f"llm.input_messages.{index}.message.content", text)


def mixed_span(span: object, number: int) -> None:
    (parts_span if number % 2 else plain_span)(span, number)


def plain_span(span: object, number: int) -> None:
    span.name = "GET /products"
    for key, value in (
        ("http.request.method", "GET"),
        ("http.route", "/products/{id}"),
        ("url.path", f"/products/{number}"),
        ("url.scheme", "https"),
        ("server.address", "shop.internal"),
        ("server.port", 8080),
        ("http.response.status_code", 200),
        ("network.protocol.version", "1.1"),
        ("user_agent.original", "Mozilla/5.0 (X11; Linux x86_64)"),
        ("client.address", "10.0.0.7"),
        ("http.request.body.size", 312),
        ("http.response.body.size", 20_480),
    ):
        put(span.attributes, key, value)


if __name__ == "__main__":
    main()
