"""Ids that machines make: a UUID, or 16 to 64 hexadecimal digits. One in a thousand has digits like a card's."""

from __future__ import annotations

_HEX = frozenset("0123456789abcdefABCDEF")
_DIGITS = frozenset("0123456789")
_LENGTHS = frozenset({16, 24, 32, 40, 64})
"""Of ids of spans, documents, traces, commits and digests. A UUID has 32 digits in groups of these sizes:"""
_GROUPS = [8, 4, 4, 4, 12]
_LONGEST = 64


def is_inside_machine_id(text: str, start: int, end: int) -> bool:
    """Whether characters `start` to `end` are a part of such an id, and not all of it."""
    first, last = start, end
    while first > 0 and start - first <= _LONGEST and (text[first - 1] in _HEX or text[first - 1] == "-"):
        first -= 1
    while last < len(text) and last - end <= _LONGEST and (text[last] in _HEX or text[last] == "-"):
        last += 1
    if (first > 0 and text[first - 1].isalnum()) or (last < len(text) and text[last].isalnum()):
        return False
    token = text[first:last]
    if _is_uuid(token):
        return last - first > end - start
    return (
        last - first > end - start
        and len(token) in _LENGTHS
        and _HEX.issuperset(token)
        and not _DIGITS.issuperset(token)
        and token in (token.lower(), token.upper())
    )


def _is_uuid(token: str) -> bool:
    groups = token.split("-")
    return [len(group) for group in groups] == _GROUPS and not _DIGITS.issuperset("".join(groups))
