import asyncio

import pytest
from pydantic import ValidationError

from evaluators import DefinitionCache, GEval
from evaluators.asking.judge_input import MEANINGS, TURN_FIELDS
from evaluators.cases import ToolCall
from evaluators.evaluation import evaluate
from evaluators.results import Score, Skipped
from evaluators.testing import ScriptedJudge, a_moment, a_turn
from tests.builders.judges import verdict_tokens

GOOD = {"reason": "so", "score": 9}
UPTO_FIVE = {"score_range": (0, 5), "expected_outcome": "bad"}
STEPS = {"steps": ["Compare them.", "Look for gaps."]}


def g_eval(**fields):
    defaults = {"name": "correct", "criteria": "The answer is right.", "evaluation_params": ["input", "actual_output"]}
    return GEval(**{key: value for key, value in (defaults | fields).items() if value is not None})


def answering(verdict=GOOD):
    return ScriptedJudge(lambda prompt, _reply: STEPS if prompt.constant else verdict)


async def judged(evaluator, turn=None, judge=None):
    return (await evaluate(evaluator, turn or a_turn(), judge or answering(), now=a_moment)).outcome


# Definition


@pytest.mark.parametrize("fields", [{"evaluation_steps": ["Look."]}, {"criteria": None}])
def test_exactly_one_of_criteria_and_steps(fields):
    with pytest.raises(ValidationError, match="evaluation_steps and"):
        g_eval(**fields)


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        (
            {"rubric": [UPTO_FIVE, UPTO_FIVE | {"score_range": (5, 10)}]},
            "overlap",
        ),
        ({"rubric": [{"score_range": (5, 2), "expected_outcome": "bad"}]}, "the lowest comes first"),
        ({"rubric": [{"score_range": (5, 5), "expected_outcome": "bad"}]}, "highest above its lowest"),
        ({"rubric": [{"score_range": (0, 20), "expected_outcome": "bad"}], "scale": (0, 10)}, "beyond the scale"),
        ({"scale": (3, 3)}, "highest above its lowest"),
        ({"strict_mode": True, "threshold": 0.5}, "threshold and strict_mode"),
        ({"strict_mode": True, "mode": "samples"}, "strict_mode and mode"),
        ({"evaluation_params": ["actual_output", "actual_output"]}, "named twice"),
        ({"evaluation_params": []}, "too_short"),
        ({"evaluation_params": ["answer"]}, "literal_error"),
        ({"treshold": 0.5}, "did you mean 'threshold'?"),
        ({"criteria": "  "}, "pattern"),
    ],
)
def test_definitions_that_make_no_sense(fields, what):
    with pytest.raises(ValidationError) as caught:
        g_eval(**fields)
    assert what in str(caught.value) + str([error["type"] for error in caught.value.errors()])


def test_strict_mode_sets_the_threshold():
    assert g_eval(strict_mode=True).threshold == 1.0
    assert g_eval(strict_mode=True, threshold=1).threshold == 1.0


@pytest.mark.parametrize(
    ("fields", "ends"),
    [
        ({}, (0, 10)),
        ({"scale": (1, 3)}, (1, 3)),
        (
            {
                "rubric": [
                    {"score_range": (1, 2), "expected_outcome": "bad"},
                    {"score_range": (4, 5), "expected_outcome": "good"},
                ]
            },
            (1, 5),
        ),
        ({"strict_mode": True}, (0, 1)),
    ],
)
def test_scales(fields, ends):
    assert g_eval(**fields).score_range == ends


def test_version_is_about_what_changes_scores():
    same = [g_eval(), g_eval(name="other"), g_eval(threshold=0.7), g_eval(description="mine")]
    other = [g_eval(criteria="Else."), g_eval(scale=(1, 5)), g_eval(mode="single"), g_eval(strict_mode=True)]
    assert len({each.version for each in same}) == 1
    assert len({each.version for each in [*same, *other]}) == 5


def test_every_field_of_a_turn_has_a_meaning():
    assert set(TURN_FIELDS) <= set(MEANINGS)
    assert all(hasattr(a_turn(), name) for name in TURN_FIELDS)


# Judging


