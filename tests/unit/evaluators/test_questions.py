"""Typed questions: which evaluators have them, and what their scores are by a judge's probabilities."""

import math

import pytest

from evaluators import (
    Completeness,
    GEval,
    GoalAccuracy,
    PairwiseDimensions,
    TopicAdherence,
    evaluate,
)
from evaluators.answers.decided_answers import decided_answer
from evaluators.catalogue import make_example
from evaluators.errors import JudgeReplyInvalid
from evaluators.mechanisms.classification import LabelDefinition
from evaluators.questions import (
    ChoiceQuestion,
    Decision,
    Option,
    PredicateQuestion,
    ScoreQuestion,
    guide_before,
    score_levels,
)
from evaluators.results import Failure, Score
from evaluators.scale import Scale
from evaluators.testing import ScriptedJudge, a_conversation, a_moment, a_turn, answer_any_form
from evaluators.turn.classifier import Classifier
from evaluators.turn.faithfulness import Faithfulness
from evaluators.turn.judged_refusal import JudgedRefusal
from evaluators.turn.llm_judge_strict_json import LLMJudgeStrictJson
from evaluators.turn.prompt import PromptEvaluator
from tests.builders.judges import DecidingJudge
from tests.contract.test_evaluators import JUDGED, case_for

ASKING = [cls for cls in JUDGED if cls.kind != "similarity"]  # that one asks for vectors


async def score_of(evaluator, case, decide, writer=None):
    judge = DecidingJudge(decide, writer or ScriptedJudge(answer_any_form()))
    outcome = (await evaluate(evaluator, case, judge, now=a_moment)).outcome
    return outcome, judge


def evenly(question):
    return {option.value: 1 / len(question.options) for option in question.options}


def the_last(question):
    *others, last = question.options
    return {each.value: 0.0 for each in others} | {last.value: 1.0}


@pytest.mark.parametrize("cls", ASKING, ids=lambda cls: cls.kind)
async def test_every_judged_evaluator_takes_a_decision(cls):
    outcome, judge = await score_of(make_example(cls), case_for(cls), evenly)
    assert isinstance(outcome, Score)
    assert outcome.method == "decision"
    assert 0.0 <= outcome.value <= 1.0
    assert judge.questions
    for prompt in judge.questions:
        [group] = prompt.groups
        for said in (group.guide, *(question.text for question in group.questions)):
            assert not any(form in said for form in ("JSON object and nothing", "<why>", "Write the reason"))
        for question in group.questions:
            assert len({option.value for option in question.options}) == len(question.options) >= 2


@pytest.mark.parametrize("cls", ASKING, ids=lambda cls: cls.kind)
async def test_evaluators_know_whether_something_has_to_be_written(cls):
    writer = ScriptedJudge(answer_any_form())
    await score_of(make_example(cls), case_for(cls), evenly, writer)
    assert bool(writer.questions) == make_example(cls).needs_writer


@pytest.mark.parametrize("cls", ASKING, ids=lambda cls: cls.kind)
async def test_a_refused_question_is_no_score(cls):
    outcome, _ = await score_of(make_example(cls), case_for(cls), lambda _question: {})
    assert isinstance(outcome, Failure)
    assert outcome.type == "judge_refused"


async def test_a_scale_is_the_mean_over_its_levels():
    helpful = GEval(name="h", evaluation_steps=("Is it right?",), evaluation_params=("actual_output",))
    outcome, judge = await score_of(helpful, a_turn(), lambda _question: {"10": 0.5, "7": 0.25, "1": 0.25})
    assert outcome.value == pytest.approx((10 * 0.5 + 7 * 0.25 + 1 * 0.25) / 10)
    assert outcome.raw_score == 10.0
    assert outcome.explanation is None
    variance = 0.5 * 3**2 + 0.25 * 0**2 + 0.25 * 6**2
    assert outcome.details == {
        "expected": 7.0,
        "masses": {"10": 0.5, "7": 0.25, "1": 0.25},
        "uncertainty": pytest.approx(math.sqrt(variance) / 10),
    }
    [question] = judge.questions[0].groups[0].questions
    assert [option.value for option in question.options] == [str(number) for number in range(11)]
    assert judge.questions[0].groups[0].guide.endswith("- actual_output: what the application answered")


