import dataclasses

import pytest
from pydantic import ValidationError

from evaluators.asking.transcript import TranscriptSettings, build_transcript
from evaluators.cases import ToolCall
from evaluators.conversation.g_eval import ConversationalGEval
from evaluators.errors import NotApplicable
from evaluators.evaluation import evaluate
from evaluators.results import Skipped
from evaluators.testing import ScriptedJudge, a_conversation, a_moment
from tests.builders.judges import verdict_tokens

TALK = a_conversation(
    ("Hi", "Hello"),
    ("My order?", "On its way"),
    chatbot_role="a clerk",
    scenario="an order is late",
    expected_outcome="the user knows when it comes",
)
STEPS = {"steps": ["Read all."]}


def g_eval(**fields):
    return ConversationalGEval(**({"name": "c", "criteria": "Polite throughout."} | fields))


def answering(verdict):
    return ScriptedJudge(lambda prompt, _reply: STEPS if prompt.constant else verdict)


async def judged(evaluator, case=TALK, verdict=None, judge=None):
    judge = judge or answering(verdict or {"reason": "so", "score": 9})
    return (await evaluate(evaluator, case, judge, now=a_moment)).outcome


async def test_all_turns_in_one_question():
    judge = answering(verdict_tokens("9", {"9": 0.5, "8": 0.5}))
    outcome = await judged(g_eval(), judge=judge)
    assert (outcome.value, outcome.method) == (pytest.approx(0.85), "logprobs")
    assert judge.questions[1].prompt.material == {
        "turns": [
            {"number": 1, "input": "Hi", "actual_output": "Hello"},
            {"number": 2, "input": "My order?", "actual_output": "On its way"},
        ]
    }


async def test_fields_of_turns_and_of_the_conversation():
    tool = ToolCall(id="1", name="track", arguments={"order": 1})
    turns = (TALK.turns[0], dataclasses.replace(TALK.turns[1], tools_called=(tool,), retrieval_context=("late",)))
    case = dataclasses.replace(TALK, turns=turns)
    params = ["input", "tools_called", "retrieval_context", "scenario", "expected_outcome", "chatbot_role"]
    judge = answering({"reason": "so", "score": 9})
    await judged(g_eval(evaluation_params=params), case, judge=judge)
    material = judge.questions[1].prompt.material
    assert material["turns"] == [
        {"number": 1, "input": "Hi"},
        {
            "number": 2,
            "input": "My order?",
            "tools_called": [{"name": "track", "arguments": {"order": 1}}],
            "retrieval_context": ["late"],
        },
    ]
    assert [material[name] for name in ("scenario", "expected_outcome", "chatbot_role")] == [
        "an order is late",
        "the user knows when it comes",
        "a clerk",
    ]


async def test_a_rubric_sets_the_scale():
    rubric = [{"score_range": (1, 5), "expected_outcome": "any"}]
    outcome = await judged(g_eval(rubric=rubric), verdict={"reason": "so", "score": 5})
    assert (outcome.value, outcome.range) == (1.0, (1, 5))


async def test_a_digit_in_the_reason_decides_nothing():
    said = verdict_tokens("9", {"9": 1.0}, reason="turn 9 of 2")
    assert (await judged(g_eval(), verdict=said)).value == pytest.approx(0.9)


async def test_strict_mode_is_as_binary_as_for_turns():
    outcome = await judged(g_eval(strict_mode=True), verdict={"reason": "so", "score": 0})
    assert (outcome.value, outcome.label, outcome.range) == (0.0, "fail", (0, 1))
    with pytest.raises(ValidationError, match="threshold and strict_mode"):
        g_eval(strict_mode=True, threshold=0.9)


async def test_what_the_conversation_lacks():
    bare = a_conversation(("Hi", "Hello"))
    outcome = await judged(g_eval(evaluation_params=["input", "scenario", "retrieval_context"]), bare)
    assert outcome == Skipped(reason="missing_field: scenario, turns.retrieval_context")


