"""Judges that compare: with a reference, key by key, by behaviour, by a prompt of one's own, and one answer with another."""

import json

import pytest
from pydantic import ValidationError

from evaluators.cases import Message, ToolCall
from evaluators.catalogue import load_evaluators
from evaluators.evaluation import evaluate
from evaluators.results import Failure, Skipped
from evaluators.testing import ScriptedJudge, a_moment, a_turn
from evaluators.turn.llm_judge import LLMJudge
from evaluators.turn.llm_judge_strict_json import LLMJudgeStrictJson, score_of
from evaluators.turn.llm_judge_trajectory import LLMJudgeTrajectory
from evaluators.turn.pairwise_dimensions import DIMENSIONS, PairwiseDimensions
from evaluators.turn.prompt import PromptEvaluator

EIGHTY = {"reason": "close", "score": 80}


async def judged(evaluator, turn, judge):
    return (await evaluate(evaluator, turn, judge, now=a_moment)).outcome


# llm_judge


async def test_semantic_similarity_from_0_to_100():
    judge = ScriptedJudge(EIGHTY)
    outcome = await judged(LLMJudge(name="j"), a_turn(expected_output="The capital is Paris."), judge)
    assert (outcome.value, outcome.raw_score, outcome.range) == (0.8, 80, (0, 100))
    assert judge.questions[0].prompt.material == {"expected_output": "The capital is Paris.", "actual_output": "Paris."}
    assert (
        "Compare what an AI application answered with what was expected: `actual_output`"
        in judge.questions[0].prompt.instructions
    )


async def test_a_prompt_of_ones_own():
    judge = ScriptedJudge(EIGHTY)
    evaluator = LLMJudge(
        name="j", prompt="Compare {{ActualOutput}} to {{ ExpectedOutput }}.", temperature=0.2, max_tokens=99
    )
    await judged(evaluator, a_turn(expected_output="x {{ActualOutput}}"), judge)
    asked = judge.questions[0].prompt
    assert "Compare `actual_output` to `expected_output`." in asked.instructions
    assert (asked.temperature, asked.max_tokens) == (0.2, 99)
    assert asked.material["expected_output"] == "x {{ActualOutput}}"


@pytest.mark.parametrize(
    ("prompt", "what"),
    [
        ("Judge {{ActualOutput}}.", "lacks {{ExpectedOutput}}"),
        ("Judge.", "lacks {{ActualOutput}}, {{ExpectedOutput}}"),
        ("{{ActualOutput}} {{ExpectedOutput}} {{Input}}", "unknown {{Input}}"),
    ],
)
def test_placeholders_are_checked_at_load(prompt, what):
    with pytest.raises(ValidationError, match=what):
        LLMJudge(name="j", prompt=prompt)


@pytest.mark.parametrize(
    ("target", "actual", "expected", "shown"),
    [
        ("answer", '{"answer": "Paris", "id": 12345}', '{"answer": "It is Paris"}', ("Paris", "It is Paris")),
        ("answer", '{"answer": "Paris"}', "It is Paris", ("Paris", "It is Paris")),
        ("lines[1].price", '{"lines": [{}, {"price": 12345}]}', "12345", (12345, "12345")),
        (["a", "b.c"], '{"a": 1, "b": {"c": 2}}', '{"a": 1, "b": {"c": 3}}', ({"a": 1, "b.c": 2}, {"a": 1, "b.c": 3})),
        ("*", '{"a": 1}', "x", ('{"a": 1}', "x")),
    ],
)
async def test_a_part_of_the_outputs(target, actual, expected, shown):
    judge = ScriptedJudge(EIGHTY)
    turn = a_turn(actual_output=actual, expected_output=expected)
    await judged(LLMJudge(name="j", target_output_key=target), turn, judge)
    material = judge.questions[0].prompt.material
    assert (material["actual_output"], material["expected_output"]) == shown


async def test_a_reference_without_the_part_is_no_reference():
    turn = a_turn(actual_output='{"b": 1}', expected_output='{"a": 1}')
    outcome = await judged(LLMJudge(name="j", target_output_key="b"), turn, ScriptedJudge("never"))
    assert outcome == Skipped(reason="missing_field: expected_output.b")


