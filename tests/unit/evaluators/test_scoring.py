import math

import pytest

from evaluators.errors import MethodUnavailable
from evaluators.judge import Prompt, Token
from evaluators.mechanisms.scoring import SAMPLES, ask_score
from evaluators.scale import Scale
from evaluators.testing import ScriptedAnswer, ScriptedJudge
from tests.builders.judges import verdict_tokens

TEN = Scale(0, 10)
PROMPT = Prompt("Judge.", {"a": "b"})
WEIGHED = verdict_tokens("8", {"8": 0.5, "6": 0.5})
PLAIN = {"reason": "so", "score": 8}


async def test_single_asks_for_no_probabilities():
    judge = ScriptedJudge(WEIGHED)
    score = await ask_score(judge, PROMPT, TEN, mode="single")
    assert (score.value, score.method, score.raw_score) == (0.8, "single", 8)
    assert not judge.questions[0].logprobs


async def test_logprobs_weighs():
    score = await ask_score(ScriptedJudge(WEIGHED), PROMPT, TEN, mode="logprobs")
    assert (score.value, score.method, score.raw_score) == (pytest.approx(0.7), "logprobs", 8)


async def test_logprobs_fails_where_there_are_none():
    with pytest.raises(MethodUnavailable):
        await ask_score(ScriptedJudge(PLAIN), PROMPT, TEN, mode="logprobs")


async def test_logprobs_fails_where_too_little_mass_is_on_the_scale():
    with pytest.raises(MethodUnavailable):
        await ask_score(ScriptedJudge(verdict_tokens("8", {"8": 0.2, "x": 0.8})), PROMPT, TEN, mode="logprobs")


async def test_auto_falls_back_to_one_answer_and_says_so():
    score = await ask_score(ScriptedJudge(PLAIN), PROMPT, TEN)
    assert (score.value, score.method) == (0.8, "single")


async def test_auto_falls_back_to_samples_where_their_number_is_configured():
    numbers = iter([4, 8, 9])  # the first is paid for, so it is one of them
    judge = ScriptedJudge(lambda _prompt, _reply: {"reason": "so", "score": next(numbers)})
    score = await ask_score(judge, PROMPT, TEN, n_samples=3)
    assert (score.value, score.method, score.raw_score) == (pytest.approx(0.7), "samples", 7.0)
    assert [asked.samples for asked in judge.questions] == [1, 2]


async def test_samples_are_averaged_and_drawn_with_some_heat():
    numbers = iter([2, 4, 9, 4, 6])
    judge = ScriptedJudge(lambda _prompt, _reply: {"reason": "so", "score": next(numbers)})
    score = await ask_score(judge, PROMPT, TEN, mode="samples")
    assert (score.value, score.method, score.details["samples"]) == (0.5, "samples", [2, 4, 9, 4, 6])
    assert (judge.questions[0].samples, judge.questions[0].prompt.temperature) == (SAMPLES, 1.0)


def test_a_scale_needs_two_ends():
    with pytest.raises(ValueError):
        Scale(5, 5)


def test_off_the_scale_is_no_score():
    with pytest.raises(ValueError):
        TEN.normalize(11)


def digit_by_digit(first, second, reason="so"):
    """An answer on a scale to 100 by a tokeniser that has only single digits, with what was weighed for both."""
    head = f'{{"reason": "{reason}", "score": '
    tokens = [Token(head, 0.0, ((head, 0.0),))]
    for weighed in (first, second, {"}": 1.0}):
        chosen = max(weighed, key=weighed.get)
        alternatives = tuple((text, math.log(mass)) for text, mass in weighed.items())
        tokens.append(Token(chosen, math.log(weighed[chosen]), alternatives))
    return ScriptedAnswer("".join(token.text for token in tokens), tokens)


HUNDRED = Scale(0, 100)


async def test_digit_by_digit_the_plain_number_is_better_than_the_mean_of_one_decade():
    """85 with 0.55, 90 with 0.45: of what follows a 9 nobody knows, and without it the mean is that of the eighties."""
    torn = digit_by_digit({"8": 0.55, "9": 0.45}, {"5": 0.6, "0": 0.4})
    score = await ask_score(ScriptedJudge(torn), PROMPT, HUNDRED)
    assert (score.value, score.method, score.details) == (0.85, "single", {"fallback": "digit_by_digit"})
    with pytest.raises(MethodUnavailable):
        await ask_score(ScriptedJudge(torn), PROMPT, HUNDRED, mode="logprobs")
    sampled = await ask_score(ScriptedJudge(torn), PROMPT, HUNDRED, n_samples=3)
    assert (sampled.method, sampled.details) == ("samples", {"samples": [85, 85, 85], "uncertainty": 0.0})


async def test_digit_by_digit_within_one_decade_is_weighed():
    sure = digit_by_digit({"8": 0.97, "9": 0.03}, {"5": 0.6, "0": 0.4})
    score = await ask_score(ScriptedJudge(sure), PROMPT, HUNDRED)
    assert (score.value, score.method) == (pytest.approx(0.83), "logprobs")


async def test_on_0_to_10_only_one_number_has_two_digits():
    said = digit_by_digit({"9": 0.7, "1": 0.3}, {"}": 1.0})
    score = await ask_score(ScriptedJudge(ScriptedAnswer(said.text[:-1], said.tokens[:-1])), PROMPT, TEN)
    assert (score.value, score.method, score.kept_mass) == (0.9, "logprobs", pytest.approx(0.7))