async def test_a_turn_that_failed_belongs_to_the_conversation():
    failed = dataclasses.replace(TALK.turns[1], actual_output=None, error="timeout")
    judge = answering({"reason": "so", "score": 2})
    params = ["input", "actual_output", "error"]
    outcome = await judged(
        g_eval(evaluation_params=params), dataclasses.replace(TALK, turns=(TALK.turns[0], failed)), judge=judge
    )
    assert outcome.value == 0.2
    assert judge.questions[1].prompt.material["turns"][1] == {"number": 2, "input": "My order?", "error": "timeout"}


def with_gaps(case, *positions):
    """The conversation, these of its turns without their answers."""
    turns = [
        dataclasses.replace(turn, actual_output=None, incomplete="redacted") if at in positions else turn
        for at, turn in enumerate(case.turns)
    ]
    return dataclasses.replace(case, turns=tuple(turns))


@pytest.mark.parametrize(
    ("positions", "fields", "skipped"),
    [((1,), {}, False), ((0, 1), {}, True), ((1,), {"max_incomplete": 0.4}, True), ((1,), {"max_incomplete": 0}, True)],
)
async def test_a_conversation_is_judged_by_its_complete_turns(positions, fields, skipped):
    judge = answering({"reason": "so", "score": 9})
    outcome = await judged(g_eval(**fields), with_gaps(TALK, *positions), judge=judge)
    if skipped:
        assert (outcome, judge.questions) == (Skipped(reason="incomplete: redacted"), [])
        return
    assert (outcome.value, outcome.details["incomplete_turns"]) == (0.9, 1)
    assert judge.questions[1].prompt.material["turns"][1] == {
        "number": 2,
        "input": "My order?",
        "incomplete": "parts of this turn were not recorded; what they said is unknown",
    }


async def test_what_only_an_incomplete_turn_has_is_missing():
    half = dataclasses.replace(TALK.turns[0], actual_output="Hel", incomplete="truncated")
    case = dataclasses.replace(TALK, turns=(half, dataclasses.replace(TALK.turns[1], actual_output=None)))
    assert await judged(g_eval(), case) == Skipped(reason="missing_field: turns.actual_output")


def test_a_limit_that_is_configured_is_part_of_the_version():
    plain = g_eval().version
    assert (g_eval(max_incomplete=0.5).version, g_eval(max_incomplete=0.2).version == plain) == (plain, False)


# The window


def long_talk(turns, characters):
    return a_conversation(*((f"question {n}", "x" * characters) for n in range(1, turns + 1)))


async def test_a_long_conversation_is_shown_without_its_middle():
    judge = answering({"reason": "so", "score": 9})
    outcome = await judged(g_eval(token_budget=1000), long_talk(50, 400), judge=judge)
    shown = judge.questions[1].prompt.material["turns"]
    numbers = [turn["number"] if isinstance(turn, dict) else turn for turn in shown]
    assert numbers == [1, 2, 3, 4, "[… 42 turns left out …]", 47, 48, 49, 50]
    assert outcome.details["truncated"] is True


def test_the_window_is_the_same_every_time():
    case = long_talk(50, 400)
    assert (
        build_transcript(case, (), TranscriptSettings(token_budget=1000)).content
        == build_transcript(case, (), TranscriptSettings(token_budget=1000)).content
    )


def test_within_the_budget_nothing_is_left_out():
    transcript = build_transcript(long_talk(50, 400), (), TranscriptSettings(token_budget=10_000))
    assert (len(transcript.turns), transcript.truncated) == (50, False)


def test_one_huge_turn_is_cut_but_shown():
    transcript = build_transcript(long_talk(3, 100_000), (), TranscriptSettings(token_budget=500))
    assert [number for number, _, _ in transcript.turns][-1] == 3
    assert transcript.truncated
    assert len(str(transcript.content)) < 500 * 4 * 2


def test_a_conversation_without_turns():
    with pytest.raises(NotApplicable):
        build_transcript(a_conversation(), (), TranscriptSettings())
