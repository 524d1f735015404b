"""JSON that another's server wrote, bounded before it becomes objects.

Small JSON makes large objects: three bytes of an empty object take some seventy in memory. So elements are counted
first, in the bytes. Depth is bounded because what reads a value may follow it by recursion.
"""

from itertools import accumulate

import orjson

from evaluators.cases import Json
from evaluators.texts.exact_json import parse_json

MOST_CONTAINERS = 500_000
"""Objects and arrays in one answer."""
MOST_ELEMENTS = 1_000_000
"""The same, with all values after a comma."""
DEEPEST = 100
"""Levels of objects and arrays inside each other."""
_FLAT = 20
"""Levels that are taken off one by one; more are counted exactly."""
_PIECE = 1 << 17
_NO_BRACKETS = bytes(code for code in range(256) if code not in b"[]{}")
_STEPS = {ord("{"): 1, ord("["): 1, ord("}"): -1, ord("]"): -1}


class UnboundedJson(ValueError):
    """JSON with more in it than any answer has. The message says which limit it exceeds."""


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


def may_be_unbounded(content: bytes) -> bool:
    """Whether an answer may have more objects than its readers take, which short ones have not. Quick."""
    return len(content) > 2 * MOST_CONTAINERS and _opened(content) > MOST_CONTAINERS  # of two bytes at least each


def _opened(content: bytes) -> int:
    return content.count(b"{") + content.count(b"[")


def _may_be_deep(content: bytes) -> bool:
    """Whether the brackets, those within strings included, are more than a few levels of balanced pairs. Quick.

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
    """Check JSON piece by piece, by what is outside of its strings: taken out at once, they would be millions."""
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
