"""Dialects of the configuration, with whatever a stranger may write where the configuration looks."""

from __future__ import annotations

import pytest
from hostile import wrong_values
from time_of_growth import measure

from collector.config.dialects import DialectSettings, build_dialects
from collector.dialects.registry import Dialects
from collector.otlp.span import LogRecord, Span, SpanEvent

OWN = {
    "match": {"attributes": {"acme.question": "*"}},
    "input": [
        "acme.question{messages[-1].content}",
        "acme.question.[-1].text",
        "event:acme.said:text",
        "acme.question",
    ],
    "output": [
        "acme.answer{choices[0].text}",
        "acme.answer =~ said: (.*)x",
        "log:acme.Chat:body{answer}",
        "acme.answer",
    ],
    "system": "acme.question{system}",
    "tools": "acme.answer{tools}",
    "conversation": "acme.question{id}",
    "user": "acme.user",
    "model": "acme.model",
}
KEYS = ("acme.question", "acme.question.0.text", "acme.answer", "acme.user", "acme.model")


def dialects(kind: str) -> Dialects:
    return Dialects(build_dialects({"acme": DialectSettings.model_validate({**OWN, "kind": kind})}))


def span_with(value: object) -> tuple[Span, list[LogRecord]]:
    attributes = dict.fromkeys(KEYS, value)
    events = (SpanEvent("acme.said", 1, {"text": value}),)
    span = Span("1" * 32, "2" * 16, None, "x", 1, 2, attributes=attributes, events=events)
    return span, [LogRecord("1" * 32, "2" * 16, "acme.Chat", 1, value)]


@pytest.mark.parametrize("kind", ["model", "agent", "tool", "retrieval"])
def test_wrong_values_at_every_place(kind: str) -> None:
    own = dialects(kind)
    for number, value in enumerate(wrong_values()):
        try:
            call = own.read(*span_with(value))
        except Exception as error:
            raise AssertionError(f"{type(error).__name__} with wrong value {number}") from error
        assert call is None or call.dialect == "acme"


@pytest.mark.parametrize("piece", ["said: ", "[", '{"choices": [', "a.", '"', "\\", "said: x"])
def test_time_grows_with_the_text_and_no_faster(piece: str) -> None:
    own = dialects("model")
    growth = measure(lambda text: own.read(*span_with(text)), ("", piece, ""), 20_000)
    assert growth.is_linear
