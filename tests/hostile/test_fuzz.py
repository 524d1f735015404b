"""Random and mutated bytes: nothing but BadInput ever comes out of reading a request."""

from __future__ import annotations

import json
import random

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.errors import BadInput
from collector.receive.intake import take_in
from collector.redact.patterns import find
from collector.redact.redactor import Redactor

REDACTOR = Redactor((find,), b"a key")
ROUNDS = 20_000


def valid() -> bytes:
    request = ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add(name="chat", trace_id=b"t" * 16, span_id=b"s" * 8)
    span.attributes.add(key="text").value.string_value = '{"a": "ada@example.com"}'
    nested = span.attributes.add(key="more").value.kvlist_value.values.add(key="x").value.array_value
    nested.values.add().int_value = 4111111111111111
    return request.SerializeToString()


JSON = json.dumps(
    {"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "74" * 16, "spanId": "73" * 8, "name": "chat",
     "attributes": [{"key": "text", "value": {"stringValue": "ada@example.com"}}]}]}]}]}
).encode()  # fmt: skip


def mutated(chance: random.Random, data: bytes) -> bytes:
    some = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(some) + 1)
        match chance.randrange(4):
            case 0:
                some[at:at] = chance.randbytes(chance.randint(1, 6))
            case 1:
                del some[at : at + chance.randint(1, 8)]
            case 2:
                some[at : at + 1] = chance.randbytes(1)
            case _:
                some[at:at] = some[at : at + 20]
    return bytes(some)


@pytest.mark.parametrize("form", ["protobuf", "json", None])
@pytest.mark.parametrize("signal", ["traces", "logs"])
def test_requests(form, signal):
    chance = random.Random(f"{form} {signal}")
    originals = (valid(), JSON)
    outcomes = {True: 0, False: 0}
    for number in range(ROUNDS):
        data = chance.randbytes(chance.randint(0, 60)) if number % 4 == 0 else mutated(chance, originals[number % 2])
        try:
            intake = take_in(data, signal, form, max_items=100, redactor=REDACTOR)
        except BadInput:
            outcomes[False] += 1
        else:
            outcomes[True] += 1
            assert all(b"ada@example.com" not in record.value for record in intake.records)
    assert min(outcomes.values()) > 0


@pytest.mark.parametrize("bad", [b"\xff\xfe\xff\xfe", b"\xed\xa0\x80c", b"\xc0\x80ch", b"cha\xc3"])
@pytest.mark.parametrize("form", ["protobuf", None])
def test_a_string_that_is_no_utf_8_is_refused(bad, form):
    body = valid().replace(b"chat", bad)
    assert body != valid()
    with pytest.raises(BadInput):
        take_in(body, "traces", form, max_items=100, redactor=REDACTOR)