@pytest.mark.parametrize("actual", ['{"a": 1}', "Sorry, I cannot help.", "[]", "7"])
@pytest.mark.parametrize("target", ["b", ["b", "c.d"]])
@pytest.mark.parametrize("kind", ["llm_judge", "llm_judge_strict_json", "json_similarity", "exact_match"])
async def test_an_answer_without_the_part_is_wrong(kind, target, actual):
    """Skipped, exactly the worst answers left the mean."""
    expected = {"b": {"x": 1}, "c": {"d": {"y": 1}}}
    turn = a_turn(actual_output=actual, expected_output=json.dumps(expected))
    evaluator = load_evaluators()[kind](name="j", target_output_key=target)
    judge = ScriptedJudge(AssertionError("asked"))
    assert (await judged(evaluator, turn, judge)).value == 0.0


@pytest.mark.parametrize(("actual", "expected", "value"), [("[]", " []", 1.0), ("{}", "{}", 1.0), ("[]", "[1]", 0.0)])
async def test_an_empty_answer_that_was_expected_is_judged(actual, expected, value):
    turn = a_turn(actual_output=actual, expected_output=expected)
    judge = ScriptedJudge({"reason": "so", "score": 100})
    outcome = await judged(LLMJudge(name="j"), turn, judge)
    assert (outcome.value, len(judge.questions)) == (value, value)


@pytest.mark.parametrize("path", ["", ".a", "a..b", "a[x]", "a[-1]", "["])
def test_what_is_no_path(path):
    with pytest.raises(ValidationError):
        LLMJudge(name="j", target_output_key=path)


async def test_default_criteria_stand_in_for_a_missing_reference():
    evaluator = LLMJudge(
        name="j", default_evaluation_criteria={"expected_output": {"answer": "Paris"}}, target_output_key="answer"
    )
    judge = ScriptedJudge(EIGHTY)
    await judged(evaluator, a_turn(actual_output='{"answer": "Rome"}'), judge)
    assert judge.questions[0].prompt.material["expected_output"] == "Paris"
    assert await judged(LLMJudge(name="j"), a_turn(), judge) == Skipped(reason="missing_field: expected_output")


async def test_default_criteria_also_key_by_key():
    evaluator = LLMJudgeStrictJson(name="j", default_evaluation_criteria={"expected_output": {"a": 1, "b": 2}})
    judge = ScriptedJudge(AssertionError("asked"))
    assert (await judged(evaluator, a_turn(actual_output='{"a": 1}'), judge)).value == 0.5
    own = a_turn(actual_output='{"a": 1}', expected_output='{"a": 1}')
    assert (await judged(evaluator, own, judge)).value == 1.0
    assert await judged(LLMJudgeStrictJson(name="j"), a_turn(actual_output="{}"), judge) == Skipped(
        reason="missing_field: expected_output"
    )


async def test_a_score_beyond_100_is_no_perfect_one():
    outcome = await judged(
        LLMJudge(name="j"), a_turn(expected_output="x"), ScriptedJudge({"reason": "r", "score": 9999})
    )
    assert isinstance(outcome, Failure)


# llm_judge_strict_json


def labels(*words):
    return {"labels": [{"reason": "r", "label": word} for word in words]}


async def strict(actual, expected, judge):
    return await judged(LLMJudgeStrictJson(name="s"), a_turn(actual_output=actual, expected_output=expected), judge)


async def test_identical_keys_need_no_judge():
    judge = ScriptedJudge("never")
    outcome = await strict('{"a": 1, "b": [true, {"c": 2.0}]}', '{"b": [true, {"c": 2}], "a": 1.0}', judge)
    assert (outcome.value, outcome.method, judge.questions) == (1.0, "deterministic", [])


async def test_code_does_the_counting():
    expected = '{"same": 1, "near": "New York", "far": "x", "gone": 1}'
    actual = '{"same": 1, "near": "NYC", "far": "y", "more": 1, "most": 2}'
    judge = ScriptedJudge(labels("similar", "different"))
    outcome = await strict(actual, expected, judge)
    assert outcome.raw_score == pytest.approx(100 - (50 + 100 + 100 + 10 + 10) / 4)
    assert outcome.value == pytest.approx(outcome.raw_score / 100)
    assert [item["key"] for item in judge.questions[0].prompt.material["items"]] == ["near", "far"]
    assert outcome.details["labels"]["gone"] == "missing"
    assert outcome.explanation == "1 identical, 1 similar, 1 different, 1 missing, 2 extra"


