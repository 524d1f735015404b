"""Turns and conversations of the wrong shape are refused where they are made, with the field and the remedy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import pytest

from evaluators.cases import Conversation, Feedback, Message, ToolCall, Turn
from evaluators.records import from_json

made: Callable[..., Any] = Turn
CALL = ToolCall(name="search")
SAID = Message(role="user", content="Hello")


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (
            {"retrieval_context": "one text"},
            'Turn.retrieval_context: a list of texts is needed, not one text; write ["…"]',
        ),
        ({"output": "An answer."}, "Turn has no field 'output'; did you mean 'actual_output'?"),
        ({"question": "Why?"}, "Turn has no field 'question'; write input=…"),
        ({"context": "one text"}, 'Turn.context: a list of texts is needed, not one text; write ["…"]'),
        ({"retrieval_context": [1]}, "Turn.retrieval_context: a list of texts is needed, but item 0 is int"),
        ({"retrieval_context": ("a", b"b")}, "Turn.retrieval_context: a list of texts is needed, but item 1 is bytes"),
        (
            {"retrieval_context": None},
            "Turn.retrieval_context: a list of texts is needed, not None; leave it out where there are none",
        ),
        (
            {"tools_called": [{"name": "search"}]},
            "Turn.tools_called: a list of ToolCall values is needed, but item 0 is dict; write ToolCall(…)",
        ),
        ({"tools_called": CALL}, "Turn.tools_called: a list of ToolCall values is needed, not ToolCall"),
        (
            {"expected_tools": ("search",)},
            "Turn.expected_tools: a list of ToolCall values is needed, but item 0 is str",
        ),
        (
            {"history": (SAID, {"role": "user"})},
            "Turn.history: a list of Message values is needed, but item 1 is dict; write Message(…)",
        ),
        ({"feedback": ["good"]}, "Turn.feedback: a list of Feedback values is needed, but item 0 is str"),
        ({"input": ["Hello"]}, "Turn.input: a text (str) is needed, not list"),
        ({"input": {"question": "Hello"}}, "Turn.input: a text (str) is needed, not dict"),
        ({"actual_output": 42}, "Turn.actual_output: a text (str) is needed, not int"),
        ({"expected_output": b"42"}, "Turn.expected_output: a text (str) is needed, not bytes"),
        ({"system_prompt": 1}, "Turn.system_prompt: a text (str) is needed, not int"),
        ({"turn_id": 7}, "Turn.turn_id: a text (str) is needed, not int"),
        ({"turn_id": None}, "Turn.turn_id: a text (str) is needed, not None"),
        ({"conversation_id": 7}, "Turn.conversation_id: a text (str) is needed, not int"),
        ({"attributes": [("a", 1)]}, "Turn.attributes: a dict is needed, not list"),
        ({"started_at": "2026-01-01"}, "Turn.started_at: a datetime is needed, not str"),
    ],
)
def test_the_wrong_type(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(TypeError) as caught:
        made(**fields)
    assert str(caught.value) == sentence


@pytest.mark.parametrize("name", ["started_at", "ended_at"])
def test_a_time_without_time_zone(name: str) -> None:
    with pytest.raises(ValueError, match=rf"Turn.{name}: a time needs its time zone, like datetime.now\(UTC\)"):
        made(**{name: datetime(2026, 1, 1)})  # noqa: DTZ001 - the mistake in question


def test_in_a_record_it_is_utc() -> None:
    turn = from_json('{"turn_id": "1", "started_at": "2026-01-01T00:00:00"}', Turn)
    assert turn.started_at == datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: made_of(Message, role="user", content=None), "Message.content: a text (str) is needed, not None"),
        (lambda: made_of(Message, role=1), "Message.role: a text (str) is needed, not int"),
        (
            lambda: made_of(Message, role="assistant", tool_calls=[{}]),
            "Message.tool_calls: a list of ToolCall values is needed, but item 0 is dict; write ToolCall(…)",
        ),
        (lambda: made_of(ToolCall, name=None), "ToolCall.name: a text (str) is needed, not None"),
        (
            lambda: made_of(Conversation, turns=[{"input": "a"}]),
            "Conversation.turns: a list of Turn values is needed, but item 0 is dict; write Turn(…)",
        ),
        (lambda: made_of(Conversation, turns=Turn()), "Conversation.turns: a list of Turn values is needed, not Turn"),
        (
            lambda: made_of(Conversation, turns=None),
            "Conversation.turns: a list of Turn values is needed, not None; leave it out where there are none",
        ),
        (
            lambda: made_of(Conversation, turns=[], conversation_id=5),
            "Conversation.conversation_id: a text (str) is needed, not int",
        ),
    ],
)
def test_what_turns_are_made_of(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(TypeError) as caught:
        make()
    assert str(caught.value) == sentence


def made_of(kind: Callable[..., object], **fields: Any) -> object:
    return kind(**fields)


def test_lists_become_tuples() -> None:
    turn = made(
        history=[SAID], tools_called=[CALL], expected_tools=[], retrieval_context=["a"], context=["b"],
        feedback=[Feedback(name="thumbs")],
    )  # fmt: skip
    assert turn == Turn(
        history=(SAID,), tools_called=(CALL,), expected_tools=(), retrieval_context=("a",), context=("b",),
        feedback=(Feedback(name="thumbs"),),
    )  # fmt: skip
    assert hash(turn.retrieval_context) == hash(("a",))
    assert made_of(Conversation, turns=[turn]) == Conversation(turns=(turn,))
    assert made_of(Message, role="a", tool_calls=[CALL]) == Message(role="a", tool_calls=(CALL,))


def test_kinds_of_ones_own_pass() -> None:
    class Text(str):
        __slots__ = ()

    class Call(ToolCall):
        pass

    turn = Turn(input=Text("a"), tools_called=(Call(name="b"),), attributes=MappingProxyType({"a": 1}))
    assert (turn.input, turn.tools_called[0].name, turn.attributes["a"]) == ("a", "b", 1)


def test_a_change_is_checked_too() -> None:
    with pytest.raises(TypeError, match=r"Turn\.context"):
        replace(Turn(), context="one text")


def test_no_sentence_tells_what_was_judged() -> None:
    with pytest.raises(TypeError) as caught:
        made(retrieval_context="a secret")
    assert "secret" not in str(caught.value)


def test_reading_a_record_does_not_check_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pydantic has checked it; a call back into Python for each message of a history would be a fifth of the time."""

    def refuse(_self: object) -> None:
        raise AssertionError("checked again")

    for kind in (Turn, Message, ToolCall):
        monkeypatch.setattr(kind, "__post_init__", refuse)
    data = '{"turn_id": "1", "history": [{"role": "user"}], "tools_called": [{"name": "search"}]}'
    assert from_json(data, Turn).tools_called[0].name == "search"
