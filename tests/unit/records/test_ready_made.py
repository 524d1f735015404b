"""Ids of ready-made turns: the same again for the same, and two for two."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from collector.errors import BadInput
from collector.records.json import turn_from_json, turn_to_json
from collector.records.ready_made import comes_again, documents_in, turns_in
from collector.records.references import reference_of
from collector.records.whole_conversation import conversation_fields
from evaluators.cases import Turn

WHEN = "2026-01-02T03:04:05Z"


def said(*words: str) -> list[dict[str, str]]:
    return [{"role": ("user", "assistant")[n % 2], "content": word} for n, word in enumerate(words)]


def ids(document: dict[str, Any], place: str = "t/0/1") -> list[str]:
    return [turn.turn_id for turn in turns_in(document, place)]


WORDS = ("Hi", "Hello", "Bern?", "In Switzerland", "Sure?", "Yes", "Sure?", "Yes")


@pytest.mark.parametrize("name", ["id", "conversation_id"])
def test_a_chat_that_grows_brings_the_same_turns_wherever_it_stands(name: str) -> None:
    grown = [ids({name: "c", "messages": said(*WORDS[:length])}, f"t/0/{length}") for length in (2, 4, 6, 8)]
    for before, after in itertools.pairwise(grown):
        assert after[:-1] == before
    assert len(set(grown[-1])) == 4


def test_a_chat_whose_oldest_messages_are_cut_off_brings_no_new_turns() -> None:
    whole = ids({"id": "c", "messages": said(*WORDS)})
    assert ids({"id": "c", "messages": [{"role": "system", "content": "Be kind."}, *said(*WORDS[2:])]}) == whole[1:]


def test_a_conversation_that_grows_brings_the_same_turns() -> None:
    turns = [{"input": "Sure?", "actual_output": "Yes"}, {"input": "Hi", "actual_output": "Hello"}] * 2
    whole = ids({"conversation_id": "c", "turns": turns})
    assert len(set(whole)) == 4
    assert ids({"conversation_id": "c", "turns": turns[:3]}, "elsewhere") == whole[:3]
    assert ids({"conversation_id": "d", "turns": turns}) != whole


def test_a_turn_that_says_when_is_the_same_alone_and_in_its_conversation() -> None:
    turn = {"input": "Hi", "actual_output": "Hello", "started_at": WHEN}
    [alone] = ids(turn | {"conversation_id": "c"}, "t/0/1")
    assert ids(turn | {"conversation_id": "c"}, "t/0/2") == [alone]
    assert ids({"conversation_id": "c", "turns": [turn]}, "t/0/3") == [alone]
    assert ids(turn | {"conversation_id": "c", "started_at": "2026-01-02T03:04:06Z"}) != [alone]


@pytest.mark.parametrize(
    "document",
    [
        {"input": "Hi", "actual_output": "Hello"},
        {"input": "Hi", "actual_output": "Hello", "conversation_id": "c"},
        {"input": "Hi", "actual_output": "Hello", "started_at": WHEN},
        {"messages": said("Hi", "Hello")},
        {"messages": said("Hi", "Hello"), "id": ""},
    ],
    ids=["nothing named", "conversation alone", "time alone", "chat", "chat with an empty id"],
)
def test_what_does_not_tell_which_it_is_has_interval_by_its_place(document: dict[str, Any]) -> None:
    assert ids(document, "t/0/1") == ids(document, "t/0/1")
    assert ids(document, "t/0/1") != ids(document, "t/0/2")
    assert not comes_again(document)


def test_a_chat_without_a_name_is_a_conversation_of_its_own() -> None:
    conversations = {
        place: {turn.conversation_id for turn in turns_in({"messages": said(*WORDS)}, place)}
        for place in ("p/0/1", "p/0/2")
    }
    [one], [other] = conversations.values()
    assert one
    assert one != other


def test_what_has_an_id_keeps_it() -> None:
    [turn] = turns_in({"turn_id": "mine", "input": "Hi", "actual_output": "Hello"})
    assert turn == Turn(turn_id="mine", input="Hi", actual_output="Hello")


def test_a_line_of_labels_next_is_its_turn() -> None:
    label = {
        "evaluation_id": "e",
        "evaluator": "a",
        "monitor": "m",
        "label_probability": 0.5,
        "weight": 2,
        "human": None,
    }
    [turn] = turns_in({**label, "turn_id": "mine", "input": "Hi", "actual_output": "Hello"})
    assert turn == Turn(turn_id="mine", input="Hi", actual_output="Hello")
    with pytest.raises(BadInput, match="evaluator: unknown key"):
        list(turns_in({"evaluator": "a", "input": "Hi", "actual_output": "Hello"}))


def test_model_and_service_among_attributes_are_the_turns() -> None:
    [turn] = turns_in({"input": "Hi", "actual_output": "Hello", "attributes": {"model": "m", "service": "s", "a": 1}})
    assert (turn.model, turn.service) == ("m", "s")
    [turn] = turns_in({"input": "Hi", "actual_output": "Hello", "model": "own", "attributes": {"model": "m"}})
    assert turn.model == "own"


def test_a_turn_without_an_id_of_its_conversation_has_that_of_the_whole() -> None:
    turn = {"turn_id": "t", "conversation_id": None, "input": "Hi", "actual_output": "Hello"}
    assert [each.conversation_id for each in turns_in({"conversation_id": "c", "turns": [turn]})] == ["c"]


@pytest.mark.parametrize(
    ("document", "hole"),
    [
        ({"turn_id": "1", "input": "Hi"}, "no_content"),
        ({"conversation_id": "c", "input": "Hi"}, "no_content"),
        ({"input": "Hi", "error": "timeout"}, None),
        ({"actual_output": "Welcome"}, None),
        ({"turn_id": "1", "input": "Hi", "actual_output": "", "incomplete": "truncated"}, "truncated"),
        ({"turn_id": "1", "input": "Hi", "actual_output": ""}, None),
    ],
)
def test_a_hole_is_known(document: dict[str, Any], hole: str | None) -> None:
    assert [turn.incomplete for turn in turns_in(document)] == [hole]


def test_documents_are_one_an_array_or_lines() -> None:
    assert documents_in('{"a": 1}') == [{"a": 1}]
    assert documents_in('[{"a": 1}, {"b": 2}]') == [{"a": 1}, {"b": 2}]
    assert documents_in('{"a": 1}\r\n\n[{"b": 2}, 3]\n') == [{"a": 1}, {"b": 2}, 3]
    assert documents_in("[]") == []


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"a": tru}', "^not JSON \\(line 1, column 7: "),
        ("{", "not JSON"),
        ('{"a": 1}\n{', "line 2 is not JSON"),
        ("", "not JSON"),
    ],
)
def test_no_documents(text: str, complaint: str) -> None:
    with pytest.raises(BadInput, match=complaint):
        documents_in(text)


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        ([1], "neither a turn"),
        ({"question": "Hi"}, "neither a turn"),
        ({"turn_id": 5, "input": "Hi"}, "turn_id"),
        ({"input": "Hi", "anwser": "Hello"}, "anwser: unknown key"),
        ({"input": "Hi", "my mail is ada@example.com": 1}, "a key: unknown key"),
        ({"input": "Hi", "started_at": "0001-01-01T00:00:00+14:00"}, "out of range in UTC"),
        ({"input": "Hi", "attributes": {"a": nested(70)}}, "nested deeper"),
        ({"input": "Hi", "history": [{"role": "user", "tool_calls": [{"name": "x", "arguments": nested(70)}]}]}, "nested"),
        ({"messages": said("Hi", "Hello"), "id": ["c"]}, "id must be a string"),
        ({"messages": said("Hi", "Hello"), "attributes": {"a": nested(70)}}, "nested deeper"),
        ({"input": "Hi", "program_fields": {"a": nested(70)}}, "nested deeper"),
        ({"input": "Hi", "tools_offered": [{"name": "x", "parameters": nested(70)}]}, "nested deeper"),
        ({"turns": []}, "conversation_id must be a string"),
        ({"conversation_id": "c", "turns": {}}, "turns must be an array"),
        ({"conversation_id": "c", "turns": [1]}, "turns.0 must be an object"),
        ({"input": "Hi", "trace_id": "t" * 1001}, "trace_id has more than 1000 characters"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_without_the_content(document: Any, complaint: str) -> None:
    with pytest.raises(BadInput, match=complaint) as caught:
        list(turns_in(document))
    assert "ada" not in str(caught.value)


def test_what_is_said_of_a_conversation_goes_with_its_turns() -> None:
    whole = {"chatbot_role": "A clerk.", "scenario": "A late train.", "expected_outcome": None}
    said = {"input": "Hi", "actual_output": "Hello", "attributes": {"conversation.scenario": "Two late trains."}}
    document = {"conversation_id": "c", **whole, "turns": [said | {"attributes": {}}, said]}
    turns = [turn_from_json(turn_to_json(turn)) for turn in turns_in(document)]
    assert conversation_fields(turns) == {"chatbot_role": "A clerk.", "scenario": "Two late trains."}
    with pytest.raises(BadInput, match="scenario: a text is needed"):
        list(turns_in(document | {"scenario": 5}))


@pytest.mark.parametrize("depth", [70, 300])
def test_a_reference_that_nests_deeper_is_refused(depth: int) -> None:
    reference = {"turn_id": "t", "expected_tools": [{"name": "f", "arguments": nested(depth)}]}
    with pytest.raises(BadInput, match="a value is nested deeper than 64"):
        reference_of(reference, tenant=None)
