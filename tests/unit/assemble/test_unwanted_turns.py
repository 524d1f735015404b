"""The record of a noted turn is that of the turn that assembling gives; other bytes are refused."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given, strategies as st

from collector.assemble.unwanted_turns import make_noted_record, make_turn
from collector.errors import BadInput
from collector.otlp.decode import field_bytes
from collector.records.noted_turns import NotedTurn, noted_turn, with_note
from collector.records.tenants import in_tenant
from collector.records.turns import UNWANTED, bare_turn_record, turn_outcome

TEXTS = st.text(min_size=1, max_size=8) | st.sampled_from(("tenant:acme/c-1", "~tenant:x/c", "c-7"))
TIMES = st.integers(min_value=-5, max_value=2**64 - 1)
NOTED = st.builds(
    NotedTurn,
    trace=TEXTS,
    span=TEXTS,
    dialect=st.sampled_from(("otel_genai", "openinference")),
    spans=st.dictionaries(TEXTS, st.sampled_from(("otel_genai", "none")), max_size=3),
    conversation=TEXTS,
    service=st.none() | st.text(max_size=5),
    start=TIMES,
    end=TIMES,
    trace_state=st.text(max_size=5),
)
A_TURN = ["t", "s", "otel_genai", {"s": "otel_genai"}, "c-1", None, 1, 2, ""]


@given(NOTED, st.sampled_from(("", "acme")))
def test_it_is_the_record_of_the_assembled_turn(noted: NotedTurn, tenant: str) -> None:
    turn = in_tenant(make_turn(noted).turn, tenant)
    made = make_noted_record(noted, tenant)
    assert made.record == bare_turn_record(turn)
    assert (made.turn_id, made.conversation_id) == (turn.turn_id, turn.conversation_id)
    assert turn_outcome(turn) == UNWANTED


@given(NOTED)
def test_a_note_has_its_turn(noted: NotedTurn) -> None:
    assert noted_turn(with_note(noted, b"\x0a\x00")) == noted


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (0, ""),
        (0, 7),
        (1, ""),
        (2, None),
        (3, []),
        (3, {"s": 1}),
        (4, ""),
        (4, None),
        (5, 5),
        (6, 1.5),
        (6, True),
        (6, None),
        (7, "2"),
        (8, None),
        (9, "more"),
    ],
)
def test_what_is_none_is_refused(at: int, value: Any) -> None:
    document = [*A_TURN[:at], value, *A_TURN[at + 1 :]]
    with pytest.raises(BadInput, match="not a note of a turn"):
        noted_turn(field_bytes(b"\xc2\x3e", orjson.dumps(document)))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b'["t"',
        b"\xff",
        orjson.dumps(A_TURN).replace(b"c-1", b"\\ud800"),
        orjson.dumps(A_TURN).replace(b"1,2", b"1,%d" % 10**30),
    ],
)
def test_what_is_no_json_of_a_turn_is_refused(content: bytes) -> None:
    with pytest.raises(BadInput, match="not a note of a turn"):
        noted_turn(field_bytes(b"\xc2\x3e", content))