@pytest.mark.parametrize(
    ("expected_keys", "words", "score"),
    [
        (0, [], 100.0),
        (0, ["extra"], 0.0),
        (1, ["identical"] + ["extra"] * 11, 0.0),
        (2, ["identical", "extra"], 90.0 + 5.0),
        (1, ["missing"], 0.0),
    ],
)
def test_floor_and_nothing_expected(expected_keys, words, score):
    assert score_of(expected_keys, words) == score


async def test_an_answer_that_is_no_object_has_no_key():
    assert (await strict("sorry", '{"a": 1}', ScriptedJudge("never"))).value == 0.0


async def test_a_reference_that_is_no_object_cannot_be_compared_with():
    outcome = await strict('{"a": 1}', "a text", ScriptedJudge("never"))
    assert outcome == Skipped(reason="invalid_field: expected_output is no JSON object")


async def test_true_is_not_1():
    judge = ScriptedJudge(labels("different"))
    assert (await strict('{"a": true}', '{"a": 1}', judge)).value == 0.0


# llm_judge_trajectory


async def test_trajectory_shows_the_run_in_order():
    turn = a_turn(
        "Refund me.",
        "Done.",
        history=(Message(role="user", content="Hi"),),
        tools_called=(ToolCall(id="7", name="lookup", arguments={"order": 1}, result="found"),),
    )
    judge = ScriptedJudge(EIGHTY)
    outcome = await judged(LLMJudgeTrajectory(name="t", expected_agent_behavior="Looks up first."), turn, judge)
    assert outcome.value == 0.8
    assert judge.questions[0].prompt.material["agent_run_history"] == [
        {"role": "user", "content": "Hi"},
        {"role": "user", "content": "Refund me."},
        {"role": "tool", "name": "lookup", "arguments": {"order": 1}, "result": "found"},
        {"role": "assistant", "content": "Done."},
    ]
    assert "“Looks up first.”" in judge.questions[0].prompt.instructions


async def test_behaviour_that_comes_with_the_turn_is_data():
    evaluator = LLMJudgeTrajectory(name="t", expected_agent_behavior_attribute="test.behaviour")
    judge = ScriptedJudge(EIGHTY)
    await judged(evaluator, a_turn(attributes={"test.behaviour": "Asks back."}), judge)
    assert judge.questions[0].prompt.material["expected_agent_behavior"] == "Asks back."
    assert "Asks back." not in judge.questions[0].prompt.instructions
    assert await judged(evaluator, a_turn(), judge) == Skipped(reason="missing_field: attributes.test.behaviour")


@pytest.mark.parametrize("fields", [{}, {"expected_agent_behavior": "a", "expected_agent_behavior_attribute": "b"}])
def test_one_source_of_the_expected_behaviour(fields):
    with pytest.raises(ValidationError, match="exactly one"):
        LLMJudgeTrajectory(name="t", **fields)


def test_trajectory_placeholders():
    with pytest.raises(ValidationError, match=r"lacks {{AgentRunHistory}}"):
        LLMJudgeTrajectory(name="t", expected_agent_behavior="a", prompt="See {{ExpectedAgentBehavior}}.")


# prompt


async def test_a_prompt_names_the_fields_it_shows():
    judge = ScriptedJudge({"reason": "r", "score": 3})
    evaluator = PromptEvaluator(
        name="p",
        prompt="Is {{actual_output}} polite, given {{input}}?",
        rubric=[
            {"score_range": (1, 2), "expected_outcome": "rude"},
            {"score_range": (3, 5), "expected_outcome": "polite"},
        ],
    )
    outcome = await judged(evaluator, a_turn(system_prompt="hidden"), judge)
    asked = judge.questions[0].prompt
    assert outcome.value == 0.5
    assert "Is `actual_output` polite, given `input`?" in asked.instructions
    assert "- 1 to 2: rude" in asked.instructions
    assert asked.material == {"input": "What is the capital of France?", "actual_output": "Paris."}


