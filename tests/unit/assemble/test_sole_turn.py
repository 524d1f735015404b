"""What one look at a trace says of its only turn is what assembling it says, whatever somebody sends."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hostile import DIALECTS, Hostile, requests
from hypothesis import HealthCheck, example, given, settings, strategies as st
from made_up import Trace, chat, parts, put

from collector.assemble.collect_trace import TracePiece, collect_trace
from collector.assemble.identity import IdentityLookup
from collector.assemble.model_calls import find_pending_tool_calls
from collector.assemble.trace import Assembler
from collector.dialects.dialect import Dialect
from collector.dialects.program_fields import unwrap_program
from collector.dialects.registry import Dialects
from collector.otlp.decode import request_from_protobuf, split_by_trace
from collector.otlp.span import Span
from collector.records.turns import without_content
from evaluators.cases import Turn

ASSEMBLER = Assembler(DIALECTS, IdentityLookup(("shop.chat",), (), ()))
CALL = {"id": "c-1", "type": "function", "function": {"name": "find_boat", "arguments": '{"days": 2}'}}


def never(_turn: Turn) -> bool:
    return False


def look(pieces: Sequence[TracePiece]) -> bool:
    """Whether one look was enough; then it saw what there is."""
    seen = ASSEMBLER.assemble(pieces, is_wanted=never)
    if not seen.at_a_glance:
        return False
    whole = ASSEMBLER.assemble(pieces)
    [turn] = [each.turn for each in whole.turns]
    [glanced] = [each.turn for each in seen.turns]
    facts = without_content(turn)
    if len(whole.spans) > 1 or sum(whole.spans.values()) > 1:  # of an enclosing span
        facts = replace(facts, span_id=glanced.span_id, started_at=glanced.started_at, ended_at=glanced.ended_at)
    assert replace(facts, turn_id=glanced.turn_id) == glanced
    assert (seen.spans, whole.feedback) == (whole.spans, ())
    return True


def captured() -> dict[str, list[TracePiece]]:
    pieces: dict[str, list[TracePiece]] = {}
    for signal, data in requests():
        for trace_id, piece in split_by_trace(request_from_protobuf(data, signal), data).pieces:
            pieces.setdefault(trace_id, []).append(TracePiece(signal, piece))
    return pieces


def test_captured_traces() -> None:
    outcomes = Counter(look(pieces) for pieces in captured().values())
    assert outcomes[True] >= 6, "plain chats of two dialects"
    assert outcomes[False] > 100, "agents, tools, log records, other dialects"


def indexed(answer: Any, **more: Any) -> dict[str, Any]:
    return {
        "openinference.span.kind": "LLM",
        "llm.token_count.prompt": 3,
        "llm.token_count.completion": 4,
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": "Are you open?",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": answer,
    } | more


def test_a_plain_chat_is_known_at_a_glance() -> None:
    assert look(Trace().span(1, "chat", chat("Are you open?", "Yes.")).pieces())
    assert look(Trace().span(1, "chat", indexed("Yes.", **{"session.id": "s-1"})).pieces())
    below = Trace().span(1, "POST /chat", {"shop.chat": "c-9"}).span(2, "chat", chat("Open?", "Yes."), parent=1)
    assert look(below.pieces())


def test_what_may_be_no_turn_or_another_one_is_not() -> None:
    def glanced(attributes: dict[str, Any], **more: Any) -> bool:
        return look(Trace().span(1, "chat", attributes, **more).pieces())

    called = json.dumps([{"role": "assistant", "tool_calls": [CALL]}])
    assert (
        ASSEMBLER.assemble(
            Trace().span(1, "chat", chat("Hi", None, **{"gen_ai.output.messages": called})).pieces()
        ).turns
        == ()
    )
    for output in (
        called,
        called.replace("tool", "to\\u006fl").replace("function", "\\u0066unction"),
        repr([{"role": "assistant", "tool_calls": [CALL]}]).replace("tool", "to\\x6fl"),
        json.dumps([{"role": "assistant", "parts": [{"name": "find_boat", "arguments": {}}]}]),
        [{"role": "assistant", "tool_calls": [CALL]}],
    ):
        assert not glanced(chat("Hi", None, **{"gen_ai.output.messages": output})), output
    assert not glanced(chat("Hi", "Yes.", **{"gen_ai.response.finish_reasons": ["tool_calls"]}))
    assert not glanced(chat("Hi", "Yes.", **{"gen_ai.operation.name": "invoke_agent"}))
    assert not glanced({"gen_ai.operation.name": "chat", "gen_ai.input.messages": parts(("user", "Hi"))}), "not ended"
    assert not glanced(chat("Hi", "Yes."), error="refused")
    assert not glanced(chat("Hi", "Yes."), dropped=1)
    assert not glanced(chat("Hi", "Yes."), events=[("gen_ai.choice", {"message": "{}"})])
    assert not glanced(chat("Hi", "Yes.", **{"openinference.span.kind": "LLM"})), "of two dialects"
    assert not look(Trace().span(1, "chat", chat("Hi", "Yes.")).record(1, "gen_ai.choice", {"index": 0}).pieces())
    two = Trace().span(1, "chat", chat("Hi", "Yes.")).span(2, "chat", chat("And?", "No."))
    assert not look(two.pieces())
    for key in (
        "crew_inputs",
        "annotations.0.annotation.name",
        "llm.output_messages.0.message.tool_calls.0.tool_call.id",
    ):
        assert not glanced(indexed("Yes.", **{key: "x"})), key
    assert not glanced(indexed("[[ ## next_tool_name ## ]]\nfind_boat"))


@pytest.mark.parametrize("answer", [None, "Yes."])
def test_a_turn_of_a_span_around_the_call_has_the_dialect_that_is_counted(answer: str | None) -> None:
    around = {"openinference.span.kind": "AGENT", "input.value": "Are you open?", "output.value": "Yes."}
    conventions = {"gen_ai.operation.name": "invoke_agent", "gen_ai.output.messages": parts(("assistant", "Yes."))}
    conventions["gen_ai.input.messages"] = parts(("user", "Are you open?"))
    call = chat("Are you open?", answer)
    assert not look(Trace().span(1, "agent", around, took=5.0).span(2, "chat", call, parent=1).pieces())
    assert look(Trace().span(1, "agent", conventions, took=5.0).span(2, "chat", call, parent=1).pieces())
    assert not look(Trace().span(1, "agent", conventions, took=5.0).span(2, "chat", call).pieces()), "beside it"


def test_with_runs_of_agents_nothing_is_known_at_a_glance() -> None:
    assembler = Assembler(DIALECTS, agent_runs=True)
    assert not assembler.assemble(Trace().span(1, "chat", chat("Hi", "Yes.")).pieces(), is_wanted=never).at_a_glance


SHAPES = ("tool_calls", "function_call", "content", "parts", "role", "name", "arguments", "type", "text", "kind", "choices",
          "message", "toolUse", "call_id", "result", "lc", "kwargs", "items", "finish_reason", "input", "part_kind")  # fmt: skip
WORDS = ("assistant", "tool", "function", "text", "tool_call", "mcp_call", "find", "stop", "computer_call", "[[ ## x ## ]]",
         "Your input fields are:\n1. `a` (str)\nYour output fields are:\n1. `next_tool_name` (str)", "", "Yes.")  # fmt: skip
documents = st.recursive(
    st.one_of(st.sampled_from(WORDS), st.none(), st.integers(0, 3), st.text(max_size=8)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(SHAPES), inner, max_size=4)),
    max_leaves=8,
)
encodings = st.sampled_from([json.dumps, repr, lambda value: json.dumps(json.dumps(value)), lambda value: value, str])


@example(
    encode=json.dumps, question=[], answer=[{"parts": [{"name": "find", "arguments": {}}]}], names=(), nested=False
)
@given(
    encode=encodings,
    question=documents,
    answer=documents,
    names=st.lists(st.sampled_from(("session.id", "metadata", "shop.chat", "user.id", "gen_ai.conversation.id"))),
    nested=st.booleans(),
)
@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_messages_of_any_shape(encode: Any, question: Any, answer: Any, names: list[str], nested: bool) -> None:
    ids = {name: f"{name} of it" for name in names}
    for attributes in (
        chat("Hi", None, **{"gen_ai.input.messages": encode(question), "gen_ai.output.messages": encode(answer)}),
        indexed(encode(answer), **{"llm.input_messages.0.message.content": encode(question)}),
    ):
        trace = Trace().span(1, "POST /", ids if nested else {}, scope="pydantic-ai")
        look(trace.span(2, "chat", {**attributes, **({} if nested else ids)}, parent=1).pieces())


def spoilt(chance: random.Random) -> Iterator[tuple[int, list[TracePiece]]]:
    """Captured traces in which attributes of other spans and values of other kinds have come."""
    traces = sorted(captured().items())
    for number in range(400):
        hostile = Hostile(f"sole turn {number}")
        _, pieces = chance.choice(traces)
        yield number, [each for piece in pieces for each in _spoil(hostile, piece)]


def _spoil(hostile: Hostile, piece: TracePiece) -> list[TracePiece]:
    if piece.signal != "traces":
        return [piece]
    request: Any = request_from_protobuf(piece.value, "traces")
    for resource in request.resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                if hostile.dice.random() < 0.5 and span.attributes:
                    changed = hostile.dice.choice(span.attributes).key
                    for each in [each for each in span.attributes if each.key == changed]:
                        span.attributes.remove(each)
                    value = hostile.dice.choice((hostile.text(), hostile.dice.choice(hostile.values)))
                    put(span.attributes, {hostile.dice.choice((changed, hostile.dice.choice(hostile.keys))): value})
                if hostile.dice.random() < 0.5:
                    span.ClearField("events")
    return [TracePiece("traces", request.SerializeToString())]


def test_what_earlier_spans_said_nothing_of_changes_no_trace() -> None:
    """Attributes of spans that concern no model are remembered, and not decoded again."""
    names = frozenset({"http.route", "peer"})
    remembering, identity = Dialects(DIALECTS.all), IdentityLookup()
    for _ in range(2):
        for _, pieces in spoilt(random.Random(7)):
            for declared in (frozenset[str](), names):
                trace = collect_trace(pieces, remembering, identity, lambda _error: None, declared)
                alone = collect_trace(pieces, Dialects(DIALECTS.all), IdentityLookup(), lambda _error: None, declared)
                assert trace == alone
    assert len(remembering.silent_beside(identity, names)) > 20


def test_spoilt_traces() -> None:
    outcomes = Counter(look(pieces) for _, pieces in spoilt(random.Random(20)))
    assert min(outcomes[True], outcomes[False]) > 20


@pytest.mark.parametrize(
    "dialect", [each for each in DIALECTS.all if each.glance is not None], ids=lambda each: each.name
)
def test_a_glance_promises_what_the_reader_finds(dialect: Dialect) -> None:
    sure: Counter[str | None] = Counter()
    for _, pieces in spoilt(random.Random(dialect.name)):
        trace = collect_trace(pieces, DIALECTS, IdentityLookup(), lambda _error: None)
        for span in trace.spans if trace is not None else ():
            if span.attributes and not (span.failed or span.events or span.dropped_attributes):
                sure[keeps_promise(dialect, span)] += 1
    assert sum(number for kind, number in sure.items() if kind is not None) > 20
    assert sure[None] > 20


def keeps_promise(dialect: Dialect, span: Span) -> str | None:
    assert dialect.glance is not None
    kind = dialect.glance(span)
    read = None if kind is None else dialect.read(span, ())
    if kind is None or kind == "nothing":
        assert read is None
        return kind
    assert read is not None
    call = unwrap_program(read)
    assert (call.dialect or dialect.name, call.kind, call.error) == (dialect.name, kind, None)
    assert (call.feedback, call.conversation_id) == ((), None)
    if kind == "model":
        assert (call.output, call.output_incomplete, call.usage, call.response_id) != (None, None, None, None)
        assert (find_pending_tool_calls(call.output or ()), call.finish_reason == "tool") == ((), False)
    return kind


def test_an_id_that_counts_only_without_another_is_left_to_assembling() -> None:
    assembler = Assembler(DIALECTS, IdentityLookup(made_up=("gen_ai.conversation.id",)))
    own = {"gen_ai.conversation.id": "made up"}
    alone = Trace().span(1, "chat", chat("Hi", "Yes.", **own)).pieces()
    assert not assembler.assemble(alone, is_wanted=never).at_a_glance
    beside = Trace().span(1, "POST /", {"session.id": "s-1"}).span(2, "chat", chat("Hi", "Yes.", **own), parent=1)
    [glanced] = assembler.assemble(beside.pieces(), is_wanted=never).turns
    [whole] = assembler.assemble(beside.pieces()).turns
    assert glanced.turn.incomplete == "unwanted"
    assert glanced.turn.conversation_id == whole.turn.conversation_id == "s-1"
