"""The tokens of parts of an answer: cut so that they spell the part exactly."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import overload

from evaluators.answers.token_places import TokenPlaces, place_tokens
from evaluators.judge import Token, texts_of

_NEVER = -9999.0


class TokenSlices:
    """The tokens of an answer by their places in its text. Placed at the first use: few answers are looked into.

    Tokens that do not spell the text have no probabilities.
    """

    def __init__(self, text: str, tokens: Sequence[Token]) -> None:
        self._text = text
        self._tokens = tokens
        self._places: TokenPlaces | None = None

    def between(self, start: int, end: int) -> Sequence[Token]:
        """The tokens that spell the text from `start` to `end`; none where they cannot be placed."""
        if not self._tokens:
            return ()
        if self._places is None:
            self._places = place_tokens(self._text, texts_of(self._tokens))
        bounds = self._places.bounds
        first, last = bisect_right(bounds, start) - 1, bisect_left(bounds, end)
        if first < 0 or last >= len(bounds):
            return ()
        return _SlicedTokens(self._text, self._tokens, range(first, last), self._places, (start, end))


class _SlicedTokens(Sequence[Token]):
    """Some tokens of an answer, cut at the ends, each made when it is read."""

    def __init__(
        self, text: str, tokens: Sequence[Token], numbers: range, places: TokenPlaces, span: tuple[int, int]
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
        bounds = self._places.bounds
        text = self._text[max(self._span[0], bounds[number]) : min(self._span[1], bounds[number + 1])]
        if number in self._places.misspelt:
            return Token(text, _NEVER)
        token = self._tokens[number]
        if text == token.text:
            return token
        # A token at the end of an entry may hold what comes after it, as `8},` does. The alternatives stay as they are
        # but for the chosen one, which is found among them by its text.
        others = tuple((text if other == token.text else other, logprob) for other, logprob in token.alternatives)
        return replace(token, text=text, alternatives=others)
