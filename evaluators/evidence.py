"""Whether what a judge quotes was really said.

A reason that quotes well is still no proof; one that quotes what nobody said is worse.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from evaluators.cases import Json
from evaluators.fence import clean
from evaluators.material import texts_in

_QUOTED = re.compile(r"[\"\u201c\u201e\u00ab]([^\"\u201c\u201d\u201e\u00ab\u00bb]{12,400})[\"\u201c\u201d\u00bb]")


def unfounded(reason: str, material: Iterable[Mapping[str, Json]]) -> tuple[str, ...]:
    """The quotations of at least 12 characters in a reason that are nowhere in the material.

    Case, white space and a full stop at the end do not count; an ellipsis may stand for anything left out.
    """
    quotes = _QUOTED.findall(reason)
    if not quotes:
        return ()
    texts = [_plain(text) for each in material for text in texts_in(each)]
    return tuple(quote for quote in quotes if not any(_occurs(quote, text) for text in texts))


def occurs(quote: str, text: str) -> bool:
    """Whether a text holds a quotation, by the same rules."""
    return _occurs(quote, _plain(text))


def _occurs(quote: str, plain_text: str) -> bool:
    at = 0
    for part in re.split(r"\.{3,}|\u2026", quote):
        words = _plain(part).strip(" .,;:!?")
        found = plain_text.find(words, at)
        if found < 0:
            return False
        at = found + len(words)
    return True


def _plain(text: str) -> str:
    """In small letters, with typographic quotes made plain and white space made single."""
    text = clean(text).casefold().translate({0x2018: "'", 0x2019: "'", 0x201C: '"', 0x201D: '"'})
    return " ".join(text.split())
