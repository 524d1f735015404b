"""The expected score: the mean of the numbers that the model weighed, from the token probabilities of its answer.

A judge that writes 8 may have been torn between 7 and 8. If the model reports the probabilities of the tokens it
weighed, the score is their mean: the sum over the scale of p(s) * s, divided by the sum of p(s) that was seen on the
scale (the kept mass). After Liu et al. 2023, "G-Eval", section 3, equation 1.

The token that holds the score is found by its place in the answer, not by its text: a digit in the reason is no score.
"""

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from operator import mul

from evaluators.answers.reply_parser import find_object
from evaluators.judge import Token, texts_of
from evaluators.scale import Scale

MIN_SCALE_MASS = 0.5
"""The least probability mass on the scale with which the distribution is better than the number written."""

MOST_UNDECIDED = 0.1
"""The most probability mass that may be undecided on a scale like 0 to 100, whose numbers are written digit by digit.
Above this, only numbers of one decade are left, and their mean is further from the truth than the written number."""

_SANE = 0.01
"""The least probability of a token that the model really chose. Forced tokens report something like e^-9999."""

_CERTAIN = 1.02
"""The largest valid sum of the probabilities of alternatives, rounding included."""

_NUMBER = re.compile(r"\s*(-|-?[0-9]+)(?:\.0*)?[\s,}\]\"]*")
_SEVERAL_DIGITS = re.compile(r"\d\d")
_WHOLE_NUMBER = re.compile(r"\"?\s*+(-?\d++)(?:\.0*+)?\s*+\"?")
_VALUES = json.JSONDecoder(strict=False)
_LONGEST_TAIL = 400  # tokens after the score: the score is the last field, so there are few


@dataclass(frozen=True, slots=True)
class Distribution:
    """The numbers that the model weighed: probabilities by whole number of the scale. They need not add up to 1.

    `undecided` is the probability of first digits of other numbers, for models that write numbers digit by digit: a
    first digit does not tell which number would have followed.
    """

    masses: dict[int, float]
    undecided: float = 0.0

    @property
    def kept_mass(self) -> float:
        """The share of probability that lay on numbers of the scale."""
        return min(1.0, math.fsum(self.masses.values()))

    def leaves_out_decades(self, scale: Scale) -> bool:
        """Whether too much probability lies in decades beside the written one; on 0 to 10 only 10 has two digits."""
        return self.undecided > MOST_UNDECIDED and scale.highest - scale.lowest > 10

    @property
    def moments(self) -> tuple[float, float]:
        """The expected score and its standard deviation, on the scale."""
        total = math.fsum(self.masses.values())
        mean = math.fsum(map(mul, self.masses, self.masses.values())) / total
        mean = min(max(self.masses), max(min(self.masses), mean))  # rounding must not leave the scale
        return mean, math.sqrt(math.fsum(mass * (value - mean) ** 2 for value, mass in self.masses.items()) / total)


def score_distribution(text: str, tokens: Sequence[Token], scale: Scale, field: str = "score") -> Distribution | None:
    """Returns the numbers that the model weighed for a field of its answer, or None if they cannot be determined.

    They cannot if there are no tokens, if the tokens do not spell the answer, if the field's value is not a plain whole
    number, or if a token's alternatives belong to something else (a grammar forced them, or they are a neighbour's).
    """
    if not tokens:
        return None
    span = find_value_span(text, field)
    if span is None:
        return None
    path = _tokens_of(text, tokens, span)
    if path is None:
        return None
    written = text[slice(*span)]
    return _walk(path, written, scale) if written in scale.numerals else None


def find_value_span(text: str, field: str) -> tuple[int, int] | None:
    """The position of the digits of a field's whole-number value in an answer, sign included; None if none."""
    reply = find_object(text)
    if not reply.exact:
        return None
    at = reply.start + 1
    while (at := text.find('"', at)) >= 0:
        key, at = _VALUES.raw_decode(text, at)
        at = text.index(":", at) + 1
        at += len(text[at:]) - len(text[at:].lstrip())
        _, end = _VALUES.raw_decode(text, at)
        if key == field:
            match = _WHOLE_NUMBER.fullmatch(text, at, end)  # 8, "8" or 8.0
            return match.span(1) if match else None
        at = end
    return None


@dataclass(frozen=True, slots=True)
class _Step:
    """A token that holds part of the number: its text before that part, and the part."""

    tokens: Sequence[Token]
    index: int
    before: str
    part: str


