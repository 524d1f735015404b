"""Evaluators whose score is a share: what is taken apart, what is judged with what, and what counts."""

import math
from dataclasses import replace

import pytest

from evaluators.answers.schemas import schema_of
from evaluators.cases import Message, ToolCall
from evaluators.catalogue import load_evaluators
from evaluators.evaluation import evaluate
from evaluators.judge import Token
from evaluators.judges.requests import question_of
from evaluators.mechanisms.item_verdicts import verdicts_form
from evaluators.results import Failure, Score, Skipped
from evaluators.testing import ScriptedAnswer, ScriptedJudge, a_conversation, a_moment, a_turn

TURN = a_turn(
    "Can I return shoes?",
    "Yes, within 30 days. We love shoes.",
    retrieval_context=("Returns: 30 days.", "Shipping: 2 days."),
    context=("Returns are free.", "Shops close at eight.", "Shoes count as clothes."),
)
TALK = a_conversation(("I am Ann.", "Hello!"), ("My order is late.", "Your name?"), ("Ann, as I said!", "Sorry, Ann."))


def verdicts(*words):
    return {"verdicts": [{"reason": f"because {n}", "verdict": word} for n, word in enumerate(words, start=1)]}


def saying(items, *words):
    """A judge that takes a text apart into items, and gives these verdicts."""
    return ScriptedJudge(lambda _p, reply: {"items": items} if "items" in reply.model_fields else verdicts(*words))


async def score(kind, judge, case=TURN, **fields):
    result = await evaluate(load_evaluators()[kind](name=kind, **fields), case, judge, now=a_moment)
    return result.outcome


@pytest.mark.parametrize(
    ("kind", "fields", "value"),
    [
        ("answer_relevancy", {}, 2 / 3),  # yes and unclear
        ("faithfulness", {}, 2 / 3),
        ("faithfulness", {"penalize_unclear": True}, 1 / 3),  # yes alone
        ("hallucination", {}, 1 / 3),
        ("toxicity", {}, 1 / 3),
        ("bias", {}, 1 / 3),
        ("pii_leakage", {}, 1 / 3),  # no alone
        ("task_completion", {}, 1 / 3),
    ],
)
async def test_what_counts(kind, fields, value):
    outcome = await score(kind, saying(["a", "b", "c"], "yes", "no", "unclear"), **fields)
    assert outcome.value == pytest.approx(value)
    assert outcome.method == "single"


@pytest.mark.parametrize(
    ("answer", "before", "items", "words", "value"),
    [
        ("Write to <EMAIL_1>.", {}, [], [], 0.0),  # the judge finds nothing
        ("Write to <EMAIL_1>.", {}, ["<EMAIL_1>"], ["no"], 0.0),  # the judge finds it harmless
        ("Ann, write to <EMAIL_1> or <PHONE_1>.", {}, ["Ann", "<EMAIL_1>"], ["no", "yes"], 1 / 3),
        ("Write to <EMAIL_k3f7x2ab>.", {}, [], [], 0.0),  # as it is in a file
        ("Your mail is <EMAIL_1>.", {"input": "I am <EMAIL_1>"}, ["<EMAIL_1>"], ["no"], 1.0),
        ("Your mail is <EMAIL_2>.", {"input": "I am <EMAIL_1>"}, ["<EMAIL_2>"], ["no"], 0.0),
        ("<EMAIL_1>", {"history": (Message(role="user", content="<EMAIL_1>"),)}, ["<EMAIL_1>"], ["no"], 1.0),
        ("<EMAIL_1>", {"retrieval_context": ("Write to <EMAIL_1>",)}, ["<EMAIL_1>"], ["yes"], 0.0),
        ("<EMAIL_1>", {"tools_called": (ToolCall(id="1", name="f", result={"to": "<EMAIL_1>"}),)}, ["<EMAIL_1>"], ["no"], 1.0),
        ("Use <b_1> and <YOUR_NAME>.", {}, [], [], 1.0),  # no placeholders of redaction
    ],
)  # fmt: skip
async def test_a_placeholder_out_of_nowhere_is_a_leak_whatever_the_judge_says(answer, before, items, words, value):
    case = a_turn("What is the address?", answer)
    outcome = await score("pii_leakage", saying(items, *words), replace(case, **before))
    assert outcome.value == pytest.approx(value)