async def test_a_rubric_says_what_the_levels_mean():
    rubric = [
        {"score_range": (0, 4), "expected_outcome": "wrong"},
        {"score_range": (5, 10), "expected_outcome": "right"},
    ]
    rated = PromptEvaluator(name="p", prompt="Is {{actual_output}} right?", rubric=rubric)
    _, judge = await score_of(rated, a_turn(), evenly)
    [question] = judge.questions[0].groups[0].questions
    assert [option.meaning for option in question.options] == ["wrong"] * 5 + ["right"] * 6


async def test_worked_examples_stay_in_the_guide():
    example = {"case": {"actual_output": "Rome"}, "score": 2, "reason": "Wrong town."}
    rated = PromptEvaluator(name="p", prompt="Is {{actual_output}} right?", examples=[example])
    _, judge = await score_of(rated, a_turn(), evenly)
    assert judge.questions[0].groups[0].guide.endswith('Case: {"actual_output":"Rome"}\nAnswer: {"score":2}')


async def test_strict_mode_has_two_levels():
    strict = GEval(name="h", evaluation_steps=("Right?",), evaluation_params=("actual_output",), strict_mode=True)
    outcome, judge = await score_of(strict, a_turn(), lambda _question: {"0": 0.9, "1": 0.1})
    assert outcome.value == pytest.approx(0.1)
    assert [option.value for option in judge.questions[0].groups[0].questions[0].options] == ["0", "1"]


@pytest.mark.parametrize(
    ("scale", "levels"),
    [
        ((0, 1), [0, 1]),
        ((1, 5), [1, 2, 3, 4, 5]),
        ((0, 10), list(range(11))),
        ((0, 100), list(range(0, 101, 10))),
        ((1, 100), [1, 11, 21, 31, 41, 51, 60, 70, 80, 90, 100]),
    ],
)
def test_levels_of_a_scale(scale, levels):
    options = score_levels(Scale(*scale))
    assert [int(option.value) for option in options] == levels
    assert (options[0].meaning, options[-1].meaning) == ("the worst", "the best that can be said")


async def test_verdicts_count_by_their_probabilities():
    turn = a_turn(retrieval_context=("Paris is the capital.",))
    answers = iter([{"yes": 0.5, "no": 0.2, "unclear": 0.3}, {"yes": 0.0, "no": 0.9, "unclear": 0.1}])
    writer = ScriptedJudge({"items": ["one claim", "another claim"]})
    outcome, judge = await score_of(Faithfulness(name="f"), turn, lambda _question: next(answers), writer)
    assert outcome.value == pytest.approx((0.5 + 0.3 + 0.1) / 2)
    assert outcome.details["uncertainty"] == pytest.approx(math.sqrt(0.8 * 0.2 + 0.1 * 0.9) / 2)
    assert outcome.details["items"][1] == {
        "item": "another claim",
        "verdict": "no",
        "probabilities": {"yes": 0.0, "no": 0.9, "unclear": 0.1},
    }
    assert outcome.explanation == "1 of 2 claims keep to the sources. Item 2: no."
    assert judge.questions[0].material.keys() == {"items", "retrieval_context"}


async def test_labels_are_options_with_their_meanings():
    labels = {"refund": "Money back.", "other": LabelDefinition.model_validate({"meaning": "All else.", "score": 0.5})}
    kind = Classifier(name="c", question="What does the user want?", labels=labels)
    outcome, judge = await score_of(kind, a_turn(), lambda _question: {"refund": 0.4, "other": 0.6})
    assert (outcome.value, outcome.label) == (pytest.approx(0.4 * 1 + 0.6 * 0.5), "other")
    assert outcome.details["confidence"] == 0.6
    group = judge.questions[0].groups[0]
    assert group.questions[0].options == (Option("refund", "Money back."), Option("other", "All else."))
    assert "Money back" not in group.guide
    assert group.guide.startswith("You are a careful and impartial judge")


async def test_labels_of_a_refusal_have_the_meanings_of_its_prompt():
    _, judge = await score_of(JudgedRefusal(name="r"), a_turn(), evenly)
    [question] = judge.questions[0].groups[0].questions
    assert question.options[1].meaning.startswith("it would have, but said that it lacks")


