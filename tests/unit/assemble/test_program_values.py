"""Named inputs and outputs of structured programs: in turns, and shown to evaluators."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from made_up import Trace, chat
from pydantic import ValidationError
from truth import PAYLOADS

from collector.commands.normalize import normalize
from collector.records.json import turn_from_json, turn_to_json
from evaluators.cases import Json, Turn
from evaluators.evaluation import evaluate
from evaluators.results import Skipped
from evaluators.testing import ScriptedJudge, assert_score_async
from evaluators.turn.contains import Contains
from evaluators.turn.g_eval import GEval
from evaluators.turn.prompt import PromptEvaluator
from evaluators.turn.regex import Regex

FIELDS: Mapping[str, Json] = {"inputs.article": "A long text.", "outputs.summary": "Short.", "outputs.tags": ["a", "b"]}
TURN = Turn(turn_id="t", input="A long text.", actual_output="Short.", program_fields=dict(FIELDS))


def program(inputs: object, outputs: object, answer: str) -> Turn:
    """A module around one model call, whose words are the answer."""
    trace = Trace()
    kind = {"openinference.span.kind": "CHAIN", "input.value": json.dumps(inputs), "output.value": json.dumps(outputs)}
    trace.span(1, "Summarize.forward", kind, took=5)
    trace.span(2, "chat m", chat("A long text.", answer), parent=1)
    return trace.turn()


def test_a_module_has_names_for_what_goes_in_and_comes_out() -> None:
    turn = program({"question": "A long text.", "words": 3}, {"answer": "Short.", "reasoning": "It is long."}, "Short.")
    assert turn.actual_output == "Short."
    outputs = {"outputs.answer": "Short.", "outputs.reasoning": "It is long."}
    assert turn.program_fields == {"inputs.question": "A long text.", "inputs.words": 3, **outputs}


def test_an_answer_that_is_a_form_has_fields_without_anything_around_it() -> None:
    turn = Trace().span(1, "chat m", chat("A long text.", '{"summary": "Short.", "tags": ["a"]}')).turn()
    assert turn.actual_output == '{"summary": "Short.", "tags": ["a"]}'
    assert turn.program_fields == {"outputs.summary": "Short.", "outputs.tags": ["a"]}


@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [
        ({"messages": [{"role": "user", "content": "A long text."}]}, {"messages": []}),
        ({"state": "x"}, {"other": "y"}),
        ([1], "a"),
    ],
)
def test_what_has_no_names_or_is_of_something_else_gives_none(inputs: object, outputs: object) -> None:
    assert program(inputs, outputs, "Short.").program_fields == {}


@pytest.mark.parametrize("answer", ['{"n": 123456789012345678901234567890}', '{"a": ' * 300 + "1" + "}" * 300])
def test_a_form_that_no_record_has_room_for_is_still_a_turn(answer: str) -> None:
    turn = Trace().span(1, "chat m", chat("A long text.", answer)).turn()
    assert turn_from_json(turn_to_json(turn)).actual_output == answer


def test_a_turn_without_fields_is_written_as_before() -> None:
    assert b"program_fields" not in turn_to_json(Turn(turn_id="t", input="a", actual_output="b"))
    assert turn_from_json(turn_to_json(TURN)) == TURN


def test_captured_programs_have_their_fields() -> None:
    dspy = [turn.program_fields for turn in normalize([PAYLOADS / "openinference-dspy"]) if turn.error is None]
    assert all({"inputs.question", "outputs.answer"} <= each.keys() for each in dspy)
    forms = [turn for turn in normalize([PAYLOADS / "openinference-instructor"]) if turn.error is None]
    assert [each.program_fields["outputs.answer"] in (each.actual_output or "") for each in forms] == [True] * 4


async def test_evaluators_name_them() -> None:
    contains = Contains(name="c", search_text="short", searched="outputs.summary")
    await assert_score_async(TURN, contains, at_least=1)
    await assert_score_async(TURN, Regex(name="r", pattern='"a"', searched="outputs.tags"), at_least=1)
    judge = ScriptedJudge({"score": 8, "reason": "fine"})
    prompt = PromptEvaluator(name="p", prompt="Is {{outputs.summary}} true to {{inputs.article}}?")
    await assert_score_async(TURN, prompt, judge, at_least=0.75, at_most=0.85)
    assert judge.questions[0].prompt.material == {"inputs.article": "A long text.", "outputs.summary": "Short."}


async def test_a_field_that_a_turn_lacks_is_missing() -> None:
    prompt = PromptEvaluator(name="p", prompt="Is {{outputs.title}} polite?")
    assert prompt.requires == {"outputs.title"}
    outcome = (await evaluate(prompt, TURN, ScriptedJudge({}))).outcome
    assert outcome == Skipped(reason="missing_field: outputs.title")


def test_other_names_are_refused() -> None:
    with pytest.raises(ValidationError, match=r"unknown outputs"):
        PromptEvaluator(name="p", prompt="Is {{outputs}} polite?")
    with pytest.raises(ValidationError):
        GEval.model_validate({"name": "g", "criteria": "Polite.", "evaluation_params": ["outputs."]})
    g_eval = GEval.model_validate({"name": "g", "criteria": "Polite.", "evaluation_params": ["outputs.title", "input"]})
    assert g_eval.requires == {"outputs.title", "input"}
