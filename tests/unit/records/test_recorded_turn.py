"""A turn's record, read at a glance, is the turn that reading all of it gives, and is one exactly where that is."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from collector.errors import BadInput
from collector.records.attributes import declared_attributes, with_declared
from collector.records.json import turn_content_to_json, turn_from_json, turn_to_json
from collector.records.recorded_turn import RecordedTurn
from collector.records.tenants import tenant_of
from evaluators.cases import Attachment, Feedback, Message, TokenCount, ToolCall, ToolDefinition, Turn

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
OPTIONAL = st.none() | TEXT
FINITE = st.floats(allow_nan=False, allow_infinity=False)  # JSON has no other: those are written as null
SCALARS = st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | FINITE | TEXT
JSON = st.recursive(
    SCALARS, lambda each: st.lists(each, max_size=3) | st.dictionaries(TEXT, each, max_size=3), max_leaves=6
)
TOOL_CALLS = st.lists(
    st.builds(ToolCall, id=OPTIONAL, name=TEXT, arguments=JSON, result=JSON, error=OPTIONAL), max_size=2
).map(tuple)
TEXTS = st.lists(TEXT, max_size=2).map(tuple)
TIMES = st.none() | st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=2))]))
MESSAGES = st.builds(
    Message, role=st.sampled_from(["user", "assistant", "tool", ""]), content=TEXT, tool_calls=TOOL_CALLS,
    tool_call_id=OPTIONAL,
)  # fmt: skip
TURNS = st.builds(
    Turn, turn_id=TEXT, conversation_id=OPTIONAL, trace_id=OPTIONAL, service=OPTIONAL, input=OPTIONAL, error=OPTIONAL,
    trace_state=OPTIONAL, agent_run_of=OPTIONAL, started_at=TIMES, ended_at=TIMES, context=st.none() | TEXTS,
    history=st.lists(MESSAGES, max_size=3).map(tuple), tools_called=TOOL_CALLS, retrieval_context=TEXTS, events=TEXTS,
    usage=st.none() | st.builds(TokenCount, input_tokens=st.integers(0, 99), output_tokens=st.integers(0, 99)),
    incomplete=st.sampled_from([None, "redacted", "waiting"]), model_calls=st.none() | st.integers(0, 9),
    feedback=st.lists(st.builds(Feedback, name=TEXT), max_size=1).map(tuple),
    attributes=st.dictionaries(TEXT | st.just("evalstream.tenant"), JSON, max_size=3),
    program_fields=st.dictionaries(TEXT, JSON, max_size=2),
)  # fmt: skip
FULL = Turn(
    turn_id="t", conversation_id="c", trace_id="a" * 32, span_id="b" * 16, parent_span_id="c" * 16, response_id="r",
    service="s", dialect="d", model="m", user_id="u", started_at=datetime(2026, 1, 2, 3, 4, 5, 6, UTC),
    ended_at=datetime(2026, 1, 2, tzinfo=UTC), system_prompt="p", input="q", actual_output="a", error="e",
    history=(Message(role="user", content="h", tool_calls=(ToolCall(name="n", arguments={"x": [1]}),)),),
    tools_called=(ToolCall(id="i", name="n", result=0),), retrieval_context=("r",), expected_output="o", context=("k",),
    expected_tools=(ToolCall(name="w"),), usage=TokenCount(input_tokens=1), incomplete="truncated",
    feedback=(Feedback(name="f", value=1.0),), trace_state="ot=th:8", events=("v",), model_calls=2, agent_run_of="g",
    tools_offered=(ToolDefinition(name="l"),), attachments=(Attachment(kind="image"),), program_fields={"y": 1},
    attributes={"z": "1"},
)  # fmt: skip
"""Every field has something in it."""


def agree(value: bytes) -> RecordedTurn | None:
    """The record, after a look that it is the turn that `turn_from_json` reads; None where both read none."""
    try:
        turn = turn_from_json(value)
    except BadInput:
        with pytest.raises(BadInput):
            RecordedTurn(value)
        return None
    recorded = RecordedTurn(value)
    for name in ("turn_id", "conversation_id", "trace_id", "trace_state", "agent_run_of", "input", "events"):
        assert getattr(recorded, name) == getattr(turn, name)
    assert recorded.attributes == turn.attributes
    assert recorded.tools_called == turn.tools_called
    assert (recorded.started, recorded.ended) == tuple(
        None if each is None else each.timestamp() for each in (turn.started_at, turn.ended_at)
    )
    assert list(recorded.earlier_inputs()) == [
        each.content for each in turn.history if each.role == "user" and each.content
    ]
    assert tenant_of(recorded) == tenant_of(turn)
    bare = replace(turn, turn_id="", conversation_id=None, history=())
    try:
        again = turn_from_json(turn_content_to_json(turn))
    except BadInput:  # a number beyond 64 bits
        with pytest.raises(BadInput):
            recorded.content_to_json()
    else:
        assert turn_from_json(recorded.content_to_json()) in (bare, again)  # where it is again, an empty list is None
    for each in fields(Turn):
        assert getattr(recorded, each.name) == getattr(turn, each.name)
    assert recorded.turn == turn
    return recorded


@example(FULL)
@given(TURNS)
def test_a_record_is_the_turn_that_was_written(turn: Turn) -> None:
    recorded = agree(turn_to_json(turn))
    assert recorded is not None
    assert recorded.content_to_json() == turn_content_to_json(turn)  # to the byte: a window's limit is about its length


@pytest.mark.parametrize("feedback", [(), (Feedback(name="f"),)])
def test_a_result_that_json_cannot_hold_is_none(feedback: tuple[Feedback, ...]) -> None:
    recorded = agree(
        turn_to_json(replace(FULL, tools_called=(ToolCall(name="n", result=math.inf),), feedback=feedback))
    )
    assert recorded is not None
    assert recorded.tools_called == (ToolCall(name="n"),)


@given(TURNS)
def test_declared_attributes_are_as_in_the_turn(turn: Turn) -> None:
    declared = {"plan": ("tier", "customer.plan"), "evalstream.tenant": ("z",)}
    turn = replace(turn, attributes={**turn.attributes, "customer.plan": "gold", "z": 3})
    recorded = RecordedTurn(turn_to_json(turn))
    recorded.add_attributes(declared_attributes(recorded.attributes, declared))
    expected = with_declared(turn_from_json(turn_to_json(turn)), declared)
    assert recorded.attributes == expected.attributes
    assert recorded.turn == expected
    assert turn_from_json(recorded.content_to_json()) == turn_from_json(turn_content_to_json(expected))


PLACES: Sequence[tuple[str | int, ...]] = [(each.name,) for each in fields(Turn)] + [
    ("history", 0), ("history", 0, "role"), ("history", 0, "content"), ("history", 0, "tool_calls"), ("unknown",),
    ("history", 0, "tool_calls", 0), ("history", 0, "tool_calls", 0, "name"), ("history", 0, "tool_call_id"),
    ("tools_called", 0), ("tools_called", 0, "name"), ("tools_called", 0, "id"), ("tools_called", 0, "result"),
    ("tools_called", 0, "unknown"), ("usage", "input_tokens"), ("usage", "unknown"), ("retrieval_context", 0),
    ("context", 0), ("attributes", "z"), ("program_fields", "y"), ("events", 0), ("history", 0, "unknown"),
]  # fmt: skip
OTHERS: list[Any] = [
    None, True, 0, -1, 1.5, 5.0, "", "5", "x", [], {}, [None], ["x"], [1], [{}], {"name": "x"}, [{"name": "x"}],
    {"role": "x"}, [{"role": "x"}], [{"role": 1}], "2026-01-02T03:04:05Z", "2026-01-02", "2026-W01-1T00:00:00Z",
    "2026-01-02T24:00:00Z", "2026-01-02T03:04:05,000006Z", "2026-01-02T03:04:05.000006Z", "0000-01-02T03:04:05Z",
    "2026-01-02 03:04:05Z", "2026-01-02T03:04:60Z", "20260102T030405.0000Z", 1767323045, "waiting", 2**64, 1e300,
    "²026-01-02T03:04:05Z",
]  # fmt: skip


@pytest.mark.parametrize("place", PLACES, ids=lambda place: ".".join(map(str, place)))
def test_what_is_another_kind_of_value_is_read_alike(place: tuple[str | int, ...]) -> None:
    for other in OTHERS:
        plain: Any = json.loads(turn_to_json(FULL))
        spot = plain
        for step in place[:-1]:
            spot = spot[step]
        spot[place[-1]] = other
        agree(json.dumps(plain).encode())
        agree(json.dumps(plain, separators=(",", ":"), ensure_ascii=False).encode())
        if place[-1] != "turn_id":
            agree(json.dumps({"turn_id": "t", place[0]: plain.get(place[0])}).encode())


@pytest.mark.parametrize(
    "value",
    [
        b"", b"[]", b"1", b"null", b"{}", b'{"turn_id":null}', b'{"turn_id":"t"}', b' {"turn_id" : "t", "input":"q"}\n',
        b'{"turn_id":"t","turn_id":"u","conversation_id":"c"}', b'{"turn_id":"t","conversation_id":"c","turn_id":"u"}',
        b'{"turn_id":"t","attributes":{"x":1,"x":2}}', b'{"turn_id":"t","input":"\\ud800"}', b'{"turn_id":"\xff"}',
        b'{"turn_id":"t","conversation_id":"c","history":[],"input":"q"}',
        b'{"turn_id":"t","conversation_id":"c","attributes":' + b'{"x":' * 100 + b"1" + b"}" * 101,
        b'{"turn_id":"t","conversation_id":"c","attributes":' + b'{"x":' * 230 + b"1" + b"}" * 231,
        b'{"turn_id":"t","tools_called":[{"name":"n","result":' + b"[" * 230 + b"]" * 230 + b"}]}",
        b'{"turn_id":"t","history":[{"role":"user","content":"q"},{"role":"user"},{"role":"user","content":null}]}',
        b'{"turn_id":"a\\"b\\u0000","conversation_id":"\\u00e9","trace_id":"x"}',
        '{"turn_id":"ä","conversation_id":"ö","trace_id":"x"}'.encode(),
    ],
)  # fmt: skip
def test_records_of_others_are_read_alike(value: bytes) -> None:
    agree(value)


def test_numbers_beyond_64_bits_are_what_they_were() -> None:
    recorded = RecordedTurn(b'{"turn_id":"t","attributes":{"x":123456789012345678901234567890}}')
    assert recorded.attributes == {"x": 123456789012345678901234567890}
    with pytest.raises(BadInput):
        recorded.content_to_json()


def test_a_usual_record_is_read_at_a_glance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else all of this would be for nothing, and no other test would notice."""
    monkeypatch.setattr("collector.records.recorded_turn.turn_from_json", None)
    usual = replace(FULL, expected_tools=None, feedback=(), tools_offered=(), attachments=())
    recorded = RecordedTurn(turn_to_json(usual))
    assert (recorded.service, recorded.ended) == ("s", datetime(2026, 1, 2, tzinfo=UTC).timestamp())
    assert recorded.content_to_json() == turn_content_to_json(usual)
