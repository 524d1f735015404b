"""Long cases are judged in windows: every turn, passage and item, or a sample of windows that leaves shares unbiased."""

from statistics import fmean

import pytest

from evaluators.asking.judge_input import split_text
from evaluators.asking.transcript import NOT_RECORDED, TranscriptSettings, build_windows
from evaluators.asking.windows import draw_windows, split
from evaluators.cases import ToolCall, ToolDefinition
from evaluators.catalogue import load_evaluators, make_example
from evaluators.evaluation import evaluate
from evaluators.results import Score, Skipped
from evaluators.testing import ScriptedJudge, a_conversation, a_moment, a_turn, answer_any_form


def by_item(says, items=()):
    """A judge that gives each item the verdict that `says` has for its text."""

    def answer(prompt, reply):
        if "items" in reply.model_fields:
            return {"items": list(items)}
        return {
            "verdicts": [
                {"number": each["number"], "reason": str(each["item"])[:20], "verdict": says(str(each["item"]))}
                for each in prompt.material["items"]
            ]
        }

    return ScriptedJudge(answer)


def talk(turns, text="x"):
    return a_conversation(*((f"question {n} {text}", f"answer {n}") for n in range(1, turns + 1)))


def turn_of(item):
    return int(item.removeprefix("turn "))


async def score(kind, judge, case, **fields):
    outcome = (await evaluate(load_evaluators()[kind](name=kind, **fields), case, judge, now=a_moment)).outcome
    assert isinstance(outcome, Score), outcome
    return outcome


def shown_numbers(question):
    """The numbers of the turns that a question shows, and the marks between them."""
    return [each if isinstance(each, str) else each["number"] for each in question.prompt.material["turns"]]


@pytest.mark.parametrize("kind", ["frustration", "knowledge_retention", "role_adherence", "turn_relevancy"])
async def test_every_turn_of_a_long_conversation_is_judged(kind):
    """120 turns, the last 70 of them bad: their first 50 alone would say that all is well."""
    fields = {"chatbot_role": "a clerk"} if kind == "role_adherence" else {}
    bad, good = ("no", "yes") if kind != "frustration" else ("yes", "no")
    judge = by_item(lambda item: bad if turn_of(item) > 50 else good)
    outcome = await score(kind, judge, talk(120), **fields)
    assert outcome.value == pytest.approx(70 / 120 if kind == "frustration" else 50 / 120)
    assert [turn_of(each["item"]) for each in outcome.details["items"]] == list(range(1, 121))
    assert [len(each.prompt.material["items"]) for each in judge.questions] == [24] * 5
    assert "truncated" not in outcome.details


async def test_topic_adherence_judges_every_turn_too():
    def answer(prompt, _reply):
        numbers = [turn_of(each["item"]) for each in prompt.material["items"]]
        return {"turns": [{"reason": "r", "on_topic": "yes", "answered": "no" if n > 50 else "yes"} for n in numbers]}

    outcome = await score("topic_adherence", ScriptedJudge(answer), talk(120), relevant_topics=["tickets"])
    assert (outcome.value, len(outcome.details["turns"])) == (pytest.approx(50 / 120), 120)
    assert "Turn 51: r" in outcome.explanation


@pytest.mark.parametrize("turns", [1, 49, 50])
async def test_what_fits_into_one_question_is_judged_in_one(turns):
    judge = by_item(lambda _item: "no")
    await score("frustration", judge, talk(turns))
    assert [len(each.prompt.material["items"]) for each in judge.questions] == [turns]


async def test_a_window_is_shown_with_the_turns_before_it():
    judge = by_item(lambda _item: "no")
    await score("frustration", judge, talk(100))
    assert shown_numbers(judge.questions[0]) == [*range(1, 26), "[… 75 turns left out …]"]
    assert shown_numbers(judge.questions[2]) == [
        "[… 40 turns left out …]",
        *range(41, 76),
        "[… 25 turns left out …]",
    ]
    assert judge.questions[2].prompt.material["items"][0] == {"number": 1, "item": "turn 51"}


async def test_what_the_user_said_long_ago_is_in_view_where_it_matters():
    judge = by_item(lambda _item: "no")
    await score("knowledge_retention", judge, talk(100))
    assert shown_numbers(judge.questions[3]) == [*range(1, 101)]


