import pytest

from evaluators.errors import MethodUnavailable
from evaluators.judge import Prompt
from evaluators.scale import Scale
from evaluators.scoring import SAMPLES, ask_score
from evaluators.testing import ScriptedJudge, verdict_tokens

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
    numbers = iter([1, 4, 8, 9])
    judge = ScriptedJudge(lambda _prompt, _reply: {"reason": "so", "score": next(numbers)})
    score = await ask_score(judge, PROMPT, TEN, n_samples=3)
    assert (score.value, score.method, score.raw_score) == (pytest.approx(0.7), "samples", 7.0)
    assert [asked.samples for asked in judge.questions] == [1, 3]


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
