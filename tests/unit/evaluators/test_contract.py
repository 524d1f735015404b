"""The contract finds out evaluators that do not keep it."""

from itertools import count
from typing import ClassVar

import pytest
from pydantic import BaseModel

from evaluators.cases import Turn
from evaluators.contract import find_breaches
from evaluators.errors import JudgeError
from evaluators.evaluator import Evaluator
from evaluators.judge import Prompt
from evaluators.results import Score
from evaluators.scale import Scale
from evaluators.testing import a_turn

NUMBERS = count()
RATED = Scale(0, 10).reply


class Breaking(Evaluator[Turn]):
    """Breaks one promise."""

    kind: ClassVar[str] = "breaking"
    prompts: ClassVar[tuple[str, ...]] = ("Judge.",)
    promise: str

    @property
    def requires(self):
        return frozenset({"expected_output"} if self.promise == "the case" else {"input"})

    async def evaluate(self, case, judge):
        if self.promise == "fails":
            raise ValueError
        if self.promise == "lots":
            return Score(value=next(NUMBERS) % 2)
        text = case.input if self.promise == "instructions" else "Judge."
        try:
            verdict = await judge.ask(Prompt(text, {"input": case.input}), RATED)
        except JudgeError:
            if self.promise == "swallows":
                return Score(value=0.0)
            raise
        return Score(value=verdict.reply.score / 10)


@pytest.mark.parametrize(
    ("promise", "sentence"),
    [
        ("the case", "the case has no expected_output"),
        ("fails", "it fails on the case: internal_error"),
        ("lots", "it scores the same case differently"),
        ("instructions", "it puts judged text into the instructions"),
        ("swallows", "it makes something of a judge that gives no answer"),
    ],
)
async def test_a_broken_promise_is_named(promise, sentence):
    found = await find_breaches(Breaking(name="b", promise=promise), a_turn())
    assert [each[: len(sentence)] for each in found] == [sentence]


async def test_what_can_be_seen_without_running_it_is_named_too():
    class Wrong(Breaking):
        """Needs what no turn has."""

        requires: ClassVar = frozenset({"inptu"})

    (sentence,) = await find_breaches(Wrong(name="w", promise="none"), a_turn())
    assert "Wrong.requires names 'inptu', which no turn has; did you mean 'input'?" in sentence


async def test_one_that_keeps_them_all():
    assert await find_breaches(Breaking(name="b", promise="none"), a_turn()) == []


async def test_a_prompt_that_is_no_part_of_the_version_is_named():
    class Unversioned(Breaking):
        """Asks without `prompts`."""

        prompts: ClassVar = ()

    (sentence,) = await find_breaches(Unversioned(name="u", promise="none"), a_turn())
    assert "write prompts: ClassVar[tuple[str, ...]] = (PROMPT,)" in sentence


async def test_one_that_asks_no_judge_says_so():
    class Silent(Breaking):
        """Counts letters."""

        prompts: ClassVar = ()

        async def evaluate(self, case, judge):
            return Score(value=min(1.0, len(case.input) / 100))

    assert await find_breaches(Silent(name="s", promise="none"), a_turn()) == [
        "it asks no judge: set needs_judge: ClassVar[bool] = False"
    ]


async def test_a_reply_of_yes_or_no_is_answered():
    class YesOrNo(BaseModel):
        reason: str
        holds: bool

    class Deciding(Breaking):
        """Asks for a boolean."""

        async def evaluate(self, case, judge):
            return Score(value=float((await judge.ask(Prompt("Judge.", {"input": case.input}), YesOrNo)).reply.holds))

    assert await find_breaches(Deciding(name="d", promise="none"), a_turn()) == []


async def test_one_that_asks_although_it_says_it_does_not():
    class Asking(Breaking):
        """Asks."""

        needs_judge: ClassVar[bool] = False

    assert await find_breaches(Asking(name="a", promise="none"), a_turn()) == [
        "it asks a judge: set needs_judge to True"
    ]