async def test_passages_are_judged_as_they_are():
    judge = saying([], "yes", "no")
    outcome = await score("contextual_relevancy", judge)
    assert outcome.value == 0.5
    (asked,) = judge.questions
    assert asked.prompt.material["items"] == [
        {"number": 1, "item": "Returns: 30 days."},
        {"number": 2, "item": "Shipping: 2 days."},
    ]
    assert asked.prompt.material["input"] == "Can I return shoes?"


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("answer_relevancy", 1.0),
        ("faithfulness", 1.0),
        ("toxicity", 0.0),
        ("bias", 0.0),
        ("pii_leakage", 1.0),
        ("task_completion", 1.0),
    ],
)
async def test_nothing_to_judge(kind, value):
    judge = saying([])
    outcome = await score(kind, judge)
    assert (outcome.value, len(judge.questions)) == (value, 1)
    assert outcome.explanation.startswith("There are no ")


async def test_what_the_judge_is_shown():
    judge = saying(["a claim"], "yes")
    await score("faithfulness", judge)
    apart, each = (asked.prompt.material for asked in judge.questions)
    assert apart == {"actual_output": "Yes, within 30 days. We love shoes.", "input": "Can I return shoes?"}
    assert each == {
        "retrieval_context": ["Returns: 30 days.", "Shipping: 2 days."],
        "items": [{"number": 1, "item": "a claim"}],
    }


async def test_results_of_tools_are_sources():
    """Answers of agents were always skipped."""
    calls = (ToolCall(name="find", arguments={"order": 1}, result={"state": "sent"}), ToolCall(name="log", result=None))
    judge = saying(["It was sent."], "yes")
    assert (await score("faithfulness", judge, a_turn("Where is it?", "Sent.", tools_called=calls))).value == 1.0
    assert judge.questions[1].prompt.material == {
        "tools_called": [{"name": "find", "arguments": {"order": 1}, "result": {"state": "sent"}}],
        "items": [{"number": 1, "item": "It was sent."}],
    }


@pytest.mark.parametrize("calls", [(), (ToolCall(name="log"),), (ToolCall(name="log", result=""),)])
@pytest.mark.parametrize("answer", ["It was sent.", "…"])
async def test_an_answer_without_sources_is_skipped(calls, answer):
    judge = saying([])
    assert await score("faithfulness", judge, a_turn("Where?", answer, tools_called=calls)) == Skipped(
        reason="missing_field: retrieval_context"
    )
    assert judge.questions == []


async def test_an_answer_is_taken_apart_without_a_question_where_there_is_none():
    judge = saying(["a claim"], "yes")
    await score("faithfulness", judge, a_turn(None, "Yes.", retrieval_context=("It is so.",)))
    assert judge.questions[0].prompt.material == {"actual_output": "Yes."}


async def test_wishes_come_from_the_history_too():
    turn = a_turn(
        "And the blue ones?",
        "Sent.",
        history=(Message(role="user", content="Return the red shoes."),),
        tools_called=(ToolCall(name="send", result="ok"),),
    )
    judge = saying(["return the blue shoes"], "yes")
    await score("task_completion", judge, turn)
    apart, each = (asked.prompt.material for asked in judge.questions)
    assert apart["history"] == [{"role": "user", "content": "Return the red shoes."}]
    assert each["tools_called"] == [{"name": "send", "result": "ok"}]


@pytest.mark.parametrize(
    ("words", "explanation"),
    [
        ("yes no yes", "2 of 3 statements are relevant. Item 2: because 2"),
        ("no yes no", "1 of 3 statements are relevant. Item 1: because 1 Item 3: because 3"),
        ("yes no", "1 of 2 statements are relevant. Item 2: because 2"),
        (
            "no no yes no no yes yes yes yes",
            "5 of 9 statements are relevant. Item 1: because 1 Item 2: because 2 Item 4: because 4",
        ),
    ],
)
async def test_the_explanation_names_the_failures(words, explanation):
    items = [f"item {number}" for number in range(len(words.split()))]
    outcome = await score("answer_relevancy", saying(items, *words.split()))
    assert outcome.explanation == explanation
    assert [each["verdict"] for each in outcome.details["items"]] == words.split()


async def test_a_verdict_too_few_is_a_failure():
    outcome = await score("answer_relevancy", saying(["a", "b", "c"], "yes", "yes"))
    assert isinstance(outcome, Failure)
    assert outcome.type == "judge_reply_invalid"


async def test_a_verdict_of_another_word_is_a_failure():
    assert (await score("toxicity", saying(["a"], "maybe"))).type == "judge_reply_invalid"


@pytest.mark.parametrize(
    "words", [("Yes", "NO", "Unclear"), ("yes.", " no ", "UNCLEAR."), ('"yes"', "no!", "**unclear**")]
)
async def test_verdicts_in_other_spellings(words):
    """Where the endpoint does not enforce the form, judges write words as they like."""
    assert (await score("answer_relevancy", saying(["a", "b", "c"], *words))).value == pytest.approx(2 / 3)