@pytest.mark.parametrize(("prompt", "what"), [("Is it polite?", "names no field"), ("{{answer}}", "unknown answer")])
def test_prompts_that_make_no_sense(prompt, what):
    with pytest.raises(ValidationError, match=what):
        PromptEvaluator(name="p", prompt=prompt)


# pairwise_dimensions


def assessed(score, evidence=()):
    return {"reason": "r", "evidence": list(evidence), "score": score}


def preferring(rule):
    """A judge that scores the answers in places a and b by a rule on their texts and places."""

    def answer(prompt, _reply):
        scores = {place: rule(prompt.material[place], place) for place in ("a", "b")}
        return {name: {place: assessed(score) for place, score in scores.items()} for name in DIMENSIONS}

    return ScriptedJudge(answer)


PAIR = a_turn("Request?", "a good answer", attributes={"shadow": "a bad answer"})
PAIRWISE = PairwiseDimensions(name="p", other_output_attribute="shadow")


async def test_the_perfect_answer_wins_and_the_awful_one_loses():
    judge = preferring(lambda text, _place: 5 if "good" in text else 1)
    outcome = await judged(PAIRWISE, PAIR, judge)
    assert (outcome.value, outcome.label) == (1.0, "better")
    assert outcome.details["overall"] == {"actual_output": 5, "other_output": 1}
    assert outcome.details["confidence"] == 1.0
    reverse = a_turn("Request?", "a bad answer", attributes={"shadow": "a good answer"})
    assert (await judged(PAIRWISE, reverse, judge)).label == "worse"


async def test_a_judge_that_prefers_a_place_makes_a_tie():
    outcome = await judged(PAIRWISE, PAIR, preferring(lambda _text, place: 4 if place == "a" else 2))
    assert (outcome.value, outcome.label) == (0.5, "tie")
    assert outcome.details["confidence"] == 0.0
    assert "order of presentation" in outcome.explanation


async def test_neutral_names_in_both_places():
    judge = preferring(lambda _text, _place: 3)
    outcome = await judged(PAIRWISE, PAIR, judge)
    first, second = (asked.prompt for asked in judge.questions)
    assert outcome.label == "tie"
    assert (first.material["a"], first.material["b"]) == (second.material["b"], second.material["a"])
    assert first.instructions == second.instructions
    assert not {"baseline", "enhanced", "live", "shadow", "canary"} & set(first.instructions.lower().split())
    assert "5 excellent" in first.instructions


async def test_evidence_that_nobody_wrote_is_left_out():
    def answer(prompt, _reply):
        sides = {place: assessed(3, ["a  GOOD answer", "never written"]) for place in ("a", "b")}
        return dict.fromkeys(DIMENSIONS, sides)

    outcome = await judged(PAIRWISE, PAIR, ScriptedJudge(answer))
    accuracy = outcome.details["dimensions"]["accuracy"]
    assert accuracy["actual_output"]["evidence"] == ["a  GOOD answer"]
    assert accuracy["other_output"]["evidence"] == []


async def test_some_dimensions_only():
    judge = ScriptedJudge({"clarity": {"a": assessed(4), "b": assessed(4)}})
    evaluator = PairwiseDimensions(name="p", other_output_attribute="shadow", dimensions=["clarity"])
    assert (await judged(evaluator, PAIR, judge)).label == "tie"
    assert "accuracy" not in judge.questions[0].prompt.instructions


async def test_without_another_answer_there_is_nothing_to_compare():
    assert await judged(PAIRWISE, a_turn(), ScriptedJudge("never")) == Skipped(
        reason="missing_field: attributes.shadow"
    )


# Reasons


async def test_quotations_out_of_nowhere_are_counted():
    judge = ScriptedJudge(
        {"reason": 'It says "refund at no extra cost" but not "if the shoes do not fit".', "score": 80}
    )
    turn = a_turn(actual_output="A full refund at no extra cost.", expected_output="30 days, full refund")
    outcome = await judged(LLMJudge(name="j"), turn, judge)
    assert outcome.details["unfounded_quotes"] == 1


