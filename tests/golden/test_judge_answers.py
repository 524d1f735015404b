"""Recorded answers of real judges, put through the evaluators: the figures are those published or measured for them."""

import json
import re
from collections import Counter
from pathlib import Path
from statistics import fmean

import pytest
from plain_rating import plain_rating

from evaluators.evaluation import evaluate
from evaluators.scale import Scale
from evaluators.testing import ScriptedJudge, a_moment, a_turn
from evaluators.turn.pairwise_dimensions import DIMENSIONS, PairwiseDimensions

HERE = Path(__file__).parent / "judge_answers"
FIVE = Scale(1, 5)


def rows(name):
    return [json.loads(line) for line in (HERE / name).read_text(encoding="utf-8").splitlines()]


PAIRS = rows("llmbar_verdicts.jsonl")
NATURAL = [pair for pair in PAIRS if pair["subset"] == "Natural"]
ADVERSARIAL = [pair for pair in PAIRS if pair["subset"] != "Natural"]


def recorded(verdicts):
    """A judge that prefers what the recorded one preferred, in the order in which the answers are shown."""

    def answer(prompt, _reply):
        order = "plain" if prompt.material["a"] == "first answer" else "swap"
        chosen = {"Output (a)": "a", "Output (b)": "b"}[verdicts[order]]
        scores = {place: {"reason": "r", "evidence": [], "score": 4 if place == chosen else 2} for place in ("a", "b")}
        return dict.fromkeys(DIMENSIONS, scores)

    return ScriptedJudge(answer)


async def replayed(pair, model):
    """The label of the first answer, and its mean score less the other's in each of the two orders."""
    turn = a_turn("Request", "first answer", attributes={"other": "second answer"})
    evaluator = PairwiseDimensions(name="p", other_output_attribute="other")
    outcome = (await evaluate(evaluator, turn, recorded(pair["answers"][model]), now=a_moment)).outcome
    scores = outcome.details["dimensions"]["accuracy"]
    rounds = [a - b for a, b in zip(scores["actual_output"]["scores"], scores["other_output"]["scores"], strict=True)]
    return outcome.label, rounds


@pytest.mark.parametrize(
    ("model", "pairs", "right", "flips"),
    [
        ("GPT-4", NATURAL, 0.955, 0.050),
        ("GPT-4", ADVERSARIAL, 0.810, 0.078),
        ("ChatGPT", NATURAL, 0.815, 0.290),
        ("ChatGPT", ADVERSARIAL, 0.270, 0.357),
    ],
    ids=["GPT-4 natural", "GPT-4 adversarial", "ChatGPT natural", "ChatGPT adversarial"],
)
async def test_verdicts_in_both_orders(model, pairs, right, flips):
    labels, agreeing = Counter(), 0
    for pair in pairs:
        label, rounds = await replayed(pair, model)
        labels[label] += 1
        gold = 1 if pair["label"] == 1 else -1
        agreeing += sum(difference * gold > 0 for difference in rounds)
    assert agreeing / (2 * len(pairs)) == pytest.approx(right, abs=0.0005)
    assert labels["tie"] / len(pairs) == pytest.approx(flips, abs=0.0005), "a verdict that the order changes is a tie"


def test_ratings_of_single_answers_tie_often():
    scale = Scale(0, 9)
    for pairs, ties in ((NATURAL, 0.10), (ADVERSARIAL, 0.18)):
        ratings = [
            [plain_rating(pair["ratings"]["GPT-4"][side], scale) for side in ("score_1", "score_2")] for pair in pairs
        ]
        read = [both for both in ratings if None not in both]
        assert len(read) >= 0.99 * len(ratings)
        assert sum(one == other for one, other in read) / len(read) == pytest.approx(ties, abs=0.01)


# Answers going to garbage

SUMMARIES = rows("summeval_consistency.jsonl")
LABELS = ("rating", "score", "consistency")


def test_no_value_outside_the_scale():
    answers = [answer for row in SUMMARIES for answer in row["answers"]]
    ratings = [plain_rating(answer, FIVE, LABELS) for answer in answers]
    assert len(answers) == 1200
    assert {rating for rating in ratings if rating is not None} <= {1, 2, 3, 4, 5}


def test_what_states_no_rating_is_none_and_not_0():
    """A parser that takes the leading number, else 0, zeroes these; some of them state a valid rating."""
    zeroed = [
        (row["judge"], answer) for row in SUMMARIES for answer in row["answers"] if not answer.strip()[:1].isdigit()
    ]
    counts = Counter(judge for judge, _ in zeroed)
    assert (counts["gpt-4o-2024-08-06"], counts["gpt-4.1-nano-2025-04-14"]) == (135, 102)
    rescued = [answer for _, answer in zeroed if plain_rating(answer, FIVE, LABELS) is not None]
    assert "Consistency: 4" in rescued
    assert len(rescued) > 40


@pytest.mark.parametrize(
    ("judge", "ours", "leading"),
    [
        ("gpt-4-0613", 0.09, 0.10),
        ("gpt-4.1-2025-04-14", 0.37, 0.42),
        ("gpt-4.1-mini-2025-04-14", 0.98, 1.77),
        ("gpt-4.1-nano-2025-04-14", 1.98, 3.21),
        ("gpt-4o-2024-08-06", 2.08, 3.71),
        ("gpt-4o-mini-2024-07-18", 1.32, 3.42),
    ],
)
def test_the_mean_is_nearer_to_peoples_than_with_zeroes_for_what_is_not_read(judge, ours, leading):
    of_judge = [row for row in SUMMARIES if row["judge"] == judge]
    errors = []
    for read in (lambda answer: plain_rating(answer, FIVE, LABELS), leading_number):
        means = [fmean([value for each in row["answers"] if (value := read(each)) is not None]) for row in of_judge]
        errors.append(fmean(abs(mean - row["human"]) for mean, row in zip(means, of_judge, strict=True)))
    assert errors == pytest.approx([ours, leading], abs=0.006)


def leading_number(answer):
    """As the script that came with the answers reads them."""
    found = re.match(r" ?([\d.]+)", answer)
    return float(found[1]) if found else 0.0


def test_where_both_read_a_number_it_is_the_same():
    for answer in (answer for row in SUMMARIES for answer in row["answers"] if answer.strip()[:1].isdecimal()):
        assert plain_rating(answer, FIVE, LABELS) in (None, int(answer.strip()[0]))


@pytest.mark.parametrize(
    ("text", "rating"),
    [
        ("4", 4),
        (" 4\n", 4),
        ("Rating: 4", 4),
        ("**Rating:** 4", 4),
        ("The goals were 222-0, a football score.\nRating: 2", 2),
        ("Rating: 4\nAnalysis: 2 facts are wrong, and 3 missing.", 4),
        ("Score = 3/5", 3),
        ("4 - The summary is good", 4),
        ("- Consistency: 5", 5),
        ("— 5", 5),
        ("2.", 2),
        ("4.8", None),
        ("Rating: 4.5", None),
        ("Rating: 7", None),
        ("Rating: 4/10", None),
        ("0", None),
        ("- Consistency: ", None),
        ("Rating: 4 at first, but then Rating: 2", None),
        ("3ors conservação", None),
        ("It deserves a 4.", None),
        ("", None),
    ],
)
def test_where_a_rating_stands(text, rating):
    assert plain_rating(text, FIVE, LABELS) == rating
