"""Answers that say nothing. Some judges score such answers highly, so no judge is asked about them."""

import unicodedata

from evaluators.results import Score

_OPENERS = frozenset(
    {"thought process:", "let's solve this problem step by step.", "let's think step by step.", "solution:", "answer:"}
)
"""Openings that say nothing and yet win judges over (Zhao et al. 2025, "One token to fool")."""
EMPTY_JSON = frozenset({"[]", "{}"})
"""Answers without a word that say that nothing was found."""


def is_trivial_answer(text: str) -> bool:
    """Whether a text has no letter, digit or symbol, or is nothing but the opening of an answer."""
    is_opening = text.strip().casefold() in _OPENERS
    return is_opening or all(unicodedata.category(character)[0] in "ZCP" for character in text)


def worst_score(field: str, score_range: tuple[float, float], *, higher_is_better: bool) -> Score:
    """The score of a case with a field that says nothing."""
    lowest, highest = score_range
    return Score(
        value=0.0 if higher_is_better else 1.0,
        explanation=f"{field} says nothing: it has no word in it.",
        raw_score=lowest if higher_is_better else highest,
        range=score_range,
    )
