"""What a turn says of the draft that it is built from: times, tokens, ids, attributes, history."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from made_up import Trace, chat, parts

from collector.assemble.identity import IdentityLookup
from collector.assemble.model_calls import ModelCall
from collector.assemble.read_spans import ParsedSpan, SpanTree
from collector.assemble.turn_drafts import TurnDraft
from collector.assemble.turns import TurnBuilder
from collector.dialects.call import Call
from collector.otlp.span import Span
from evaluators.cases import TokenCount, Turn

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def around(start: int, end: int) -> TurnDraft:
    """A draft of an enclosing span alone, from `start` to `end` (ns)."""
    span = Span("trace", "agent", None, "agent", start, end)
    return TurnDraft(question="Open?", answer="Yes.", enclosing_span=ParsedSpan(span, Call("test", "agent")))


def built(draft: TurnDraft) -> Turn:
    return TurnBuilder([], SpanTree([]), IdentityLookup()).build(draft, ()).turn


def test_times_are_those_of_the_enclosing_span_to_the_microsecond() -> None:
    turn = built(around(1_999, 1_000_002_000))
    assert (turn.started_at, turn.ended_at) == (
        EPOCH + timedelta(microseconds=1),
        EPOCH + timedelta(seconds=1, microseconds=2),
    )
    assert built(around(0, 1)).started_at is None, "a span that does not say when"
    assert built(around(0, 1)).ended_at == EPOCH


def test_equal_turns_of_one_trace_are_numbered() -> None:
    builder = TurnBuilder([], SpanTree([]), IdentityLookup())
    ids = [builder.build(around(1, 2), ()).turn.turn_id for _ in range(3)]
    assert len(set(ids)) == 3
    assert all(len(each) == 32 for each in ids)


def test_a_draft_of_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="a model call or an enclosing span"):
        built(TurnDraft(question="Open?", answer="Yes."))


def step(number: int, **more: Any) -> Trace:
    """A step that requests a tool, and the call that answers."""
    asked = [{"role": "user", "parts": [{"type": "text", "content": "Open?"}]}]
    request = {"type": "tool_call", "id": "a", "name": "look", "arguments": {}}
    return (
        Trace(resource=more)
        .span(
            number,
            "chat",
            chat("Open?", None)
            | {
                "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": [request]}]),
                "gen_ai.response.finish_reasons": ["tool_calls"],
            },
        )
        .span(
            number + 1,
            "chat",
            chat("Open?", "Yes.")
            | {
                "gen_ai.input.messages": json.dumps(
                    [
                        *asked,
                        {"role": "assistant", "parts": [request]},
                        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "a", "response": "9 to 5"}]},
                    ]
                )
            },
        )
    )


def test_tokens_are_those_of_all_calls() -> None:
    assert step(1).turn().usage == TokenCount(input_tokens=14, output_tokens=6)
    assert Trace().span(1, "chat", chat("Open?", "Yes.")).turn().usage == TokenCount(input_tokens=7, output_tokens=3)


def test_history_is_what_came_before_the_question() -> None:
    messages = parts(("system", "Be kind."), ("user", "Hello"), ("assistant", "Hi!"), ("user", "Open?"))
    turn = Trace().span(1, "chat", chat("", "Yes.") | {"gen_ai.input.messages": messages}).turn()
    assert (turn.system_prompt, turn.input) == ("Be kind.", "Open?")
    assert [(each.role, each.content) for each in turn.history] == [("user", "Hello"), ("assistant", "Hi!")]


def test_attributes_for_monitors() -> None:
    turn = step(1, **{"deployment.environment": "test", "service.version": "7"}).turn()
    assert turn.attributes == {"span_name": "chat", "finish": "stop", "environment": "test", "service_version": "7"}
    renamed = step(1, **{"deployment.environment": "old", "deployment.environment.name": "new"}).turn()
    assert renamed.attributes["environment"] == "new"
    assert (renamed.service, renamed.model, renamed.dialect) == ("shop", "m-1", "otel_genai")


def test_conversation_and_user_are_sought_from_near_to_far() -> None:
    """In the span itself, its ancestors nearest first, the trace if it names one only, and the resource."""

    def identity(own: dict[str, Any], parent: dict[str, Any], other: dict[str, Any]) -> tuple[str | None, str | None]:
        trace = Trace(resource={"session.id": "resource"})
        trace.span(1, "root", parent).span(2, "chat", chat("Open?", "Yes.") | own, parent=1)
        turn = trace.span(3, "other", other, parent=1).turn()
        return turn.conversation_id, turn.user_id

    own, root = {"gen_ai.conversation.id": "own"}, {"session.id": "root", "user.id": "u-root"}
    other = {"session.id": "other", "user.id": "u-other"}
    assert identity(own, root, other) == ("own", "u-root")
    assert identity({}, root, other) == ("root", "u-root")
    assert identity({}, {}, other) == ("other", "u-other")
    assert identity({"user.id": "u-own"}, {}, other) == ("other", "u-own")
    assert identity({}, {}, {}) == ("resource", None)


def test_what_two_spans_of_a_trace_name_differently_is_not_the_traces() -> None:
    trace = Trace().span(1, "root").span(2, "chat", chat("Open?", "Yes."), parent=1)
    trace.span(3, "one", {"session.id": "one", "user.id": "u"}, parent=1)
    trace.span(4, "two", {"session.id": "two", "user.id": "u"}, parent=1)
    turn = trace.turn()
    assert (turn.conversation_id, turn.user_id) == (None, "u")


def test_an_enclosing_span_that_answers_is_what_the_turn_is_about_and_its_last_step_fills_what_it_lacks() -> None:
    inner = Span("trace", "inner", "agent", "chat", 2, 3)
    call = Call("test", "model", model="inner model", provider="inner provider")
    last = ModelCall(inner, call, (ParsedSpan(inner, call),), "Open?", 0, 1, None, ())
    outer = Span("trace", "agent", None, "agent", 1, 4)
    for own, expected in (
        ({}, ("inner model", "inner provider")),
        ({"model": "own", "provider": "mine"}, ("own", "mine")),
    ):
        enclosing = ParsedSpan(outer, Call("test", "agent", **own))
        turn = built(TurnDraft(calls=[last], question="Open?", answer="Yes.", enclosing_span=enclosing))
        assert (turn.span_id, turn.model, turn.attributes["provider"]) == ("agent", *expected)
        assert turn.attributes["root"] == "agent"


def test_the_trace_may_consist_of_two_spans() -> None:
    trace = Trace().span(1, "chat", chat("Open?", "Yes.")).span(2, "other", {"session.id": "s", "user.id": "u"})
    turn = trace.turn()
    assert (turn.conversation_id, turn.user_id) == ("s", "u")
