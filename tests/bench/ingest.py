"""From OTLP bytes to turns, against two floors of the same run: parsing alone, and parsing with attribute dicts.

`python tests/bench/ingest.py [spans] [--profile]`. One core, no I/O. The aims: 4 times the second floor for spans of
model calls (12 attributes, 2 kB of messages each), 1.5 times for spans that cannot matter. A sampled-out turn is
assembled all the same; what is not done for it is judging.
"""

from __future__ import annotations

import cProfile
import json
import pstats
import sys
import time
from collections.abc import Callable, Iterator

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.assemble.gather import Piece
from collector.assemble.trace import Assembler
from collector.dialects.registry import Dialects
from collector.otlp import request_from_protobuf, split_by_trace
from collector.records import turn_to_json

BATCH = 512


def main() -> None:
    total = next((int(each) for each in sys.argv[1:] if each.isdigit()), 20_000)
    assembler = Assembler(Dialects.installed())
    for name, fill, per_trace in (
        ("model calls, parts as JSON", parts_span, 1),
        ("model calls, indexed attributes", indexed_span, 1),
        ("model calls below an HTTP span", mixed_span, 2),
        ("spans that cannot matter", plain_span, 10),
    ):
        requests = list(batches(total, fill, per_trace))
        if "--profile" in sys.argv:
            profile(requests, assembler)
        parse = per_span(lambda requests=requests: parsed(requests), total)
        floor = per_span(lambda requests=requests: dicts(requests), total)
        split = per_span(lambda requests=requests: pieces(requests), total)
        whole = per_span(lambda requests=requests: turns(requests, assembler), total)
        print(
            f"{name:34} parse {parse:5.2f}  +dict {floor:5.2f}  split {split:5.2f}  "
            f"to turns {whole:6.2f} µs/span = {whole / floor:4.2f} x the floor"
        )


def per_span(work: Callable[[], object], spans: int) -> float:
    best = float("inf")
    for _ in range(5):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best / spans * 1e6


def profile(requests: list[bytes], assembler: Assembler) -> None:
    profiler = cProfile.Profile()
    profiler.runcall(turns, requests, assembler)
    pstats.Stats(profiler).sort_stats("tottime").print_stats(25)


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


def pieces(requests: list[bytes]) -> dict[str, list[Piece]]:
    traces: dict[str, list[Piece]] = {}
    for request in requests:
        for trace_id, value in split_by_trace(request_from_protobuf(request, "traces"), request).pieces:
            traces.setdefault(trace_id, []).append(Piece("traces", value))
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
    return [(role, f"{line}{number}.{index}") for index, role in enumerate(roles)]


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
