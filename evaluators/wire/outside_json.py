"""JSON of a foreign server, bounded before it becomes objects.

Small JSON makes large objects: three bytes of an empty object take some seventy in memory. So elements are counted
first, in the bytes. Depth is bounded because readers of a value may use recursion.
"""

from itertools import accumulate

import orjson

from evaluators.cases import Json
from evaluators.texts.exact_json import parse_json

MOST_CONTAINERS = 500_000
"""The most objects and arrays in one answer."""
MOST_ELEMENTS = 1_000_000
"""The most objects, arrays and values after a comma in one answer."""
DEEPEST = 100
"""The most levels of objects and arrays inside each other."""
_FLAT = 20
"""Levels that are removed one by one; deeper JSON is counted exactly."""
_PIECE = 1 << 17
_NO_BRACKETS = bytes(code for code in range(256) if code not in b"[]{}")
_STEPS = {ord("{"): 1, ord("["): 1, ord("}"): -1, ord("]"): -1}


class UnboundedJson(ValueError):
    """JSON with more elements or levels than any answer has. The message says which limit it exceeds."""


def read_outside(content: bytes) -> Json:
    """The value of an answer's JSON; an escaped half of a character becomes U+FFFD.

    Raises:
        UnboundedJson: it has too many elements, or is nested too deeply.
        ValueError: it is no JSON.
    """
    opened = _opened(content) if len(content) > DEEPEST else 0
    if (opened > DEEPEST and _may_be_deep(content)) or (
        len(content) > MOST_ELEMENTS and opened + content.count(b",") > MOST_ELEMENTS
    ):
        _check(content)
    try:
        return orjson.loads(content)
    except ValueError:  # halves of characters, perhaps, or a byte order mark
        return parse_json(content)


def outside_or_none(content: bytes) -> Json:
    """The same; None if it is no JSON, or exceeds a limit."""
    try:
        return read_outside(content)
    except ValueError:
        return None


def may_be_unbounded(content: bytes) -> bool:
    """A quick test whether an answer may exceed the limits; a short answer cannot."""
    return len(content) > 2 * MOST_CONTAINERS and _opened(content) > MOST_CONTAINERS  # of two bytes at least each


def _opened(content: bytes) -> int:
    return content.count(b"{") + content.count(b"[")


def _may_be_deep(content: bytes) -> bool:
    """A quick test whether brackets, also within strings, are more than a few levels of balanced pairs.

    An answer with token probabilities has a thousand objects, and they are flat. Brackets within strings may hide
    levels: the parser itself refuses more than 1,024.
    """
    brackets = content.translate(None, _NO_BRACKETS)
    for _ in range(_FLAT):
        fewer = brackets.replace(b"{}", b"").replace(b"[]", b"")
        if len(fewer) == len(brackets):
            break
        brackets = fewer
    return bool(brackets)


def _check(content: bytes) -> None:
    """Check JSON piece by piece, by the characters outside of its strings: at once these would be millions of
    pieces.
    """
    bare = content.replace(b"\\\\", b"").replace(b'\\"', b"")
    opened = values = depth = in_string = 0
    for start in range(0, len(bare), _PIECE):
        pieces = bare[start : start + _PIECE].split(b'"')
        outside = b"".join(pieces[in_string::2])
        in_string ^= (len(pieces) - 1) & 1
        opened += _opened(outside)
        values += outside.count(b",")
        levels = [*accumulate(map(_STEPS.__getitem__, outside.translate(None, _NO_BRACKETS)), initial=depth)]
        depth = levels[-1]
        if opened > MOST_CONTAINERS:
            raise UnboundedJson(f"the answer has more than {MOST_CONTAINERS:,} objects and arrays")
        if opened + values > MOST_ELEMENTS:
            raise UnboundedJson(f"the answer has more than {MOST_ELEMENTS:,} values")
        if max(levels) > DEEPEST:
            raise UnboundedJson(f"the answer is nested more than {DEEPEST} deep")
