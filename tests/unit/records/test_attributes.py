"""The attributes of an evaluation: a closed set of names, with short values."""

from __future__ import annotations

from collector.records.attributes import attributes_of, is_reserved, with_declared
from evaluators.cases import Conversation, ToolCall, Turn


def test_those_of_a_turn() -> None:
    turn = Turn(
        input="How do I reset my password?",
        service="shop",
        model="m-1",
        dialect="otel_genai",
        tools_called=(ToolCall(name="search"), ToolCall(name="look"), ToolCall(name="search")),
        attributes={
            "service_version": "1.2", "environment": "prod", "provider": "openai", "agent": "helper", "prompt": "p",
            "prompt_version": "7", "tier": "gold", "free": "text of anybody", "evalstream.tenant": "acme", "finish": "stop",
        },
    )  # fmt: skip
    assert attributes_of(turn, ["tier", "absent"]) == {
        "service": "shop", "model": "m-1", "dialect": "otel_genai", "service_version": "1.2", "environment": "prod",
        "provider": "openai", "agent": "helper", "prompt": "p", "prompt_version": "7", "tier": "gold",
        "tenant": "acme", "tools": ["look", "search"], "language": "en",
    }  # fmt: skip


def test_a_turn_of_which_nothing_is_known_has_none() -> None:
    assert attributes_of(Turn(input="?"), ["tier"]) == {}


def test_those_of_a_conversation_are_its_latest_turns() -> None:
    turns = (
        Turn(input="Wo ist meine Bestellung?", model="m-1", attributes={"tier": "free", "region": "eu"}),
        Turn(input="ok", model="m-2", attributes={"tier": "gold"}, tools_called=(ToolCall(name="look"),)),
        Turn(input="1234"),
    )
    assert attributes_of(Conversation(turns=turns), ["tier", "region"]) == {
        "model": "m-2", "tier": "gold", "region": "eu", "tools": ["look"], "language": "de"
    }  # fmt: skip


def test_values_are_short_and_plain() -> None:
    calls = tuple(ToolCall(name=f"tool-{number:03}" + "x" * 500) for number in range(100))
    attributes = attributes_of(
        Turn(model="m" * 5000, tools_called=calls, attributes={"tier": {"any": "object"}, "flag": True}),
        ["tier", "flag"],
    )
    assert attributes["model"] == "m" * 200
    assert "tier" not in attributes
    assert attributes["flag"] == "true"
    assert len(attributes["tools"]) == 16
    assert max(map(len, attributes["tools"])) == 200


def test_a_ready_made_turn_may_have_it_under_another_key() -> None:
    declared = {"tier": ["app.tier", "plan"], "region": ["region"]}
    assert with_declared(Turn(attributes={"plan": "gold"}), declared).attributes["tier"] == "gold"
    assert with_declared(Turn(attributes={"plan": "gold", "app.tier": "free"}), declared).attributes["tier"] == "free"
    named = Turn(attributes={"tier": "own", "plan": "gold"})
    assert with_declared(named, declared) is named


def test_names_with_a_meaning_cannot_be_declared() -> None:
    assert all(
        map(is_reserved, ("model", "turns", "closed_by", "span_name", "evalstream.tenant", "conversation.scenario"))
    )
    assert not any(map(is_reserved, ("tier", "environment", "language", "app.tier")))