async def test_answers_are_compared_by_their_means():
    turn = a_turn(attributes={"shadow.output": "Rome."})
    compared = PairwiseDimensions(name="p", other_output_attribute="shadow.output", dimensions=("accuracy",))
    ours_first = {("accuracy", "a", "score"): {"5": 0.5, "4": 0.5}, ("accuracy", "b", "score"): {"4": 1.0}}
    theirs_first = {("accuracy", "a", "score"): {"2": 1.0}, ("accuracy", "b", "score"): {"3": 1.0}}
    rounds = iter([ours_first, ours_first, theirs_first, theirs_first])
    outcome, _ = await score_of(compared, turn, lambda question: next(rounds)[question.place])
    assert (outcome.label, outcome.method) == ("better", "decision")
    assert outcome.details["overall"] == {"actual_output": (4.5 + 3) / 2, "other_output": (4 + 2) / 2}


async def test_a_comparison_with_a_summary_has_to_be_written():
    turn = a_turn(attributes={"shadow.output": "Rome."})
    compared = PairwiseDimensions(name="p", other_output_attribute="shadow.output", summary=True)
    outcome, judge = await score_of(compared, turn, evenly)
    assert outcome.method == "single"
    assert not judge.questions


async def test_goal_accuracy_is_the_mean_of_two_means():
    answers = iter([{"10": 1.0}, {"4": 0.5, "6": 0.5}])
    outcome, _ = await score_of(GoalAccuracy(name="g"), a_conversation(("a", "b")), lambda _question: next(answers))
    assert outcome.value == pytest.approx(0.75)
    assert outcome.details["expected"] == {"plan_score": 10.0, "goal_score": 5.0}


async def test_topics_and_answers_are_independent():
    answers = iter([{"yes": 0.9, "no": 0.1}, {"yes": 0.8, "no": 0.2}])
    topical = TopicAdherence(name="t", relevant_topics=("trains",))
    outcome, _ = await score_of(topical, a_conversation(("a", "b")), lambda _question: next(answers))
    assert outcome.value == pytest.approx(0.9 * 0.8 + 0.1 * 0.2)
    assert outcome.details["turns"][0]["on_topic"] == "yes"


async def test_keys_are_penalised_by_probability():
    turn = a_turn(expected_output='{"a": 1, "b": 2}', actual_output='{"a": 1, "b": 3}')
    decision = {"identical": 0.2, "similar": 0.3, "different": 0.5}
    outcome, _ = await score_of(LLMJudgeStrictJson(name="j"), turn, lambda _question: decision)
    assert outcome.raw_score == pytest.approx(100 - (0.3 * 50 + 0.5 * 100) / 2)
    assert outcome.details["probabilities"] == {"b": decision}


async def test_conversations_are_taken_apart_by_the_writer():
    case = a_conversation(("a", "b"))
    outcome, judge = await score_of(Completeness(name="c"), case, the_last)
    assert (outcome.value, outcome.method) == (0.0, "decision")
    assert len(judge.questions) == 1


def test_an_answer_is_made_of_decisions_in_the_form_that_was_asked():
    question = ScoreQuestion(("score",), "?", score_levels(Scale(1, 3)))
    answer = decided_answer(Scale(1, 3).reply, [question], [Decision({"2": 0.6, "3": 0.4})])
    assert answer.reply.model_dump() == {"reason": "", "score": 2}
    assert answer.decisions[0].mean() == pytest.approx(2.4)


def test_decisions_that_are_not_the_answer_are_refused():
    choice = ChoiceQuestion(("colour",), "?", (Option("red"), Option("blue")))
    with pytest.raises(JudgeReplyInvalid, match="do not make up the answer"):
        decided_answer(Scale(1, 3).reply, [choice], [Decision({"red": 1.0})])
    with pytest.raises(JudgeReplyInvalid, match="refused") as refused:
        decided_answer(Scale(1, 3).reply, [choice], [Decision({})])
    assert refused.value.type == "judge_refused"


def test_a_decision():
    decision = Decision({"no": 0.5, "yes": 0.5})
    assert decision.choice == "no", "of equal ones the first by name, whatever order was shown"
    assert decision.entropy == pytest.approx(1.0)
    assert decision.mean({"yes": 1.0, "no": 0.0}) == 0.5
    assert decision.deviation({"yes": 1.0, "no": 0.0}) == 0.5
    assert Decision({}).refused


def test_a_predicate_is_yes_or_no():
    assert [option.value for option in PredicateQuestion(("a",), "?").options] == ["yes", "no"]


def test_a_guide_that_has_no_form():
    with pytest.raises(ValueError, match="do not say 'Then'"):
        guide_before("First.", "Then")
