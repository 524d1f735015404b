"""The tokens of parts of an answer: cut so that they spell the part exactly."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import overload

from evaluators.judge import Token, texts_of

_NEVER = -9999.0
_AHEAD = 4
"""Tokens that have to be in the text one after another, so that their place is certain."""
_FURTHEST = 200
"""Characters between where a token should be, and where those after it are looked for."""


@dataclass(frozen=True, slots=True)
class _Places:
    """The start of each token in the text, and the end of the last; and the tokens that do not spell the text there."""

    bounds: Sequence[int]
    misspelt: frozenset[int] = frozenset()


class TokenSlices:
    """The tokens of an answer by their places in its text. Placed at the first use: few answers are looked into.

    Servers cut white space from a text and leave end-of-turn tokens in the list, so the text is looked for in what the
    tokens spell. If some tokens do not spell it, as when a letter is divided among tokens, the others still have their
    places; tokens that do not spell it have no probabilities.
    """

    def __init__(self, text: str, tokens: Sequence[Token]) -> None:
        self._text = text
        self._tokens = tokens
        self._places: _Places | None = None

    def between(self, start: int, end: int) -> Sequence[Token]:
        """The tokens that spell the text from `start` to `end`; none where they cannot be placed."""
        if not self._tokens:
            return ()
        if self._places is None:
            texts = texts_of(self._tokens)
            self._places = _spelt(self._text, texts) or _nearly_spelt(self._text, texts)
        bounds = self._places.bounds
        first, last = bisect_right(bounds, start) - 1, bisect_left(bounds, end)
        if first < 0 or last >= len(bounds):
            return ()
        return _SlicedTokens(self._text, self._tokens, range(first, last), self._places, (start, end))


def _spelt(text: str, texts: Sequence[str]) -> _Places | None:
    """The places of tokens that spell the text; None if they do not."""
    stripped = text.strip()
    offset = "".join(texts).find(stripped) if stripped else -1
    if offset < 0:
        return None
    lead = len(text) - len(text.lstrip())
    return _Places([at + lead - offset for at in accumulate(map(len, texts), initial=0)])


def _nearly_spelt(text: str, texts: Sequence[str]) -> _Places:
    """The places of tokens of which some spell something else: the next ones say where the text continues."""
    bounds: list[int] = []
    misspelt: set[int] = set()
    at = 0
    for number, token in enumerate(texts):
        if misspelt and number - 1 in misspelt:
            following = "".join(texts[number : number + _AHEAD])
            continued = text.find(following, at, at + _FURTHEST) if following.strip() else -1
            at = continued if continued >= 0 else at
        bounds.append(at)
        if text.startswith(token, at):
            at += len(token)
        else:
            misspelt.add(number)
    return _Places([*bounds, at], frozenset(misspelt))


class _SlicedTokens(Sequence[Token]):
    """Some tokens of an answer, cut at the ends, each made when it is looked at."""

    def __init__(
        self, text: str, tokens: Sequence[Token], numbers: range, places: _Places, span: tuple[int, int]
    ) -> None:
        self._text = text
        self._tokens = tokens
        self._numbers = numbers
        self._places = places
        self._span = span

    @property
    def texts(self) -> Sequence[str]:
        """The texts of the tokens, without building the tokens."""
        if not self._numbers:
            return ()
        # The first and the last are cut, those between them are whole.
        between = self._places.bounds[self._numbers[0] + 1 : self._numbers[-1] + 1]
        return [self._text[start:end] for start, end in pairwise((self._span[0], *between, self._span[1]))]

    def _text_at(self, number: int) -> str:
        bounds = self._places.bounds
        return self._text[max(self._span[0], bounds[number]) : min(self._span[1], bounds[number + 1])]

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, index: int) -> Token: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Token]: ...
    def __getitem__(self, index: int | slice) -> Token | Sequence[Token]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        number = self._numbers[index]
        text = self._text_at(number)
        if number in self._places.misspelt:
            return Token(text, _NEVER)
        token = self._tokens[number]
        if text == token.text:
            return token
        # A token at the end of an entry may hold what comes after it, as `8},` does. The alternatives stay as they are
        # but for the chosen one, which is found among them by its text.
        others = tuple((text if other == token.text else other, logprob) for other, logprob in token.alternatives)
        return replace(token, text=text, alternatives=others)
