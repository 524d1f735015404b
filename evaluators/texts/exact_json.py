"""JSON without rounding: orjson makes a float of a whole number that needs more than 64 bits, and ids become equal."""

from __future__ import annotations

import json

import orjson

from evaluators.cases import Json

_DIGITS = b"0123456789"
_MASK = bytes(ord("0") if each in _DIGITS else ord(" ") for each in range(256))
_LONG = b"0" * 19
"""Digits of the shortest number that may need more than 63 bits."""


def parse_exactly(text: str | bytes) -> Json:
    """Parse JSON; a whole number that needs more than 64 bits becomes the text of its digits.

    Raises:
        ValueError: it is no JSON.
    """
    value = orjson.loads(text)
    data = text.encode() if isinstance(text, str) else text
    if len(data) < len(_LONG) or _LONG not in data.translate(_MASK):
        return value
    try:
        return json.loads(text, parse_int=_whole_number)
    except (RecursionError, ValueError):
        return value


def _whole_number(digits: str) -> int | str:
    if len(digits) > 20:
        return digits
    number = int(digits)
    return number if -(1 << 63) <= number < 1 << 64 else digits
