"""The tokens of a part of an answer, wherever tokens begin and end."""

import pytest

from evaluators.answers.expected_score import score_distribution
from evaluators.judge import Token
from evaluators.packs.token_slices import TokenSlices
from evaluators.scale import Scale

TEXT = '{"q1": {"reason": "a", "score": 7}, "q2": {"reason": "ü", "score": 3}}'


def tokens(*texts: str, **alternatives: dict[str, float]) -> list[Token]:
    return [Token(text, -0.5, ((text, -0.5), ("9", -1.5))) for text in texts]


def entry(name: str) -> tuple[int, int]:
    start = TEXT.index("{", TEXT.index(name))
    return start, TEXT.index("}", start) + 1


CUTS = {
    "at the ends": ['{"q1": ', '{"reason": "a", "score": ', "7", "}", ', "q2": ', '{"reason": "ü", "score": ', "3", "}", "}"],
    "beyond the ends": ['{"q1": {', '"reason": "a", "score": ', "7", '}, "q2": {"rea', 'son": "ü", "score": ', "3", "}}"],
    "with the number": ['{"q1": {"reason": "a", "score":', " 7},", ' "q2": {"reason": "ü", "score":', " 3}}"],
    "with an end of turn": ['{"q1": {"reason": "a", "score": ', "7", '}, "q2": {"reason": "ü", "score": ', "3", "}}", "<|end|>"],
    "a divided letter": ['{"q1": {"reason": "a", "score": ', "7", '}, "q2": {"reason": "', "\ufffd", "\ufffd", '", "', "score", '": ', "3", "}}"],
    "white space before": ["\n\n", '{"q1": {"reason": "a", "score": ', "7", '}, "q2": {"reason": "ü", "score": ', "3", "}}"],
}  # fmt: skip


@pytest.mark.parametrize("name", CUTS)
def test_each_entry_has_its_own_number(name: str) -> None:
    slices = TokenSlices(TEXT, tokens(*CUTS[name]))
    for question, number in (("q1", "7"), ("q2", "3")):
        start, end = entry(question)
        part = slices.between(start, end)
        assert "".join(each.text for each in part) == TEXT[start:end]
        weighed = score_distribution(TEXT[start:end], part, Scale(0, 10))
        assert weighed is not None
        assert sorted(weighed.masses) == sorted({int(number), 9})


def test_a_number_that_the_tokens_do_not_spell_has_no_probabilities() -> None:
    slices = TokenSlices(
        TEXT, tokens('{"q1": {"reason": "a", "score": ', "8", "}, ", '"q2', '": {"reason": "ü", "score": ', "3", "}}")
    )
    start, end = entry("q1")
    assert score_distribution(TEXT[start:end], slices.between(start, end), Scale(0, 10)) is None
    start, end = entry("q2")
    assert score_distribution(TEXT[start:end], slices.between(start, end), Scale(0, 10)) is not None


def test_other_tokens_have_no_places() -> None:
    assert not list(TokenSlices(TEXT, tokens("x", "y")).between(*entry("q2")))
    assert TokenSlices(TEXT, []).between(0, 5) == ()
