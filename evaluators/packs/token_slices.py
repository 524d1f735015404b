"""The tokens of parts of an answer: cut so that they spell the part exactly."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import overload

from evaluators.judge import Token


class TokenSlices:
    """The tokens of an answer by their places in its text. Made at the first use: few answers are looked into.

    Servers cut white space from a text and leave end-of-turn tokens in the list, so the text is looked for in what the
    tokens spell.
    """

    def __init__(self, text: str, tokens: Sequence[Token]) -> None:
        self._text = text
        self._tokens = tokens
        self._bounds: Sequence[int] | None = None

    def between(self, start: int, end: int) -> Sequence[Token]:
        """The tokens that spell the text from `start` to `end`; none where the tokens do not spell the answer."""
        if not self._tokens:
            return ()
        if self._bounds is None:
            self._bounds = _bounds(self._text, self._tokens)
        bounds = self._bounds
        if not bounds:
            return ()
        first, last = bisect_right(bounds, start) - 1, bisect_left(bounds, end)
        if first < 0 or last >= len(bounds):
            return ()
        places = [(max(start, bounds[at]), min(end, bounds[at + 1])) for at in range(first, last)]
        return _SlicedTokens(self._text, self._tokens, first, places)


def _bounds(text: str, tokens: Sequence[Token]) -> Sequence[int]:
    """Where each token begins in the text, and where the last ends; empty where they do not spell it."""
    texts: Sequence[str] = getattr(tokens, "texts", None) or [each.text for each in tokens]
    joined = "".join(texts)
    stripped = text.strip()
    offset = joined.find(stripped) if stripped else -1
    if offset < 0:
        return ()
    lead = len(text) - len(text.lstrip())
    return [at + lead - offset for at in accumulate(map(len, texts), initial=0)]


class _SlicedTokens(Sequence[Token]):
    """Tokens from one place on, cut at the ends, each made when it is looked at."""

    def __init__(self, text: str, tokens: Sequence[Token], first: int, places: Sequence[tuple[int, int]]) -> None:
        self._text = text
        self._tokens = tokens
        self._first = first
        self._places = places

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> Token: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Token]: ...
    def __getitem__(self, index: int | slice) -> Token | Sequence[Token]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        start, end = self._places[index]
        token = self._tokens[self._first + (index if index >= 0 else index + len(self))]
        text = self._text[start:end]
        if text == token.text:
            return token
        # A token at the end of an entry may hold what comes after it, as `8},` does. The alternatives stay as they are
        # but for the chosen one, which is found among them by its text.
        others = tuple((text if each == token.text else each, logprob) for each, logprob in token.alternatives)
        return replace(token, text=text, alternatives=others)