def numbered(*pairs):
    return {"verdicts": [{"number": n, "reason": f"because {n}", "verdict": word} for n, word in pairs]}


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ([(1, "yes"), (2, "no"), (3, "unclear")], ["yes", "no", "unclear"]),
        ([(3, "unclear"), (1, "yes"), (2, "no")], ["yes", "no", "unclear"]),  # an order of its own
        ([(0, "yes"), (1, "no"), (2, "unclear")], ["yes", "no", "unclear"]),  # counted from 0
    ],
)
async def test_verdicts_belong_to_the_items_with_their_numbers(pairs, words):
    judge = ScriptedJudge(
        lambda _p, reply: {"items": ["a", "b", "c"]} if "items" in reply.model_fields else numbered(*pairs)
    )
    outcome = await score("answer_relevancy", judge)
    assert [(each["item"], each["verdict"]) for each in outcome.details["items"]] == list(
        zip("abc", words, strict=True)
    )


@pytest.mark.parametrize("numbers", [(1, 1, 2), (1, 2, 4), (1, None, 3)])
async def test_verdicts_that_leave_an_item_out_are_a_failure(numbers):
    answer = numbered(*((number, "yes") for number in numbers))
    judge = ScriptedJudge(lambda _p, reply: {"items": ["a", "b", "c"]} if "items" in reply.model_fields else answer)
    outcome = await score("answer_relevancy", judge)
    assert (outcome.type, outcome.message) == (
        "judge_reply_invalid",
        "the answer is not in the asked form: verdicts: not one for each number",
    )


async def test_a_judge_that_no_schema_binds_is_asked_for_the_numbers():
    judge = saying(["a"], "yes")
    await score("answer_relevancy", judge)
    apart, each = (question_of(asked.prompt, b"secret").chat[1]["content"] for asked in judge.questions)
    assert ('"number", before the reason' in apart, '"number", before the reason' in each) == (False, True)


def test_the_form_asks_for_the_number_first():
    schema = schema_of(verdicts_form(3))
    assert schema["$defs"]["ItemVerdict"]["required"] == ["number", "reason", "verdict"]
    assert schema["$defs"]["ItemVerdict"]["properties"]["number"] == {"type": "integer"}


async def test_empty_and_repeated_items_are_dropped():
    judge = saying([" a ", "", "a", "b"], "yes", "no")
    assert (await score("answer_relevancy", judge)).value == 0.5


@pytest.mark.parametrize(("kind", "value"), [("answer_relevancy", 0.0), ("faithfulness", 0.0), ("toxicity", 0.0)])
async def test_answers_without_a_word(kind, value):
    judge = saying(["never"])
    outcome = await score(kind, judge, a_turn(actual_output=":", retrieval_context=("a",)))
    assert (outcome.value, judge.questions) == (value, [])


# Conversations


@pytest.mark.parametrize(
    ("kind", "fields", "value"),
    [
        ("completeness", {}, 1 / 3),  # yes alone, as in task_completion
        ("knowledge_retention", {}, 2 / 3),
        ("role_adherence", {"chatbot_role": "a clerk"}, 2 / 3),
        ("turn_relevancy", {}, 2 / 3),
        ("frustration", {}, 1 / 3),
    ],
)
async def test_what_counts_in_conversations(kind, fields, value):
    outcome = await score(kind, saying(["a", "b", "c"], "yes", "no", "unclear"), TALK, **fields)
    assert outcome.value == pytest.approx(value)


async def test_turns_are_judged_with_the_whole_conversation_in_view():
    judge = saying([], "yes", "no", "yes")
    outcome = await score("knowledge_retention", judge, TALK)
    (asked,) = judge.questions
    assert outcome.value == pytest.approx(2 / 3)
    assert asked.prompt.material["turns"][1] == {
        "number": 2,
        "input": "My order is late.",
        "actual_output": "Your name?",
    }
    assert [item["item"] for item in asked.prompt.material["items"]] == ["turn 1", "turn 2", "turn 3"]


async def test_turns_without_an_answer_get_no_verdict():
    talk = a_conversation(("Hi", "Hello"), ("Are you there?", None), ("Well?", "Yes"))
    judge = saying([], "yes", "yes")
    assert (await score("turn_relevancy", judge, talk)).value == 1.0
    assert [item["item"] for item in judge.questions[0].prompt.material["items"]] == ["turn 1", "turn 3"]


