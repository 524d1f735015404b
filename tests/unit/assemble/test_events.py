"""The application's own events: which turn carries their names, so that one may end a conversation."""

from __future__ import annotations

import random

import pytest
from made_up import ASSEMBLER, Trace, chat

from collector.records.json import turn_to_json

ENDED = ("conversation.ended", {"reason": "user said goodbye"})


@pytest.mark.parametrize("at", ["the model call", "a span around it", "a span beside it"])
def test_an_event_on_any_span_of_the_trace_is_noted(at: str) -> None:
    def events(span: str) -> list[tuple[str, dict[str, str]]]:
        return [ENDED] if span == at else []

    trace = Trace().span(1, "POST /chat", {"http.route": "/chat"}, events=events("a span around it"))
    trace.span(2, "chat", chat("Bye?", "Bye!"), parent=1, events=events("the model call"))
    trace.span(3, "close session", parent=1, events=events("a span beside it"))
    assert trace.turn().events == ("conversation.ended",)


@pytest.mark.parametrize("span", [2, 1, 99, None])
def test_so_is_a_log_record_whatever_span_it_names(span: int | None) -> None:
    trace = Trace().span(1, "POST /chat").span(2, "chat", chat("Bye?", "Bye!"), parent=1)
    assert trace.record(span, "session.end").turn().events == ("session.end",)


def test_a_log_record_may_have_its_name_as_an_attribute() -> None:
    trace = Trace().span(1, "chat", chat("Bye?", "Bye!"))
    assert trace.record(1, "", attributes={"event.name": "session.end"}).turn().events == ("session.end",)


def test_contents_exceptions_and_sentences_are_not_noted() -> None:
    told = [
        ("gen_ai.user.message", {"content": "Bye?"}),
        ("gen_ai.choice", {"message": "Bye!"}),
        ("exception", {"exception.type": "E"}),
        ("the user said goodbye", {}),
        ("x" * 101, {}),
        ("", {}),
    ]
    trace = Trace().span(1, "chat", {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}, events=told)
    turn = trace.record(1, "", "some line of a log").turn()
    assert (turn.input, turn.actual_output, turn.events) == ("Bye?", "Bye!", ())
    assert b'"events"' not in turn_to_json(turn)


def test_an_event_alone_makes_no_turn() -> None:
    assert Trace().span(1, "POST /close", events=[ENDED]).record(1, "session.end").turns() == []


def test_each_turn_of_a_trace_has_its_own_and_the_last_those_around_all() -> None:
    trace = Trace().span(1, "session", took=9.0, events=[ENDED])
    trace.span(2, "request", parent=1).span(3, "chat", chat("One?", "1"), parent=2).span(4, "look", parent=2)
    trace.span(5, "request", parent=1).span(6, "chat", chat("Two?", "2"), parent=5).record(4, "looked", at=4)
    trace.record(6, "typed", at=6).record(None, "flushed", at=20)
    assert [(each.input, each.events) for each in trace.turns()] == [
        ("One?", ("looked",)),
        ("Two?", ("typed", "conversation.ended", "flushed")),
    ]


def test_of_many_the_latest_are_kept_each_once() -> None:
    trace = Trace().span(1, "chat", chat("Bye?", "Bye!"))
    for number in range(40):
        trace.record(1, f"step.{number}", at=number).record(1, "token", at=number + 0.5)
    assert trace.turn().events == (*(f"step.{number}" for number in range(25, 40)), "token")


def test_the_same_is_noted_however_the_pieces_come() -> None:
    trace = Trace().span(1, "root", events=[ENDED, ("saved", {})]).span(2, "chat", chat("Bye?", "Bye!"), parent=1)
    pieces = [*trace.pieces(), *Trace().record(2, "left").record(None, "left").pieces()]
    chance = random.Random(7)
    for _ in range(8):
        some = chance.sample([*pieces, *pieces], 4)
        assert [each.turn.events for each in ASSEMBLER.assemble(some).turns] == [
            ("left", "conversation.ended", "saved")
        ]
