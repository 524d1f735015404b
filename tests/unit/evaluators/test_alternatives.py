from typing import Literal

import pytest

from evaluators.answers.alternatives import alternatives_for
from evaluators.judge import Prompt
from evaluators.packs.packed_prompt import PackedQuestion, pack_questions
from evaluators.scale import Reply, Scale


class YesNo(Reply):
    verdicts: list[Literal["yes", "no"]]


class Truth(Reply):
    so: bool


class Claims(Reply):
    claims: list[str]
    number: int


@pytest.mark.parametrize(
    ("reply", "alternatives"),
    [
        (Scale(0, 10).reply, 13),
        (Scale(1, 5).reply, 10),
        (Scale(0, 1).reply, 10),
        (Scale(0, 100).reply, 20),
        (Scale(-5, 5).reply_with("none"), 13),
        (YesNo, 10),
        (Truth, 10),
        (Claims, 20),
    ],
)
def test_alternatives_by_the_options_of_a_form(reply, alternatives):
    assert alternatives_for(reply) == alternatives


def test_a_pack_asks_for_as_many_as_the_question_with_most_options():
    def question(reply, *, logprobs):
        return PackedQuestion(Prompt("Judge.", {"input": "x"}), reply, logprobs)

    both = [question(Scale(0, 10).reply, logprobs=True), question(Scale(1, 5).reply, logprobs=True)]
    assert pack_questions(both).alternatives == 13
    assert pack_questions([both[1], question(Claims, logprobs=False)]).alternatives == 10
    assert pack_questions([question(Claims, logprobs=False)]).alternatives == 0
