"""The application's own attributes: from wherever it wrote them to the turn, the nearest place first."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from made_up import Trace, chat

from collector.assemble.application_attributes import ApplicationAttributes
from collector.assemble.explain import explain, format_lines
from collector.assemble.trace import Assembler
from collector.dialects.registry import Dialects
from evaluators.cases import Turn

DECLARED = {"tier": ["app.tier", "tier"]}
ASSEMBLER = Assembler(Dialects.installed(), application=ApplicationAttributes(DECLARED))


def assembled(
    model: dict[str, Any] | None = None,
    request: dict[str, Any] | None = None,
    resource: dict[str, Any] | None = None,
    declared: dict[str, list[str]] | None = None,
) -> Turn:
    """The turn of a model call below a span of a web server that no dialect reads."""
    trace = Trace(resource=resource)
    trace.span(1, "POST /chat", request, took=9).span(2, "handler", parent=1, took=8)
    trace.span(3, "chat", chat("Open?", "Yes.", **(model or {})), parent=2)
    assembler = (
        ASSEMBLER if declared is None else Assembler(Dialects.installed(), application=ApplicationAttributes(declared))
    )
    (turn,) = trace.turns(assembler)
    return turn


@pytest.mark.parametrize("place", ["model", "request", "resource"])
@pytest.mark.parametrize(
    "written",
    [
        {"app.tier": "gold"},
        {"tier": "gold"},
        {"app.tier": ["gold"]},
        {"app.tier": '"gold"'},
        {"metadata": json.dumps({"tier": "gold", "user": "ann"})},
        {"metadata": json.dumps({"app.tier": "gold"})},
        {"metadata.tier": "gold"},
        {"langfuse.trace.metadata.tier": "gold"},
        {"traceloop.association.properties.tier": "gold"},
        {"langsmith.metadata.tier": "gold"},
        {"tag.tags": ["beta", "tier:gold"]},
        {"tag.tags": '["tier=gold"]'},
        {"langfuse.trace.tags": "beta,tier:gold"},
        {"baggage": "region=eu, tier=gold;ttl=1"},
        {"baggage.tier": "gold"},
        {"http.request.header.baggage": ["region=eu,app.tier=gol%64"]},
    ],
    ids=lambda written: f"{next(iter(written))}={next(iter(written.values()))}",
)
def test_it_is_found_in_every_place(place: str, written: dict[str, Any]) -> None:
    assert assembled(**{place: written}).attributes["tier"] == "gold"


def test_the_nearest_place_wins() -> None:
    request, resource = {"app.tier": "request"}, {"app.tier": "resource"}
    assert assembled({"tag.tags": ["tier:model"]}, request, resource).attributes["tier"] == "model"
    assert assembled(None, request, resource).attributes["tier"] == "request"
    assert assembled(None, None, resource).attributes["tier"] == "resource"
    assert assembled({"app.tier": ""}, request).attributes["tier"] == "request", "an empty value is none"
    assert assembled({"app.tier": "[REDACTED]"}, request).attributes["tier"] == "request", "nor is a masked one"


def test_at_one_place_the_first_key_wins_then_the_plain_attribute() -> None:
    assert assembled({"tier": "second", "app.tier": "first"}).attributes["tier"] == "first"
    both = {"metadata": '{"app.tier": "metadata"}', "tier": "plain", "tag.tags": ["tier:tag"]}
    assert assembled(both).attributes["tier"] == "metadata", "by the first key"
    assert assembled({**both, "metadata": '{"tier": "metadata"}'}).attributes["tier"] == "plain"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, "true"),
        (3, 3),
        (0.5, 0.5),
        (["a", "b", 3], "a,b,3"),
        ({"a": 1}, None),
        (float("nan"), None),
        (b"x", "78"),
    ],
)
def test_values_are_texts_and_numbers(value: Any, expected: Any) -> None:
    assert assembled({"app.tier": value}).attributes.get("tier") == expected


def test_a_tag_alone_is_true() -> None:
    assert assembled({"tag.tags": ["beta"]}, declared={"beta": ["beta"]}).attributes["beta"] == "true"


def test_nothing_is_declared_and_nothing_is_read() -> None:
    assert "tier" not in assembled({"tier": "gold", "app.tier": "gold"}, declared={}).attributes


def test_a_declared_name_replaces_what_the_resource_says() -> None:
    turn = assembled(
        {"app.env": "canary"}, resource={"deployment.environment.name": "prod"}, declared={"environment": ["app.env"]}
    )
    assert turn.attributes["environment"] == "canary"


def test_prompt_and_its_version_are_there_without_being_declared() -> None:
    turn = assembled({"gen_ai.prompt.name": "greeting", "gen_ai.prompt.version": 7})
    assert (turn.attributes["prompt"], turn.attributes["prompt_version"]) == ("greeting", "7")
    turn = assembled({"langfuse.observation.prompt.name": "x" * 5000, "langfuse.observation.prompt.version": "3"})
    assert (len(str(turn.attributes["prompt"])), turn.attributes["prompt_version"]) == (200, "3")


def test_strangers_values_are_bounded() -> None:
    assert len(str(assembled({"app.tier": "x" * 10**6}).attributes["tier"])) == 16_384
    assert len(str(assembled({"app.tier": ["x" * 10_000] * 100}).attributes["tier"])) <= 16_384
    assert assembled({"metadata": json.dumps({"tier": 10**30})}).attributes["tier"] == "1" + "0" * 30, "every digit"


def test_a_large_document_above_many_turns_is_read_once() -> None:
    trace = Trace().span(1, "POST", {"metadata": json.dumps({"more": "x" * 3_000_000, "tier": "gold"})}, took=900)
    for number in range(2, 152):
        trace.span(number, "chat", chat(f"Open {number}?", f"Yes {number}."), parent=1)
    begin = time.process_time()
    turns = trace.turns(ASSEMBLER)
    assert time.process_time() - begin < 5.0, "once takes about 0.01 s, once for each turn several"
    assert [turn.attributes["tier"] for turn in turns] == ["gold"] * 150


def test_where_each_came_from_is_explained() -> None:
    trace = Trace(resource={"service.version": "1.2"})
    trace.span(1, "POST /chat", {"metadata": '{"tier": "gold"}'}, took=9)
    trace.span(3, "chat", chat("How do I reset my password?", "So.", **{"gen_ai.prompt.name": "greeting"}), parent=1)
    (turn,) = explain("t", trace.pieces(), ASSEMBLER).turns
    assert turn.attributes == {
        "service": "service.name of the resource",
        "model": "span 0000000000000003, as read by otel_genai",
        "dialect": "the attributes of the span",
        "service_version": "service.version of the resource",
        "prompt": "span 0000000000000003, as read by otel_genai",
        "tier": "metadata{tier} of span 0000000000000001",
        "language": "the user's words",
    }
    lines = list(format_lines(explain("t", trace.pieces(), ASSEMBLER)))
    assert "    tier from metadata{tier} of span 0000000000000001" in lines


@pytest.mark.parametrize(
    ("name", "variant"),
    [
        ("feature_flag", {"feature_flag.variant": "treatment"}),
        ("feature_flag.evaluation", {"feature_flag.result.variant": "treatment"}),
        ("feature_flag.evaluation", {"feature_flag.result.value": "treatment"}),
    ],
)
def test_a_flags_variant_is_found_in_the_event_of_an_ancestor(name: str, variant: dict[str, Any]) -> None:
    trace = Trace()
    other = (name, {"feature_flag.key": "colour", "feature_flag.result.variant": "blue"})
    trace.span(1, "POST /chat", events=[other, (name, {"feature_flag.key": "new-prompt", **variant})], took=9)
    trace.span(2, "chat", chat("Open?", "Yes."), parent=1)
    declared = ApplicationAttributes({"arm": ["feature_flag.new-prompt"]})
    (turn,) = trace.turns(Assembler(Dialects.installed(), application=declared))
    assert turn.attributes["arm"] == "treatment"
