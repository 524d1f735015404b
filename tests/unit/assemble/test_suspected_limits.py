"""Which texts of one length were cut by a limit: those that end at arbitrary places, not those from a template."""

from __future__ import annotations

import pytest
from made_up import ASSEMBLER, TRACE, Trace, chat

from collector.assemble.explain import explain, format_lines

CARGO = "A cargo bike may come aboard if it is booked a day ahead and no wider than a metre and pays its own fare; "
WIND = "When wind from the north exceeds eighteen knots our captains stay in harbour until the evening forecast, "
TEMPLATES = {
    "a signature": (
        "Your order 30900 is on its way and will be with you by Friday noon. Kind regards, Ann",
        "Your order 30901 is on its way and will be with you by Friday noon. Kind regards, Ann",
    ),
    "greetings and names": (
        f"Hej Anna! {'Your parcel has left the depot and comes with the next van. ' * 5}Greetings from Mette",
        f"Hej Otto! {'Your parcel has left the depot and comes with the next van. ' * 5}Greetings from Bjarn",
    ),
    "a link under different words": (
        f"{(CARGO * 3)[:280]}: see https://ferry.example/timetable",
        f"{(WIND * 3)[:280]}: see https://ferry.example/timetable",
    ),
    "a signature under different words, of a usual length": (
        f"{(CARGO * 3)[:241]} regards, Ann R",
        f"{(WIND * 3)[:241]} regards, Ann R",
    ),
    "objects on lines of their own": (
        "".join(f'{{"id": {n}, "state": "on its way"}}\n' for n in range(10, 19)) + "9 of 9 shown",
        "".join(f'{{"id": {n}, "state": "in a depot"}}\n' for n in range(30, 39)) + "9 of 9 shown",
    ),
    "lists of ids": (
        " ".join(f"SKU-{number}" for number in range(10_234, 10_274)),
        " ".join(f"SKU-{number}" for number in range(55_812, 55_852)),
    ),
}


def call(question: str, *answers: str) -> dict[str, object]:
    """A model call whose attributes hold each message as plain text: a history of answers, and the last answer."""
    messages = [line for answer in answers[:-1] for line in (("user", "q?"), ("assistant", answer))]
    attributes: dict[str, object] = {"openinference.span.kind": "LLM", "llm.model_name": "m-1"}
    for number, (role, text) in enumerate([*messages, ("user", question)]):
        attributes[f"llm.input_messages.{number}.message.role"] = role
        attributes[f"llm.input_messages.{number}.message.content"] = text
    attributes["llm.output_messages.0.message.role"] = "assistant"
    attributes["llm.output_messages.0.message.content"] = answers[-1]
    return attributes


@pytest.mark.parametrize("name", TEMPLATES)
def test_answers_from_a_template_are_whole(name: str) -> None:
    first, second = TEMPLATES[name]
    assert len(first) == len(second)
    assert first != second
    turn = Trace().span(1, "chat", call("And where is it?", first, second)).turn()
    assert (turn.actual_output, turn.incomplete) == (second, None)
    assert "truncated_fields" not in turn.attributes


def test_different_texts_of_one_length_are_whole_if_they_are_short() -> None:
    turn = Trace().span(1, "chat", call("And then?", CARGO[:84], WIND[:84])).turn()
    assert turn.incomplete is None


@pytest.mark.parametrize("limit", [128, 256, 301, 777])
def test_different_texts_that_end_at_one_length_were_cut(limit: int) -> None:
    first, second = ((text * 9)[:limit] for text in (CARGO, WIND))
    trace = Trace().span(1, "chat", call("And then?", first, second))
    assert trace.turn().incomplete == "truncated"
    ground = f"no text of shop exceeds {limit} characters, where a sentence or JSON breaks off"
    assert f"  probably cut by a limit: {ground}" in format_lines(explain(TRACE, trace.pieces(), ASSEMBLER))


def test_explain_names_the_span_with_unfinished_json() -> None:
    held = chat(CARGO, "The boat leaves at 07:50.")
    trace = Trace().span(1, "chat", {**held, "gen_ai.input.messages": held["gen_ai.input.messages"][:-9]})
    ground = f"JSON in span {1:016x} is unfinished"
    assert f"  probably cut by a limit: {ground}" in format_lines(explain(TRACE, trace.pieces(), ASSEMBLER))


def test_a_cut_answer_beside_answers_with_one_signature_is_cut() -> None:
    signed = [f"{text[:110]} Regards, your Ann" for text in (CARGO * 2, WIND * 2)]
    turn = Trace().span(1, "chat", call("And then?", *signed, (WIND * 3)[40:168])).turn()
    assert turn.incomplete == "truncated"