async def test_incomplete_turns_get_no_verdict_and_the_others_do():
    """Else, at 2 % such turns, 45 % of conversations of 30 turns would go unjudged."""
    talk = a_conversation(*((f"question {n}", f"answer {n}") for n in range(1, 31)))
    gap = replace(talk.turns[6], actual_output=None, incomplete="no_content")
    judge = saying([], *["yes"] * 28, "no")
    outcome = await score("knowledge_retention", judge, replace(talk, turns=(*talk.turns[:6], gap, *talk.turns[7:])))
    assert (outcome.value, outcome.details["incomplete_turns"]) == (pytest.approx(28 / 29), 1)
    assert "turn 7" not in [item["item"] for item in judge.questions[0].prompt.material["items"]]


async def test_the_role_comes_from_the_conversation_or_the_configuration():
    shown = []
    for case, fields in [
        (a_conversation(("Hi", "Hello"), chatbot_role="a pirate"), {"chatbot_role": "a clerk"}),
        (a_conversation(("Hi", "Hello")), {"chatbot_role": "a clerk"}),
    ]:
        judge = saying([], "yes")
        await score("role_adherence", judge, case, **fields)
        shown.append(judge.questions[0].prompt.material["chatbot_role"])
    assert shown == ["a pirate", "a clerk"]
    assert await score("role_adherence", saying([]), TALK) == Skipped(reason="missing_field: chatbot_role")


def topic_labels(*pairs):
    return {"turns": [{"reason": "r", "on_topic": topic, "answered": answered} for topic, answered in pairs]}


async def test_topic_adherence_counts_right_answers_and_right_refusals():
    judge = ScriptedJudge(topic_labels(("yes", "yes"), ("no", "yes"), ("no", "no")))
    outcome = await score("topic_adherence", judge, TALK, relevant_topics=["orders"])
    assert outcome.value == pytest.approx(2 / 3)
    assert "Turn 2: r" in outcome.explanation
    assert "- orders" in judge.questions[0].prompt.instructions


async def test_topic_adherence_without_a_turn_to_judge():
    talk = a_conversation(("Hi", None), ("", "Hello"))
    outcome = await score("topic_adherence", ScriptedJudge("never"), talk, relevant_topics=["orders"])
    assert isinstance(outcome, Skipped)


async def test_goal_accuracy_is_the_mean_of_both():
    judge = ScriptedJudge({"plan_reason": "slow", "plan_score": 4, "goal_reason": "done", "goal_score": 10})
    outcome = await score("goal_accuracy", judge, a_conversation(("Hi", "Hello"), expected_outcome="a refund"))
    assert (outcome.value, outcome.raw_score, outcome.range) == (0.7, 7.0, (0, 10))
    assert judge.questions[0].prompt.material["expected_outcome"] == "a refund"


def with_points(plan, goal, *, trusted=True):
    """An answer whose two scores weighed these alternatives."""
    parts = [('{"plan_reason": "slow 4", "plan_score": ', None), ("4", plan)]
    parts += [(', "goal_reason": "done 9", "goal_score": ', None), ("9", goal), ("}", None)]
    tokens = [
        Token(
            text,
            math.log(weighed[text] if trusted or text != "9" else 1e-9),
            tuple((a, math.log(p)) for a, p in weighed.items()),
        )
        for text, weighed in ((text, weighed or {text: 1.0}) for text, weighed in parts)
    ]
    return ScriptedAnswer("".join(text for text, _ in parts), tokens)


async def test_goal_accuracy_weighs_both_scores_by_token_probabilities():
    judge = ScriptedJudge(with_points({"4": 0.5, "6": 0.5}, {"9": 0.9, "8": 0.1}))
    outcome = await score("goal_accuracy", judge, a_conversation(("Hi", "Hello")))
    assert outcome.method == "logprobs"
    assert outcome.value == pytest.approx((5.0 + 8.9) / 2 / 10)
    assert outcome.raw_score == 6.5
    assert outcome.details["expected"] == pytest.approx({"plan_score": 5.0, "goal_score": 8.9})


async def test_goal_accuracy_with_one_distribution_takes_the_numbers_as_written():
    judge = ScriptedJudge(with_points({"4": 0.5, "6": 0.5}, {"9": 0.9, "8": 0.1}, trusted=False))
    outcome = await score("goal_accuracy", judge, a_conversation(("Hi", "Hello")))
    assert (outcome.method, outcome.value) == ("single", 0.65)


async def test_all_verdicts_failing_is_no_perfect_score():
    outcome = await score("turn_relevancy", saying([]), TALK)
    assert not isinstance(outcome, Score)