async def test_few_long_turns_are_judged_in_windows_that_fit():
    """12,000 tokens hold 16 such turns: of 40 the middle ones were left out, unjudged."""
    judge = by_item(lambda item: "yes" if 15 <= turn_of(item) <= 25 else "no")
    outcome = await score("frustration", judge, talk(40, "x" * 3000))
    assert outcome.value == pytest.approx(11 / 40)
    assert max(len(str(each.prompt.material["turns"])) for each in judge.questions) < 12_000 * 4 * 1.05
    assert outcome.details["truncated"] is True  # not all of the ten turns before each window fit beside it


def test_a_window_of_one_huge_turn():
    case = a_conversation(("short", "yes"), ("x" * 100_000, "y" * 100_000), ("short", "yes"))
    windows = build_windows(case, (), TranscriptSettings(token_budget=500), lambda _turn: True)
    assert [list(each.judged) for each in windows] == [[1], [2], [3]]
    assert windows[1].truncated


def test_incomplete_turns_are_shown_and_not_judged():
    turns = talk(60).turns
    gap = a_turn("question 30", None, incomplete="no_content")
    case = a_conversation()
    case = type(case)(conversation_id="c", turns=(*turns[:29], gap, *turns[30:]))
    windows = build_windows(case, (), TranscriptSettings(), lambda turn: turn.incomplete is None)
    assert [number for each in windows for number in each.judged] == [*range(1, 30), *range(31, 61)]
    [shown] = [content for number, _, content in windows[1].turns if number == 30]
    assert shown["incomplete"] == NOT_RECORDED


async def test_a_conversation_without_a_turn_to_judge_gets_no_score():
    case = a_conversation(("Hi", None), ("", "Hello"))
    outcome = (await evaluate(make_example(load_evaluators()["turn_relevancy"]), case, by_item(str))).outcome
    assert outcome == Skipped(reason="missing_field: turns.input, turns.actual_output")


# Passages and items


@pytest.mark.parametrize("count", [8, 60, 400])
async def test_every_passage_is_judged_and_no_mark_is(count):
    """Eight passages of 10,000 characters: the middle ones were left out, and the mark in their place was judged."""
    passages = tuple(f"{n}: " + "x" * 10_000 for n in range(count))
    judge = by_item(lambda item: "yes" if int(item.partition(":")[0]) % 2 else "no")
    turn = a_turn(retrieval_context=passages)
    outcome = await score("contextual_relevancy", judge, turn, max_windows=100)
    assert outcome.value == pytest.approx(0.5)
    assert [each["item"] for each in outcome.details["items"]] == list(passages)
    assert "truncated" not in outcome.details
    assert max(len(str(each.prompt.material["items"])) for each in judge.questions) < 70_000


async def test_every_passage_is_a_source():
    """Of many long passages the middle ones were left out, and what only they say was unsupported."""
    passages = tuple(f"fact {n} " + "x" * 10_000 for n in range(14))
    results = tuple(ToolCall(name="look", result=f"fact {n} " + "x" * 10_000) for n in range(14, 20))

    def answer(prompt, reply):
        if "items" in reply.model_fields:
            return {"items": ["fact 0", "fact 9", "fact 19", "fact 99", "no fact 7"]}
        sources = str(prompt.material)

        def verdict(item):
            wrong = item.startswith("no ") and f"{item.removeprefix('no ')} x" in sources
            return "no" if wrong else "yes" if f"{item} x" in sources else "unclear"

        return {"verdicts": [{"reason": "r", "verdict": verdict(each["item"])} for each in prompt.material["items"]]}

    turn = a_turn(retrieval_context=passages, tools_called=results)
    judge = ScriptedJudge(answer)
    outcome = await score("faithfulness", judge, turn, penalize_unclear=True)
    assert [each["verdict"] for each in outcome.details["items"]] == ["yes", "yes", "yes", "unclear", "no"]
    assert (outcome.value, "truncated" in outcome.details) == (3 / 5, False)
    assert len(judge.questions) == 5
    few = await score("faithfulness", ScriptedJudge(answer), turn, max_windows=2)
    assert few.details["truncated"] is True  # not all sources could be shown


@pytest.mark.parametrize("items", [50, 51, 130])
async def test_every_claim_is_judged(items):
    names = [f"claim {n}" for n in range(items)]
    judge = by_item(lambda item: "no" if item == f"claim {items - 1}" else "yes", names)
    outcome = await score("answer_relevancy", judge, a_turn())
    assert (outcome.value, "left_out" in outcome.details) == (pytest.approx(1 - 1 / items), False)
    assert f"Item {items}: claim {items - 1}" in outcome.explanation


