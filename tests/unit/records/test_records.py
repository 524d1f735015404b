from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from collector.errors import BadInput
from collector.records.json import (
    conversation_from_json,
    conversation_to_json,
    evaluation_from_json,
    evaluation_to_json,
    json_schemas,
    turn_from_json,
    turn_to_json,
)
from evaluators.cases import Conversation, Feedback, Message, TokenCount, ToolCall, Turn
from evaluators.records import to_json
from evaluators.results import ErrorDetail, Evaluation, JudgeStamp, Sampling, Subject, Usage

WHEN = datetime(2026, 11, 21, 3, 2, 50, 31300, UTC)
CALL = ToolCall(id="c1", name="get_wind", arguments={"place": "Skagen"}, result=[1, None, "x"])
TURN = Turn(
    turn_id="t1",
    conversation_id="session: 1/ä",
    trace_id="ab" * 16,
    span_id="cd" * 8,
    started_at=WHEN,
    history=(Message(role="user", content="hi"), Message(role="assistant", tool_calls=(CALL,))),
    input="how much?",
    actual_output="",
    tools_called=(CALL,),
    retrieval_context=("a", "b"),
    usage=TokenCount(input_tokens=3),
    feedback=(Feedback(name="thumbs", value=True, comment="good"),),
    events=("session.end",),
    attributes={"agent": "a", "deep": {"x": [1.5, False]}},
)


def test_a_turn_reads_back_the_same() -> None:
    assert turn_from_json(turn_to_json(TURN)) == TURN


def test_messages_are_written_alike_within_a_turn_and_by_themselves() -> None:
    history = (*TURN.history, Message(role="tool", content="9", tool_call_id=""), Message(role="user"))
    written = json.loads(turn_to_json(replace(TURN, history=history)))["history"]
    assert written == [json.loads(to_json(each)) for each in history]


def test_a_turn_from_before_a_field_was_there_reads_as_without_it() -> None:
    assert turn_from_json(b'{"turn_id":"t","input":"hi"}') == Turn(turn_id="t", input="hi")


def test_nothing_is_written_but_what_says_something() -> None:
    assert json.loads(turn_to_json(Turn(turn_id="t"))) == {
        "turn_id": "t",
        "conversation_id": None,
        "trace_id": None,
        "input": None,
        "actual_output": None,
    }
    written = json.loads(turn_to_json(TURN))
    assert written["started_at"] == "2026-11-21T03:02:50.031300Z"
    assert written["history"][0] == {"role": "user", "content": "hi"}
    assert written["tools_called"][0] == {
        "id": "c1",
        "name": "get_wind",
        "arguments": {"place": "Skagen"},
        "result": [1, None, "x"],
    }


def test_a_tool_that_gave_back_nothing_did_answer() -> None:
    calls = tuple(
        ToolCall(name="find", arguments=given, result=came) for given, came in (({}, []), (None, ""), (0, False))
    )
    turn = Turn(turn_id="t", tools_called=calls)
    assert turn_from_json(turn_to_json(turn)) == turn


def test_a_conversation_reads_back_the_same() -> None:
    conversation = Conversation(conversation_id="c", turns=(TURN, TURN), closed_by="idle", revision=2)
    assert conversation_from_json(conversation_to_json(conversation)) == conversation


def test_an_evaluation_reads_back_the_same() -> None:
    scored = Evaluation(
        evaluation_id="e",
        evaluator="g",
        evaluator_version="1",
        scope="turn",
        monitor="m",
        subject=Subject(conversation_id="c", links=(("a", "b"),)),
        outcome="scored",
        score=0.0,
        passed=False,
        range=(1.0, 5.0),
        judge=JudgeStamp(model="j"),
        usage=Usage(input_tokens=1),
        sampling=Sampling(probability=0.5),
        started_at=WHEN,
        ended_at=WHEN,
    )
    failed = Evaluation(
        **{
            name: getattr(scored, name)
            for name in (
                "evaluation_id",
                "evaluator",
                "evaluator_version",
                "scope",
                "monitor",
                "subject",
                "started_at",
                "ended_at",
            )
        },
        outcome="failed",
        error=ErrorDetail(type="judge_error", message="no"),
    )
    for evaluation in (scored, failed):
        assert evaluation_from_json(evaluation_to_json(evaluation)) == evaluation
    written = json.loads(evaluation_to_json(scored))
    assert (written["score"], written["passed"]) == (0.0, False)
    assert "error" not in written


def test_fields_of_a_newer_version_are_ignored() -> None:
    assert turn_from_json('{"turn_id": "t", "new": 1, "usage": {"input_tokens": 2, "new": 1}}').usage == TokenCount(
        input_tokens=2
    )


@pytest.mark.parametrize(
    ("record", "says"),
    [
        (b"{", "it is not JSON"),
        (b"\xff", "it is not JSON"),
        (b"[]", "not a turn: it must be an object"),
        (b"{}", "turn_id is missing"),
        (b'{"turn_id": 4}', "turn_id must be a string"),
        (b'{"turn_id": "t", "history": [{"role": "user"}, {"role": 1}]}', "history.1.role"),
        (b'{"turn_id": "t", "incomplete": "secret words"}', "incomplete"),
        (b'{"turn_id": "t", "retrieval_context": "secret words"}', "retrieval_context must be an array of strings"),
        (b'{"turn_id": "t", "tools_called": {}}', "tools_called must be an array of objects"),
        (b'{"turn_id": "t", "started_at": "secret words"}', "started_at must be an ISO 8601 time"),
        (b'{"turn_id": "t", "usage": {"input_tokens": "many"}}', "usage.input_tokens must be a whole number"),
        (b'{"turn_id": "t", "feedback": [{"name": "f", "value": []}]}', "feedback.0.value has the wrong type"),
        (b'{"turn_id": "t", "attributes": ' + b"[" * 5000, "it is not JSON"),
    ],
)
def test_bad_records_say_where_without_their_content(record: bytes, says: str) -> None:
    with pytest.raises(BadInput) as raised:
        turn_from_json(record)
    assert says in str(raised.value)
    assert "secret words" not in str(raised.value)


def test_schemas() -> None:
    schemas = json_schemas()
    assert {"turn", "conversation", "evaluation"} <= set(schemas)
    assert schemas["turn"]["properties"].keys() == set(Turn.__dataclass_fields__)
