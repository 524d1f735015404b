"""Random bytes and hostile traces: nothing but BadInput ever comes out of reading and assembling them.

`make test` tries 40,000 cases and `make long-fuzz` 130,000, always the same; `make fuzz` as many as FUZZ_CASES says, of a seed
that changes. What fails names its case: `Hostile("…")` makes it again.
"""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from hostile import DIALECTS, Hostile, names_of, typical, wrong_values
from made_up import ASSEMBLER
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.assemble.collect_trace import CollectedTrace, TracePiece
from collector.assemble.explain import explain, format_lines
from collector.assemble.trace import Assembly
from collector.assemble.unread.examination import examine
from collector.dialects.dialect import Dialect
from collector.errors import BadInput
from collector.receive.parsed_request import parse
from collector.records.json import turn_from_json, turn_to_json
from collector.redact.patterns import find
from collector.redact.redactor import Redactor
from evaluators.cases import Feedback

ADDRESS = re.compile(rb"ada@example\.com")
REDACTOR = Redactor((find,), b"a key")
ALL = 130_000
CASES = int(os.environ.get("FUZZ_CASES", "40000"))
SEED = os.environ.get("FUZZ_SEED", "0")


def share(of: int) -> range:
    """Numbers for the cases of one test, which are `of` in `make long-fuzz`."""
    return range(max(1, of * CASES // ALL))


@contextmanager
def case(name: str) -> Iterator[Hostile]:
    """A case; an error of it says which it was."""
    seed = f"{SEED} {name}"
    try:
        yield Hostile(seed)
    except Exception as error:
        raise AssertionError(f'{type(error).__name__} in the case of Hostile("{seed}")') from error


def _as_read(feedback: Feedback) -> Feedback:
    """Its value is a float by definition, also where somebody sent a whole number that no float is."""
    return replace(feedback, value=float(feedback.value)) if isinstance(feedback.value, int) else feedback


def readable(assembly: Assembly) -> int:
    """How many turns there are; each of them can be written and read again."""
    for each in assembly.turns:
        read = turn_from_json(turn_to_json(each.turn))
        feedback = tuple(_as_read(one) for one in each.turn.feedback)
        assert read == replace(each.turn, feedback=feedback)
    return len(assembly.turns)


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
    chance = random.Random(f"{SEED} {form} {signal}")
    originals = (valid(), JSON)
    outcomes = {True: 0, False: 0}
    for number in share(15_000):
        data = chance.randbytes(chance.randint(0, 60)) if number % 4 == 0 else mutated(chance, originals[number % 2])
        try:
            intake = parse(data, signal, form, max_items=100, redactor=REDACTOR)
        except BadInput:
            outcomes[False] += 1
        else:
            outcomes[True] += 1
            assert not any(ADDRESS.search(record.value) for record in intake.records)
    assert min(outcomes.values()) > 0


@pytest.mark.parametrize("bad", [b"\xff\xfe\xff\xfe", b"\xed\xa0\x80c", b"\xc0\x80ch", b"cha\xc3"])
@pytest.mark.parametrize("form", ["protobuf", None])
def test_what_is_no_utf_8_in_a_string_is_replaced(bad, form):
    """An SDK that cuts a text within a character loses that character, not the request."""
    body = valid().replace(b"chat", bad)
    assert body != valid()
    records = parse(body, "traces", form, max_items=100, redactor=REDACTOR).records
    assert any("\ufffd".encode() in record.value for record in records)


@pytest.mark.parametrize("part", range(4))
def test_changed_payloads(part: int):
    """Captured requests with bytes changed, taken in as the receivers do, and what is left of them assembled."""
    outcomes = {True: 0, False: 0}
    for number in share(4000):
        with case(f"bytes {part} {number}") as hostile:
            data = hostile.any_bytes()
            for signal in ("traces", "logs"):
                try:
                    records = parse(data, signal, redactor=REDACTOR if part == 0 else None).records
                except BadInput:
                    outcomes[False] += 1
                else:
                    outcomes[True] += 1
                    readable(ASSEMBLER.assemble([TracePiece(signal, record.value) for record in records]))
    assert min(outcomes.values()) > 0


@pytest.mark.parametrize("dialect", DIALECTS.all, ids=lambda dialect: dialect.name)
def test_every_attribute_with_every_wrong_type(dialect: Dialect):
    span = typical(dialect)
    for name in {*names_of(dialect), *span.attributes}:
        key = name.replace("*", "0.x") + ("0.role" if name.endswith(".") else "")
        for number, value in enumerate(wrong_values()):
            try:
                spoilt = span._replace(attributes={**span.attributes, key: value}, evidence=0)
                readable(ASSEMBLER.analyze(CollectedTrace((spoilt,), ())).assembly)
            except Exception as error:
                raise AssertionError(f"{type(error).__name__} with wrong value {number} in {key}") from error


@pytest.mark.parametrize("dialect", DIALECTS.all, ids=lambda dialect: dialect.name)
def test_spoilt_traces_of(dialect: Dialect):
    """Captured traces of a dialect with hostile values among their attributes."""
    turns = 0
    for number in share(1300):
        with case(f"{dialect.name} {number}") as hostile:
            turns += readable(ASSEMBLER.analyze(hostile.trace(dialect)).assembly)
    assert turns > 0


@pytest.mark.parametrize("part", range(8))
def test_traces_of_every_dialect_at_once(part: int):
    """Spans and log records made up of any dialect's attributes, through protobuf; explained, too."""
    turns = 0
    for number in share(400):
        with case(f"pieces {part} {number}") as hostile:
            pieces = hostile.pieces()
            turns += readable(ASSEMBLER.assemble(pieces))
            if number % 8 == 0:
                assert list(format_lines(explain("1" * 32, pieces, ASSEMBLER)))
            if number % 40 == 0:
                list(examine([pieces], ASSEMBLER).lines())
    assert turns > 0