async def test_every_wish_is_judged():
    names = [f"wish {n}" for n in range(60)]
    judge = by_item(lambda item: "no" if item == "wish 59" else "yes", names)
    assert (await score("completeness", judge, talk(3))).value == pytest.approx(59 / 60)


# Samples of windows


def test_all_windows_are_judged_where_they_may_be():
    sample = draw_windows([25, 25, 20], 3, "c")
    assert (sample.judged, sample.complete, dict(sample.details)) == ([0, 1, 2], True, {})
    assert sample.share_of({0: [True] * 25, 1: [False] * 25, 2: [False] * 20}) == pytest.approx(25 / 70)


@pytest.mark.parametrize(("lengths", "most"), [([24] * 40, 5), ([25, 3, 25, 1, 25, 9], 2), ([10] * 7, 1)])
def test_a_sample_of_windows_leaves_the_share_unbiased(lengths, most):
    flags = {at: [(at * 7 + n * n) % 5 < 1 + at % 3 for n in range(length)] for at, length in enumerate(lengths)}
    truth = sum(map(sum, flags.values())) / sum(lengths)
    samples = [draw_windows(lengths, most, f"conversation {n}") for n in range(4000)]
    shares = [each.share_of({at: flags[at] for at in each.judged}) for each in samples]
    error = (fmean(share * share for share in shares) - fmean(shares) ** 2) ** 0.5 / len(shares) ** 0.5
    assert abs(fmean(shares) - truth) < 4 * error + 1e-9
    assert all(0 <= share <= 1 for share in shares)


def test_the_probabilities_are_those_of_the_draw():
    lengths = [25, 20, 25, 25, 5]
    samples = [draw_windows(lengths, 2, f"conversation {n}") for n in range(4000)]
    for at, length in enumerate(lengths):
        drawn = fmean(at in each.judged for each in samples)
        assert drawn == pytest.approx(2 * length / 100, abs=0.03)
    windows = samples[0].details["windows"]
    assert windows["probabilities"] == [2 * lengths[at] / 100 for at in samples[0].judged]


async def test_more_windows_than_may_be_judged():
    judge = by_item(lambda item: "yes" if turn_of(item) > 100 else "no")
    outcome = await score("frustration", judge, talk(200), max_windows=2)
    assert len(judge.questions) == 2
    assert outcome.value == 0.5  # places at equal distances: one in each half
    assert outcome.details["left_out"] == 150
    assert outcome.details["windows"] == {"of": 8, "judged": 2, "probabilities": [0.25, 0.25]}
    assert outcome.explanation.startswith("25 of 50 messages, a sample of 200, show frustration.")
    again = by_item(lambda item: "yes" if turn_of(item) > 100 else "no")
    assert await score("frustration", again, talk(200), max_windows=2) == outcome


def test_windows_are_about_the_same_length():
    assert [len(each) for each in split([1] * 51, 1000)] == [17, 17, 17]
    assert [len(each) for each in split([1] * 50, 1000)] == [50]
    assert [len(each) for each in split([400] * 5, 1000)] == [2, 2, 1]
    assert [len(each) for each in split([5000, 1, 1], 1000)] == [1, 2]
    assert split([], 1000) == ()


# Texts that are cut


@pytest.mark.parametrize(
    "cls", [cls for cls in load_evaluators().values() if cls.needs_judge], ids=lambda cls: cls.kind
)
async def test_a_judge_has_interval_what_marks_mean_and_the_score_says_truncated(cls):
    long = "x" * 20_000
    turn = a_turn(
        long,
        f'{{"order_id": "{long} [1]"}}',
        system_prompt=long,
        expected_output=f'{{"order_id": "{long}y"}}',
        context=(long,),
        retrieval_context=(long,),
        tools_called=(
            ToolCall(name="look", arguments={"q": long}, result=long),
            ToolCall(name="transfer_to_sales", arguments={"q": long}),
        ),
        tools_offered=(ToolDefinition(name="look"),),
        attributes={"shadow.output": long},
    )
    case = turn if cls.scope == "turn" else a_conversation((long, long), chatbot_role="a clerk")
    judge = ScriptedJudge(answer_any_form())
    outcome = (await evaluate(make_example(cls), case, judge, now=a_moment)).outcome
    if cls.kind in {"bias", "toxicity"}:  # judge what the answer is taken apart into, and nothing beside it
        assert outcome.details["pieces"] == {"of": 2, "read": 2}
        return
    if cls.kind in {"moderation", "prompt_attack"}:  # read every text in pieces
        assert "truncated" not in outcome.details
        read = "".join(str(each.prompt.material) for each in judge.questions)
        assert read.count("x") >= 20_000
        assert " left out …]" not in read
        return
    assert outcome.details["truncated"] is True
    asked = [each for each in judge.questions if " left out …]" in str(each.prompt.material)]
    assert asked
    for each in judge.questions:
        assert ("nobody knows what it said" in each.message) == (each in asked)


