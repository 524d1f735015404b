"""How long redaction takes: microseconds per kilobyte of text, and per span on its way into the spans log."""

from __future__ import annotations

import json
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.otlp.decode import outlined
from collector.otlp.outline import outline_of
from collector.redact.otlp_request import RequestRedaction
from collector.redact.patterns import find
from collector.redact.redactor import Redactor

PROSE = (
    "The train to Vienna leaves at 9:15 from platform 4 and takes about six hours, with one change in Munich. "
    "A return ticket costs 89.90 euros if you book it three weeks ahead; the key point is to reserve a seat. "
)
PERSONAL = "Please write to ada@example.com or call +49 30 901820; my card is 4111 1111 1111 1111, IP 203.0.113.7. "


def per_call(work: Callable[[], object], seconds: float = 1.0) -> float:
    """Median seconds of a call."""
    times: list[float] = []
    until = time.process_time() + seconds
    while time.process_time() < until:
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return statistics.median(times)


def chat(text: str) -> str:
    return json.dumps([{"role": "user", "parts": [{"type": "text", "content": text}]}])


def request(spans: int) -> ExportTraceServiceRequest:
    """Spans of twelve attributes with 2 kB of messages."""
    made = ExportTraceServiceRequest()
    scope = made.resource_spans.add().scope_spans.add()
    chance = random.Random(1)  # ids as they are: any bytes
    for _ in range(spans):
        span = scope.spans.add(name="chat gpt-4o", trace_id=chance.randbytes(16), span_id=chance.randbytes(8))
        for name in range(8):
            span.attributes.add(key=f"gen_ai.setting.{name}").value.string_value = f"value {name}"
        for name in range(2):
            span.attributes.add(key=f"gen_ai.usage.{name}").value.int_value = 1000
        for name in ("gen_ai.input.messages", "gen_ai.output.messages"):
            span.attributes.add(key=name).value.string_value = chat((PROSE * 5)[:1000])
    return made


def captured() -> list[ExportTraceServiceRequest]:
    """Real traffic: text that repeats itself hides what an automaton costs that has to learn its states."""
    folder = Path(__file__).parents[1] / "golden" / "otlp"
    return [ExportTraceServiceRequest.FromString(each.read_bytes()) for each in sorted(folder.rglob("*-traces.pb"))]


def main() -> None:
    redactor = Redactor((find,), b"a key")
    for name, text in {
        "prose": PROSE * 22,
        "prose as a chat in JSON": chat(PROSE * 22),
        "something personal in every 400 bytes": (PERSONAL + PROSE + PROSE[:100]) * 10,
    }.items():
        spent = per_call(lambda text=text: redactor.text(text))
        print(f"{name}: {spent * 1e6 / (len(text) / 1000):.1f} us/kB")
    spans = 500
    encoded = request(spans).SerializeToString()
    parse = per_call(lambda: ExportTraceServiceRequest.FromString(encoded))
    parsed = outline_of(encoded, "traces")
    walk = per_call(lambda: RequestRedaction(redactor).redact(parsed))
    print(f"a span of 2 kB: parsing {parse * 1e6 / spans:.1f} us, redacting {walk * 1e6 / spans:.1f} us")
    requests = [outlined(each) for each in captured()]
    spans = sum(len(scope.spans) for each in requests for group in each.resource_spans for scope in group.scope_spans)
    walk = per_call(lambda: [RequestRedaction(redactor).redact(each) for each in requests], 5.0)
    print(f"a span as captured, of all dialects: redacting {walk * 1e6 / spans:.1f} us")


if __name__ == "__main__":
    main()
