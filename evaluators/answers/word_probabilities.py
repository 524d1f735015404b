"""The words that a judge weighed when it chose one of a fixed set: from the token probabilities of its answer.

A judge that writes "yes" may have been torn between yes and no. Like a number (`expected_score`), the word is found by
its place in the answer. A word of several tokens is followed token by token; each token's alternatives lead to other
words.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

from evaluators.answers.expected_score import weigh
from evaluators.answers.reply_parser import find_object
from evaluators.answers.token_places import TokenPlaces, place_tokens
from evaluators.errors import JudgeReplyInvalid
from evaluators.judge import Answer, texts_of
from evaluators.scale import plain_word

MIN_WORD_MASS = 0.5
"""The least share of probability on the words at which their distribution is better than the written word."""

_STRING = re.compile(r"\"((?:[^\"\\]++|\\.)*+)\"?", re.DOTALL)  # an open one ends the text: no text is read twice
_BEFORE_VALUE = re.compile(r"\s*+:\s*+")


@dataclass(frozen=True, slots=True)
class WordDistribution:
    """Probabilities of words. `kept_mass` is their sum, which may be below 1."""

    masses: Mapping[str, float]

    @property
    def kept_mass(self) -> float:
        """The share of probability that lay on the words."""
        return min(1.0, math.fsum(self.masses.values()))

    @property
    def shares(self) -> Mapping[str, float]:
        """The probabilities, adding up to 1."""
        total = math.fsum(self.masses.values())
        return {word: mass / total for word, mass in self.masses.items()}

    @property
    def entropy(self) -> float:
        """How undecided the judge was, in bits: 0 for one word alone, 1 for two equally likely words."""
        return max(0.0, -math.fsum(share * math.log2(share) for share in self.shares.values() if share > 0))


def word_distributions(answer: Answer[Any], field: str, words: Sequence[str]) -> Sequence[WordDistribution | None]:
    """The words that the judge weighed for each text under the name `field`, in the order of the answer.

    The entry is None if the words of a text cannot be determined: a grammar forced its alternatives, or too little of
    their probability lay on the words. Empty if the answer has no tokens that spell it.
    """
    places = place_tokens(answer.text, texts_of(answer.tokens))
    if len(places.misspelt) == len(answer.tokens):
        return ()
    return [_distribution(answer, places, span, words) for span in _value_spans(answer.text, field)]


def as_written(text: str, field: str) -> Sequence[Mapping[str, Any]]:
    """The objects in a list of an answer, in its order."""
    return find_object(text, None).value[field]


def _value_spans(text: str, field: str) -> Iterator[tuple[int, int]]:
    """The positions of the texts that are values of a name, on any level of the answer's object."""
    try:
        reply = find_object(text)
    except JudgeReplyInvalid:
        return
    if not reply.exact:
        return
    is_value = False
    for match in _STRING.finditer(text, reply.start, reply.end):
        if is_value:
            yield match.span(1)
        after = _BEFORE_VALUE.match(text, match.end())
        is_value = (
            not is_value and match[1] == field and after is not None and text[after.end() : after.end() + 1] == '"'
        )


def _distribution(
    answer: Answer[Any], places: TokenPlaces, span: tuple[int, int], words: Sequence[str]
) -> WordDistribution | None:
    plain = {plain_word(word): word for word in words}
    masses: dict[str, float] = {}
    prefix, mass = "", 1.0
    for number, (start, end) in enumerate(pairwise(places.bounds)):
        if end <= span[0] or start > span[1]:
            continue
        before = answer.text[start : span[0]] if start < span[0] else ""
        token = answer.tokens[number]
        written, part_of = _part(token.text, before), partial(_part, before=before)
        weighed = None if number in places.misspelt else weigh(token, written, part_of)
        if weighed is None:
            return None
        own, others = weighed
        for part, probability in others.items():
            fitting = list(_fitting(prefix + part, plain))
            if len(fitting) == 1:
                masses[fitting[0]] = masses.get(fitting[0], 0.0) + mass * probability
        prefix, mass = prefix + written, mass * own
        fitting = list(_fitting(prefix, plain))
        if len(fitting) <= 1:
            break
    else:
        fitting = list(_fitting(prefix + '"', plain))
    for word in fitting:
        masses[word] = masses.get(word, 0.0) + mass
    weighed_words = WordDistribution(masses)
    return weighed_words if weighed_words.kept_mass >= MIN_WORD_MASS else None


def _fitting(written: str, plain: Mapping[str, str]) -> Iterable[str]:
    """The words that the text so far may become; only one if a quotation mark has ended it."""
    begun, quote, _ = written.lstrip(" \t\n*'`").partition('"')
    if quote:
        word = plain.get(plain_word(begun))
        return () if word is None else (word,)
    begun = begun.casefold()
    return [word for text, word in plain.items() if text.startswith(begun) or begun.rstrip(" .!*'`") == text]


def _part(text: str, before: str) -> str:
    """The part of the word that an alternative token contributes: text before the word in the token does not count."""
    return text.removeprefix(before) if text.startswith(before) else text.lstrip(' \t\n"')