async def test_an_ungrounded_reason_without_quotation_marks_is_not_found_out():
    """The walk-through that G-Eval is explained with gives such a reason: a reason is not proof."""
    reason = "It adds a condition about shoes not fitting, but conveys the 30-day full refund at no extra cost."
    turn = a_turn(
        actual_output="You have 30 days to get a full refund at no extra cost.",
        expected_output="We offer a 30-day full refund at no extra costs.",
    )
    outcome = await judged(LLMJudge(name="j"), turn, ScriptedJudge({"reason": reason, "score": 90}))
    assert "unfounded_quotes" not in outcome.details


async def test_dimensions_of_ones_own():
    def answer(_prompt, reply):
        side = {"reason": "r", "evidence": []}
        return {name: {"a": side | {"score": 4}, "b": side | {"score": 4}} for name in reply.model_fields}

    evaluator = PairwiseDimensions(
        name="p",
        other_output_attribute="shadow",
        dimensions=["accuracy"],
        own_dimensions={"tone": "does it sound like a friendly librarian?"},
    )
    judge = ScriptedJudge(answer)
    outcome = await judged(evaluator, a_turn(attributes={"shadow": "Lyon."}), judge)
    assert list(outcome.details["dimensions"]) == ["accuracy", "tone"]
    assert "- tone: does it sound like a friendly librarian?" in judge.questions[0].prompt.instructions
    with pytest.raises(ValidationError, match="clarity is built in"):
        PairwiseDimensions(name="p", other_output_attribute="shadow", own_dimensions={"clarity": "is it clear?"})
    with pytest.raises(ValidationError):
        PairwiseDimensions(name="p", other_output_attribute="shadow", own_dimensions={"not a name": "?"})


# what the judge also writes


async def test_points_to_consider_and_what_the_comparison_comes_to():
    answers = {"tone": {"a": assessed(4), "b": assessed(2)}}
    summary = {"key_differences": ["a is kind"], "rationale": "a is kinder.", "recommendations": ["b: say thanks"]}
    judge = ScriptedJudge(answers | summary)
    evaluator = PairwiseDimensions(
        name="p",
        other_output_attribute="shadow",
        dimensions=(),
        own_dimensions={"tone": "is it kind?"},
        consider={"tone": ["Does it say thanks?"]},
        summary=True,
    )
    outcome = await judged(evaluator, PAIR, judge)
    instructions = judge.questions[0].prompt.instructions
    assert "- tone: is it kind?\n  - consider: Does it say thanks?" in instructions
    assert list(judge.questions[0].reply.model_json_schema()["properties"]) == ["tone", *summary]
    assert {name: outcome.details[name] for name in summary} == summary
    assert evaluator.version != PAIRWISE.version


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"dimensions": ()}, "nothing is compared"),
        ({"consider": {"tone": ["x"]}}, "no dimension"),
        ({"own_dimensions": {"rationale": "x"}}, "part of the summary"),
    ],
)
def test_comparisons_that_make_no_sense(fields, what):
    with pytest.raises(ValidationError, match=what):
        PairwiseDimensions(name="p", other_output_attribute="shadow", **fields)


STRICT = {"expected_output": '{"total": "12 EUR"}'}


async def test_a_prompt_of_ones_own_says_what_makes_values_similar():
    prompt = "{{ActualOutput}} is similar to {{ExpectedOutput}} if only the currency differs."
    evaluator = LLMJudgeStrictJson(name="s", prompt=prompt)
    judge = ScriptedJudge({"labels": [{"reason": "currency", "label": "similar"}]})
    outcome = await judged(evaluator, a_turn("?", '{"total": "12 USD"}', **STRICT), judge)
    assert outcome.value == 0.5
    assert "`actual` is similar to `expected` if only the currency differs." in judge.questions[0].prompt.instructions
    assert evaluator.version != LLMJudgeStrictJson(name="s").version


@pytest.mark.parametrize(
    "prompt", ["no names", "{{ActualOutput}} alone", "{{ActualOutput}} {{ExpectedOutput}} {{input}}"]
)
def test_a_strict_prompt_names_both_values(prompt):
    with pytest.raises(ValidationError):
        LLMJudgeStrictJson(name="s", prompt=prompt)