def _tokens_of(text: str, tokens: Sequence[Token], span: tuple[int, int]) -> list[_Step] | None:
    """The tokens that hold the span, in order, and the next token; None if the tokens do not spell the text.

    Tokens are read from the end, as the score is the last field: the tokens of the reason need not be read.
    """
    # Tokens are located by spelling the text, not by a server's byte offsets: few servers send these, and their tokens
    # may have been cut at white space or end in an end-of-turn token that the text lacks.
    steps: list[_Step] = []
    for index, start, end in _backwards(text, texts_of(tokens)):
        low, high = max(start, span[0]), min(end, span[1])
        if low < high:
            if end > span[1]:
                steps = []  # this token itself says that the number ends
            steps.append(_Step(tokens, index, text[start:low], text[low:high]))
        elif start >= span[1]:
            steps = [_Step(tokens, index, "", "")]
        if start <= span[0]:
            return steps[::-1]
    return None


def _backwards(text: str, tokens: Sequence[str]) -> Iterator[tuple[int, int, int]]:
    """Tokens from the last to the first, as (index, start, end), as long as they spell the text's end."""
    end = len(text)
    begun = False
    for index in range(len(tokens) - 1, max(-1, len(tokens) - 1 - _LONGEST_TAIL), -1):
        token = tokens[index]
        if not token:
            continue
        if text.endswith(token, 0, end):
            start = end - len(token)
        elif not begun and token.strip() and text.rstrip().endswith(token.rstrip()):
            start = len(text.rstrip()) - len(token.rstrip())  # white space that the server cut off
        elif begun:
            return
        else:
            continue  # an end-of-turn token
        begun = begun or bool(token.strip())
        yield index, start, end
        end = start


def _walk(path: list[_Step], written: str, scale: Scale) -> Distribution | None:
    """Follow the written number's tokens, and at each leave the path by its alternatives."""
    words = scale.numerals
    beginnings = _beginnings(words)
    masses: dict[int, float] = {}
    prefix, mass, undecided = "", 1.0, 0.0
    for step in path:
        if not step.part and prefix not in beginnings:
            break  # the number is complete and cannot go on: the next token says nothing about it
        weighed = weigh(step.tokens[step.index], step.part, partial(_part, before=step.before, first=not prefix))
        if weighed is None:
            return None
        own, others = weighed
        # In numbers of more than one token, a first digit does not say which number follows: such an alternative is
        # left out, which lowers the kept mass. A token of several digits shows that numbers are not written digit by
        # digit. Why not share the mass of a "1" between 1 and 10? It would need the probabilities of a continuation
        # that the model was never asked for. Leaving it out treats all cases alike, and the kept mass shows how much is
        # missing.
        whole = _SEVERAL_DIGITS.search(" ".join((step.part, *others))) is not None
        for part, other in others.items():
            word = prefix + part
            if word in words and (whole or not part or word not in beginnings):
                masses[int(word)] = masses.get(int(word), 0.0) + mass * other
            elif word in beginnings:
                undecided += mass * other
        prefix, mass = prefix + step.part, mass * own
    masses[int(written)] = masses.get(int(written), 0.0) + mass
    return Distribution(masses, undecided)


@lru_cache(maxsize=1000)
def _beginnings(words: frozenset[str]) -> frozenset[str]:
    """The prefixes of the longer numbers of the scale."""
    return frozenset(word[:end] for word in words for end in range(len(word)))


def weigh(token: Token, written: str, part_of: Callable[[str], str | None]) -> tuple[float, dict[str, float]] | None:
    """The probabilities of the part that was written and of the other parts; None if they cannot be trusted.

    `part_of` gives the part that an alternative's text would add, or None if it adds none.
    """
    chosen = own = total = 0.0
    others: dict[str, float] = {}
    for text, logprob in token.alternatives:
        probability = _probability(logprob)
        total += probability
        if text == token.text:
            chosen = probability
        part = part_of(text)
        if part == written:
            own += probability
        elif part is not None:
            others[part] = others.get(part, 0.0) + probability
    # A grammar that forces the form makes some servers report the probabilities before it was applied, or -9999 for the
    # token that it forced. Both mislead more than the number that was written, so such tokens give no distribution.
    if min(chosen, _probability(token.logprob)) < _SANE or total > _CERTAIN:
        return None
    return own, others


def _part(text: str, *, before: str, first: bool) -> str | None:
    """The digits that an alternative adds to the number; "" if it ends the number; None if it is no number."""
    written = text.removeprefix(before)
    if written.isdigit() and written.isascii():
        return written
    if match := _NUMBER.fullmatch(written):
        return match.group(1)
    return None if first else ""


def _probability(logprob: float) -> float:
    """The probability that a natural logarithm stands for: NaN becomes 0, a value above 1 becomes 1."""
    return 0.0 if math.isnan(logprob) else math.exp(min(0.0, logprob))
