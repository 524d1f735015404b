"""Each way in which tokens can hold a score, with what must come of it."""

import math
from dataclasses import dataclass

import pytest

from evaluators.answers.expected_score import Distribution, find_value_span, score_distribution
from evaluators.judge import Prompt, Token
from evaluators.mechanisms.scoring import ask_score
from evaluators.scale import Scale
from evaluators.testing import ScriptedAnswer, ScriptedJudge

TEN = Scale(0, 10)
HUNDRED = Scale(0, 100)


def token(text, alternatives=None, logprob=None):
    """A token; alternatives by text with probabilities, certain of itself without."""
    alternatives = {text: 1.0} if alternatives is None else alternatives
    if logprob is None:
        logprob = math.log(alternatives.get(text) or 1.0)
    return Token(text, logprob, tuple((each, math.log(p)) for each, p in alternatives.items()))


def said(*tokens):
    return ScriptedAnswer("".join(each.text for each in tokens), tokens)


START = token('{"reason": "ok", "score":')
END = token("}")


@dataclass
class Case:
    answer: ScriptedAnswer
    method: str
    value: float
    kept_mass: float | None
    scale: Scale = TEN


CASES = {
    "torn between 7 and 8": Case(said(START, token(" "), token("8", {"8": 0.6, "7": 0.4}), END), "logprobs", 0.76, 1.0),
    "the reason holds the digit": Case(
        said(
            token('{"reason": "All '),
            token("8", {"8": 0.1, "2": 0.9}),
            token(' of them", "score": '),
            token("8", {"8": 0.5, "9": 0.5}),
            END,
        ),
        "logprobs",
        0.85,
        1.0,
    ),
    "the digit comes again after the score": Case(
        said(
            token('{"score": '),
            token("8", {"8": 0.5, "9": 0.5}),
            token(', "reason": "all '),
            token("8", {"8": 0.1, "2": 0.9}),
            token('"}'),
        ),
        "logprobs",
        0.85,
        1.0,
    ),
    "space in the token": Case(said(START, token(" 7", {" 7": 0.6, " 8": 0.4}), END), "logprobs", 0.74, 1.0),
    "quote in the token": Case(
        said(START, token(' "'), token('7"', {'7"': 0.6, '8"': 0.4}), END), "logprobs", 0.74, 1.0
    ),
    "brace in the token": Case(said(START, token(" "), token("7}", {"7}": 0.5, "9": 0.5})), "logprobs", 0.8, 1.0),
    "10 in one token": Case(
        said(START, token(" "), token("10", {"10": 0.7, "9": 0.2, "1": 0.1}), END), "logprobs", 0.89, 1.0
    ),
    "10 in two tokens": Case(  # 10: .8 * .75; 1: .8 * .25; 9: .2
        said(START, token(" "), token("1", {"1": 0.8, "9": 0.2}), token("0", {"0": 0.75, "}": 0.25}), END),
        "logprobs",
        (0.6 * 10 + 0.2 * 1 + 0.2 * 9) / 10,
        1.0,
    ),
    "1 where 10 takes two tokens": Case(  # 1: .9 * .9; 10: .9 * .1; 2: .1
        said(START, token(" "), token("1", {"1": 0.9, "2": 0.1}), token("}", {"}": 0.9, "0": 0.1})),
        "logprobs",
        (0.81 * 1 + 0.09 * 10 + 0.1 * 2) / 10,
        1.0,
    ),
    "a first digit that might be of 10 is left out": Case(
        said(START, token(" "), token("8", {"8": 0.6, "1": 0.4}), END), "logprobs", 0.8, 0.6
    ),
    "a first digit that might be of 10 or 11": Case(  # on 0 to 10 a 1 that is not 1 can only be 10
        said(START, token(" "), token("8", {"8": 0.6, "1": 0.4}), END), "single", 8 / 11, 0.6, Scale(0, 11)
    ),
    "85 in two tokens": Case(  # 85: .95 * .6; 80: .95 * .3; 8: .95 * .1; what follows the 9 is not known
        said(
            START,
            token(" "),
            token("8", {"8": 0.95, "9": 0.05}),
            token("5", {"5": 0.6, "0": 0.3, "}": 0.1}),
            token("}", {"}": 1.0}),
        ),
        "logprobs",
        (0.6 * 85 + 0.3 * 80 + 0.1 * 8) / 100,
        0.95,
        HUNDRED,
    ),
    "85 in two tokens, or something in the nineties": Case(  # with .3: the mean of the eighties is further off than 85
        said(
            START,
            token(" "),
            token("8", {"8": 0.7, "9": 0.3}),
            token("5", {"5": 0.6, "0": 0.3, "}": 0.1}),
            token("}", {"}": 1.0}),
        ),
        "single",
        0.85,
        0.7,
        HUNDRED,
    ),
    "85 in one token": Case(
        said(START, token(" "), token("85", {"85": 0.6, "9": 0.1, "90": 0.3}), END),
        "logprobs",
        (0.6 * 85 + 0.1 * 9 + 0.3 * 90) / 100,
        1.0,
        HUNDRED,
    ),
    "8.0": Case(said(START, token(" "), token("8", {"8": 0.5, "6": 0.5}), token(".0"), END), "logprobs", 0.7, 1.0),
    "duplicate alternatives": Case(
        said(START, token(" 8", {" 8": 0.4, "8": 0.2, " 7": 0.3, "7": 0.1}), END), "logprobs", 0.76, 1.0
    ),
    "out-of-range alternatives": Case(
        said(START, token(" "), token("7", {"7": 0.5, "8": 0.3, "20": 0.1, "9": 0.05}), END),
        "logprobs",
        (3.5 + 2.4 + 0.45) / 0.85 / 10,
        0.85,
    ),
    "negative scale": Case(
        said(START, token(" "), token("-1", {"-1": 0.5, "1": 0.5}), END), "logprobs", 0.5, 1.0, Scale(-2, 2)
    ),
    "sign in a token of its own": Case(  # what follows the other sign is not known
        said(START, token(" "), token("-", {"-": 0.9, "1": 0.1}), token("1", {"1": 0.5, "2": 0.5}), END),
        "logprobs",
        (0.45 * 1 + 0.45 * 0 + 0.1 * 3) / 4,
        1.0,
        Scale(-2, 2),
    ),
    "mass below the floor": Case(said(START, token(" "), token("8", {"8": 0.3, "good": 0.6}), END), "single", 0.8, 0.3),
    "forced token with the alternatives of a neighbour": Case(
        said(START, token(" "), token("8", {"7": 0.9, "6": 0.1}, logprob=-9999.0), END), "single", 0.8, None
    ),
    "forced token among its alternatives": Case(
        said(START, token(" "), Token("8", -9999.0, (("8", -9999.0), ("7", -0.1))), END), "single", 0.8, None
    ),
    "likely token with the alternatives of a neighbour": Case(
        said(START, token(" "), token("8", {"7": 0.9, "6": 0.1}, logprob=-0.1), END), "single", 0.8, None
    ),
    "forced token after a number that cannot go on": Case(
        said(START, token(" "), token("8", {"8": 0.6, "7": 0.4}), Token("}", -9999.0)), "logprobs", 0.76, 1.0
    ),
    "logarithm above 0": Case(said(START, token(" "), Token("8", 0.5, (("8", 0.5),)), END), "logprobs", 0.8, 1.0),
    "alternatives of more than everything": Case(
        said(START, token(" "), token("8", {"8": 0.9, "7": 0.9}), END), "single", 0.8, None
    ),
    "not a number": Case(said(START, token(" "), Token("8", math.nan, (("8", math.nan),)), END), "single", 0.8, None),
    "no alternatives": Case(said(START, token(" "), token("8", {}), END), "single", 0.8, None),
    "no tokens": Case(ScriptedAnswer('{"reason": "ok", "score": 8}'), "single", 0.8, None),
    "tokens of another text": Case(
        ScriptedAnswer('{"reason": "ok", "score": 8}', [token("some"), token("thing")]), "single", 0.8, None
    ),
    "tokens that end before the score": Case(
        ScriptedAnswer('{"reason": "ok", "score": 8}', [START, token(" ")]), "single", 0.8, None
    ),
    "nothing is known of the tokens before the score": Case(
        ScriptedAnswer('{"reason": "ok", "score": 8}', [token("of another"), token("8", {"8": 0.6, "7": 0.4}), END]),
        "logprobs",
        0.76,
        1.0,
    ),
    "token that is not in the text": Case(
        ScriptedAnswer(
            '{"reason": "ok", "score": 8}', [START, token(" "), token("8", {"8": 0.6, "7": 0.4}), token("9"), END]
        ),
        "single",
        0.8,
        None,
    ),
    "end-of-turn token": Case(
        ScriptedAnswer(
            '{"reason": "ok", "score": 8}',
            [START, token(" "), token("8", {"8": 0.6, "7": 0.4}), END, token("<|im_end|>"), token("")],
        ),
        "logprobs",
        0.76,
        1.0,
    ),
    "white space that the server cut off": Case(
        ScriptedAnswer(
            '{"reason": "ok", "score": 8}', [START, token(" "), token("8", {"8": 0.6, "7": 0.4}), token("}\n\n")]
        ),
        "logprobs",
        0.76,
        1.0,
    ),
    "code fence around it": Case(
        said(token("```json\n"), START, token(" "), token("8", {"8": 0.6, "7": 0.4}), END, token("\n```")),
        "logprobs",
        0.76,
        1.0,
    ),
    "tokens that are half a character, before the score": Case(
        ScriptedAnswer(
            '{"reason": "é", "score": 8}',
            [
                token('{"reason": "\ufffd'),
                token("\ufffd"),
                token('", "score": '),
                token("8", {"8": 0.6, "7": 0.4}),
                END,
            ],
        ),
        "logprobs",
        0.76,
        1.0,
    ),
    "line end within the reason": Case(
        said(token('{"reason": "one\ntwo", "score": '), token("8", {"8": 0.6, "7": 0.4}), END), "logprobs", 0.76, 1.0
    ),
    "repaired JSON": Case(said(START, token(" "), token("8", {"8": 0.6, "7": 0.4}), token(",}")), "single", 0.8, None),
    "escaped quotes and braces in the reason": Case(
        said(token('{"reason": "says \\"score\\": 2}, {", "score": '), token("8", {"8": 0.6, "7": 0.4}), END),
        "logprobs",
        0.76,
        1.0,
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
async def test_what_comes_of_the_tokens(case):
    score = await ask_score(ScriptedJudge(case.answer), Prompt("Judge.", {"a": "b"}), case.scale)
    assert score.method == case.method
    assert score.value == pytest.approx(case.value)
    assert score.kept_mass == (None if case.kept_mass is None else pytest.approx(case.kept_mass))
    assert score.range == case.scale.bounds


def test_the_number_written_keeps_its_place():
    answer = CASES["torn between 7 and 8"].answer
    weighed = score_distribution(answer.text, answer.tokens, TEN)
    assert weighed.masses == {8: pytest.approx(0.6), 7: pytest.approx(0.4)}


def test_rounding_does_not_leave_the_scale():
    weighed = score_distribution("", [], TEN)
    assert weighed is None
    third = said(START, token(" "), token("10", {"10": 1 / 3, " 10": 1 / 3, "10 ": 1 / 3}), END)
    assert score_distribution(third.text, third.tokens, TEN).moments[0] <= 10


@pytest.mark.parametrize(("after", "known"), [(399, True), (400, False)])
def test_the_score_is_looked_for_among_the_last_four_hundred_tokens(after: int, known: bool) -> None:
    rest = [token(', "reason": "'), *[token("x")] * (after - 2), token('"}')]
    answer = said(token('{"score": '), token("8", {"8": 0.6, "7": 0.4}), *rest)
    assert (score_distribution(answer.text, answer.tokens, TEN) is not None) is known


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ('{"score": 8}', (10, 11)),
        ('{"score":-12}', (9, 12)),
        ('{"score": "8"}', (11, 12)),
        ('{"score": 8.00, "reason": "no"}', (10, 11)),
        ('{"a": {"score": 3}, "b": [1, "score"], "score":  7}', (49, 50)),
        ('{"score": 8.5}', None),
        ('{"score": null}', None),
        ('{"reason": "none"}', None),
        ("{}", None),
    ],
)
def test_where_the_number_stands(text: str, span: tuple[int, int] | None) -> None:
    assert find_value_span(text, "score") == span


def test_kept_mass_and_mean_of_what_was_seen() -> None:
    some = Distribution({7: 0.25, 9: 0.5})
    assert some.kept_mass == 0.75
    assert some.moments[0] == pytest.approx((7 * 0.25 + 9 * 0.5) / 0.75)
    assert Distribution({7: 0.51, 9: 0.51}).kept_mass == 1.0, "rounded"


def test_a_token_of_a_hundredth_is_one_that_the_model_chose() -> None:
    for probability, known in ((0.0099, False), (0.0101, True)):
        chosen = token("8", {"8": probability, "7": 0.9})
        weighed = score_distribution('{"score": 8}', [token('{"score": '), chosen, END], TEN)
        assert (weighed is not None) is known


def test_alternatives_may_add_up_to_two_hundredths_too_much() -> None:
    for other, known in ((0.419, True), (0.421, False)):
        weighed = score_distribution(
            '{"score": 8}', [token('{"score": '), token("8", {"8": 0.6, "7": other}), END], TEN
        )
        assert (weighed is not None) is known