async def test_steps_then_score():
    judge = answering()
    outcome = await judged(g_eval(description="SECRET NOTE"), judge=judge)
    assert isinstance(outcome, Score)
    assert (outcome.value, outcome.raw_score, outcome.range) == (0.9, 9, (0, 10))
    steps, verdict = (asked.prompt for asked in judge.questions)
    assert "The answer is right." in steps.instructions
    assert steps.constant
    assert "1. Compare them.\n2. Look for gaps." in verdict.instructions
    assert verdict.material == {"input": "What is the capital of France?", "actual_output": "Paris."}
    assert not any("SECRET NOTE" in asked.prompt.instructions for asked in judge.questions)
    assert "Paris" not in verdict.instructions


async def test_configured_steps_need_no_first_question():
    judge = answering()
    await judged(g_eval(criteria=None, evaluation_steps=["Look."]), judge=judge)
    assert len(judge.questions) == 1


async def test_only_the_named_fields_are_shown():
    turn = a_turn(system_prompt="hidden", tools_called=(ToolCall(id="1", name="search", arguments={"q": 1}),))
    judge = answering()
    await judged(g_eval(evaluation_params=["actual_output", "tools_called"]), turn, judge)
    shown = judge.questions[1].prompt.material
    assert shown == {"actual_output": "Paris.", "tools_called": [{"name": "search", "arguments": {"q": 1}}]}


async def test_strict_mode_is_binary():
    judge = answering({"reason": "so", "score": 1})
    outcome = await judged(g_eval(strict_mode=True), judge=judge)
    assert (outcome.value, outcome.label, outcome.method) == (1.0, "pass", "single")
    assert "<0 or 1>" in judge.questions[1].prompt.instructions
    assert not judge.questions[1].logprobs


async def test_rubric_reaches_the_judge_in_order_and_sets_the_scale():
    rubric = [{"score_range": (4, 5), "expected_outcome": "good"}, {"score_range": (1, 3), "expected_outcome": "bad"}]
    judge = answering({"reason": "so", "score": 5})
    outcome = await judged(g_eval(rubric=rubric), judge=judge)
    assert outcome.value == 1.0
    assert "- 1 to 3: bad\n- 4 to 5: good" in judge.questions[1].prompt.instructions


async def test_placeholders_in_a_definition_stay_as_they_are():
    judge = answering()
    await judged(g_eval(criteria=None, evaluation_steps=["Look at {{rubric}} and {{score}}."]), judge=judge)
    assert "1. Look at {{rubric}} and {{score}}." in judge.questions[0].prompt.instructions


async def test_long_texts_are_cut_visibly():
    judge = answering()
    outcome = await judged(g_eval(), a_turn(actual_output="a" * 50_000 + "z"), judge)
    shown = judge.questions[1].prompt.material["actual_output"]
    assert len(shown) < 17_000
    assert "33617 characters left out" in shown
    assert shown.endswith("z")
    assert outcome.details["truncated"] is True


@pytest.mark.parametrize("answer", ["", "  \n", ":", "...", "—?!", "\u200b", "Thought process:", "Solution:"])
async def test_answers_without_a_word_are_not_worth_a_question(answer):
    judge = answering()
    outcome = await judged(g_eval(threshold=0.5), a_turn(actual_output=answer), judge)
    assert (outcome.value, outcome.label, outcome.method, outcome.raw_score) == (0.0, "fail", "deterministic", 0)
    assert judge.questions == []


@pytest.mark.parametrize("answer", ["4", "👍", "да", "+"])
async def test_short_answers_are_answers(answer):
    assert (await judged(g_eval(), a_turn(actual_output=answer))).value == 0.9


async def test_missing_fields_are_skipped():
    evaluator = g_eval(evaluation_params=["actual_output", "expected_output", "retrieval_context", "tools_called"])
    assert await judged(evaluator) == Skipped(reason="missing_field: expected_output, retrieval_context")


async def test_one_definition_for_a_hundred_cases_at_once_writes_its_steps_once():
    inner = answering(verdict_tokens("8", {"8": 1.0}))
    judge = DefinitionCache(inner)
    first, second = g_eval(), g_eval(name="loaded again")
    outcomes = await asyncio.gather(
        *(judged(each, a_turn(f"Question {n}?"), judge) for n in range(50) for each in (first, second))
    )
    assert {outcome.value for outcome in outcomes} == {0.8}
    assert sum(asked.prompt.constant for asked in inner.questions) == 1
    assert len(inner.questions) == 101
