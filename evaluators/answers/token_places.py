"""The places of an answer's tokens in its text."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

_AHEAD = 4
"""How many tokens in a row must be in the text, so that their place is certain."""
_FURTHEST = 200
"""How many characters after the expected place the next tokens are searched."""


@dataclass(frozen=True, slots=True)
class TokenPlaces:
    """The start of each token in the text, the end of the last, and the tokens that do not spell the text."""

    bounds: Sequence[int]
    misspelt: frozenset[int] = frozenset()


def place_tokens(text: str, texts: Sequence[str]) -> TokenPlaces:
    """Find the tokens with these texts in an answer.

    Servers cut white space from a text and leave end-of-turn tokens in the list, so the text is looked for in the
    joined tokens. If some tokens do not spell the text, as when a letter is divided among tokens, the other tokens
    still get places.
    """
    return _spelt(text, texts) or _nearly_spelt(text, texts)


def _spelt(text: str, texts: Sequence[str]) -> TokenPlaces | None:
    """The places of tokens that spell the text; None if they do not."""
    stripped = text.strip()
    offset = "".join(texts).find(stripped) if stripped else -1
    if offset < 0:
        return None
    lead = len(text) - len(text.lstrip())
    return TokenPlaces([at + lead - offset for at in accumulate(map(len, texts), initial=0)])


def _nearly_spelt(text: str, texts: Sequence[str]) -> TokenPlaces:
    """The places of tokens if some of these spell something else: the next tokens show where the text continues."""
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
    return TokenPlaces([*bounds, at], frozenset(misspelt))
