"""Signs that a judged text speaks to its judge. They are reported beside a score and change nothing about it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from evaluators.cases import Json
from evaluators.fence import clean
from evaluators.material import texts_in
from evaluators.reading import find


@dataclass(frozen=True, slots=True)
class _Sign:
    """A pattern, and words of which a text must hold one for the pattern to be tried: most texts hold none."""

    words: tuple[str, ...]
    pattern: re.Pattern[str]


def _sign(words: str, pattern: str) -> _Sign:
    return _Sign(tuple(words.split()), re.compile(pattern, re.DOTALL))


_SIGNS: Mapping[str, _Sign] = {
    "asks_to_ignore_instructions": _sign(
        "ignore disregard forget override",
        r"\b(?:ignore|disregard|forget|override)\b.{0,40}\b(?:instructions?|rubrics?|criteri\w+|prompts?|rules?|steps?)\b",
    ),
    "asks_for_a_score": _sign(
        "score rating 10 marks highest rate",
        r"\b(?:give|assign|award)\b[^.\n]{0,40}?\b(?:scores?|ratings?|100?|full marks|highest)\b(?! ?%)"
        r"|\brate (?:this|it|the (?:answer|response))\b|\b(?:score|rating)(?: is| of|:)? (?:100?|ten|1\.0)\b",
    ),
    "addresses_the_judge": _sign(
        "evaluator judge grader",
        r"\b(?:dear|attention|note to|hey|you are (?:the|a|an))\W{0,3}(?:evaluator|judge|grader)\b",
    ),
    "holds_a_verdict": _sign("score\" score'", r"[\"']score[\"']\s*:\s*\"?\d"),
    "holds_a_marker": _sign(
        "<<< material> system> instruction", r"<<<\s*(?:end of )?material|</?(?:material|system|instructions?)>"
    ),
    "plays_a_role": _sign(
        "<| inst] sys>> system: assistant:",
        # the space after the bracket is what cleaning puts there
        r"<\| ?[\w\- ]{1,40}\|>|\[ ?/?inst\]|<< ?/?sys>>|(?:^|\n)[\s#*]*(?:system|assistant):",
    ),
}
_HIDDEN = re.compile("[\U000e0000-\U000e007f\u202a-\u202e]|(?<=[a-zA-Z])[\u200b-\u200d\u2060](?=[a-zA-Z])")
_LONGEST = 20_000
_TELLING = 20


def signs_in(material: Mapping[str, Json]) -> frozenset[str]:
    """The names of the signs found in any text of the material."""
    found: set[str] = set()
    for text in texts_in(material):
        shown = text[:_LONGEST] + text[-_LONGEST:] if len(text) > 2 * _LONGEST else text
        lowered = clean(shown).lower()
        for name, sign in _SIGNS.items():
            if any(word in lowered for word in sign.words) and sign.pattern.search(lowered):
                found.add(name)
        if not shown.isascii() and _hides(shown):
            found.add("hides_characters")
    return frozenset(found)


def repeats(answer: str, material: Mapping[str, Json]) -> bool:
    """Whether a judge's verdict stands word for word in what it was shown: then it is not the judge's own.

    White space does not count.
    """
    found = find(answer)
    verdict = "".join(answer[found.start : found.end].split())
    if len(verdict) < _TELLING or 'reason"' not in verdict:
        return False  # too short to tell, or no verdict: a list of what the text says may well stand in the text
    return any("{" in text and verdict in "".join(text.split()) for text in texts_in(material))


def _hides(text: str) -> bool:
    """Whether the text holds a hidden copy of ASCII, overrides the direction of writing, or has gaps inside words."""
    return _HIDDEN.search(text) is not None
