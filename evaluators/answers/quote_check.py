"""A check that a judge's quotations are in the judged text. A right quotation proves little, but a made-up one casts
doubt on the score.
"""

import re
from collections.abc import Iterable, Mapping

from evaluators.asking.judge_input import iter_texts
from evaluators.asking.prompt_isolation import sanitize
from evaluators.cases import Json

_QUOTED = re.compile(r"[\"\u201c\u201e\u00ab]([^\"\u201c\u201d\u201e\u00ab\u00bb]{12,400})[\"\u201c\u201d\u00bb]")

_ELLIPSIS = re.compile(r"\.{3,}+|\u2026")


def unsupported_quotes(reason: str, material: Iterable[Mapping[str, Json]]) -> tuple[str, ...]:
    """The quotations of at least 12 characters in a reason that are nowhere in the material.

    Case, white space and a full stop at the end do not count; an ellipsis may stand for anything left out.
    """
    quotes = _QUOTED.findall(reason)
    if not quotes:
        return ()
    texts = [_plain(text) for value in material for text in iter_texts(value)]
    return tuple(quote for quote in quotes if not any(_occurs(quote, text) for text in texts))


def contains_quote(quote: str, text: str) -> bool:
    """Whether a text holds a quotation, by the rules of `unsupported_quotes`."""
    return _occurs(quote, _plain(text))


def _occurs(quote: str, plain_text: str) -> bool:
    at = 0
    for part in _ELLIPSIS.split(quote):
        words = _plain(part).strip(" .,;:!?")
        start = plain_text.find(words, at)
        if start < 0:
            return False
        at = start + len(words)
    return True


def _plain(text: str) -> str:
    """In small letters, with typographic quotes made plain and white space made single."""
    text = sanitize(text).casefold().translate({0x2018: "'", 0x2019: "'", 0x201C: '"', 0x201D: '"'})
    return " ".join(text.split())