async def test_the_length_of_texts_is_configurable():
    turn = a_turn("x" * 20_000, "y" * 20_000)
    steps = {"evaluation_steps": ["Look."], "evaluation_params": ["input", "actual_output"]}
    judge = ScriptedJudge({"reason": "so", "score": 5})
    outcome = await score("g_eval", judge, turn, longest_text=20_000, **steps)
    assert judge.questions[0].prompt.material == {"input": turn.input, "actual_output": turn.actual_output}
    assert "truncated" not in outcome.details
    assert "nobody knows what it said" not in judge.questions[0].message


def test_a_configuration_without_them_keeps_its_version():
    for kind in ("frustration", "g_eval"):
        cls = load_evaluators()[kind]
        fields = dict(cls.example)
        later = {"longest_text": 20_000} if kind == "g_eval" else {"max_windows": 3}
        versions = {cls(name="n", **fields).version, cls(name="n", **fields, **later).version}
        assert len(versions) == 2


# What a long text is taken apart into


def finding(mark, says):
    """A judge that takes out every word with a mark, and gives each item a verdict."""

    def answer(prompt, reply):
        if "items" in reply.model_fields:
            return {"items": sorted({word for word in str(prompt.material).split() if mark in word})}
        return by_item(says).script(prompt, reply)

    return ScriptedJudge(answer)


LONG_ANSWER = " ".join(f"word{n} claim-{n // 1000}-." if n % 1000 == 500 else f"word{n}" for n in range(9000))


async def test_claims_in_the_middle_of_a_long_answer_are_judged():
    """Nine claims in 80,000 characters; their first and last 8,000 hold two of them."""
    case = a_turn(actual_output=LONG_ANSWER, retrieval_context=("x",))
    judge = finding("claim-", lambda item: "no" if item in {"claim-3-.", "claim-4-."} else "yes")
    outcome = await score("faithfulness", judge, case)
    assert outcome.value == pytest.approx(7 / 9)
    assert outcome.details["pieces"] == {"of": 5, "read": 5}
    assert "truncated" not in outcome.details
    shown = [asked.prompt.material["actual_output"] for asked in judge.questions[:5]]
    assert "".join(shown) == LONG_ANSWER
    assert max(map(len, shown)) <= 16_384
    few = await score("faithfulness", finding("claim-", lambda _item: "yes"), case, max_windows=2)
    assert few.details["pieces"] == {"of": 5, "read": 2}
    assert few.details["truncated"] is True


async def test_wishes_in_the_middle_of_a_long_conversation_are_judged():
    """One wish each 20 of 200 turns, met at the very end or not: those of the middle turns were never listed."""
    turns = [(f"wish-{n // 20}-" if n % 20 == 10 else f"question {n} {'x ' * 300}", f"answer {n}") for n in range(200)]
    judge = finding("wish-", lambda item: "no" if "-4-" in item else "yes")
    outcome = await score("completeness", judge, a_conversation(*turns))
    assert outcome.value == pytest.approx(0.9)
    assert len(outcome.details["items"]) == 10
    extractions = [asked for asked in judge.questions if "items" not in asked.prompt.material]
    numbers = [each for asked in extractions for each in shown_numbers(asked) if isinstance(each, int)]
    assert numbers == list(range(1, 201))
    for asked in judge.questions:
        if "items" in asked.prompt.material:
            assert shown_numbers(asked)[-1] == 200  # what was wanted early may be met late


@pytest.mark.parametrize("text", ["", "a b", "a" * 5000, "word " * 999, ("x" * 700 + "\n") * 9])
def test_pieces_make_up_the_text(text):
    pieces = split_text(text, 1000)
    assert "".join(pieces) == text
    assert max(map(len, pieces)) <= 1000
    assert len(pieces) <= max(1, 2 * len(text) // 1000 + 1)
