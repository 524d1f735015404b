"""JSON of foreign programs, and JSON values as texts.

Without rounding: orjson makes a float of a whole number that needs more than 64 bits, and ids become equal. And with
halves of characters: JavaScript cuts texts by UTF-16 units, so half an emoji may be left at the end, for which orjson
refuses the whole document.
"""

import json
import re
from codecs import BOM_UTF8

import orjson

from evaluators.cases import Json

_MASK = bytes(ord("0") if code in b"0123456789" else ord(" ") for code in range(256))
_LONG = b"0" * 19
"""Digits of the shortest number that may need more than 63 bits."""

_SURROGATE = re.compile(
    rb"(?<!\\)((?:\\\\)*+)\\u[dD](?:[89abAB][0-9a-fA-F]{2}(\\u[dD][c-fC-F][0-9a-fA-F]{2})?|[c-fC-F][0-9a-fA-F]{2})"
)
"""An escaped half of a character, behind escaped backslashes; the second group is the half that makes it whole."""


def place_in_json(error: ValueError) -> str:
    """The place at which a text is no JSON, in brackets; empty where it is unknown. It holds nothing of the text."""
    if not isinstance(error, json.JSONDecodeError):
        return ""
    return f" (line {error.lineno}, column {error.colno}: {error.msg})"


def parse_exactly(text: str | bytes) -> Json:
    """Parse JSON; a whole number that needs more than 64 bits becomes the text of its digits.

    Raises:
        ValueError: it is no JSON.
    """
    return make_exact(parse_json(text), text)


def make_exact(value: Json, text: str | bytes) -> Json:
    """The result of `parse_exactly`, given the result of `parse_json` for the text."""
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if len(data) < len(_LONG) or _LONG not in data.translate(_MASK):
        return value
    try:
        return json.loads(_without_halves(data), parse_int=_whole_number)
    except (RecursionError, ValueError):
        return value


def parse_json(text: str | bytes) -> Json:
    """Parse JSON, with or without a byte order mark; an escaped half of a character becomes U+FFFD.

    Raises:
        ValueError: it is no JSON.
    """
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    try:
        return orjson.loads(data)
    except ValueError:
        whole = _without_halves(data.removeprefix(BOM_UTF8))
        if whole == data:
            raise
    return orjson.loads(whole)


def as_text(value: Json) -> str:
    """The value as a text: itself if it is one, "" for None, else compact JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else encode_compact(value)


def encode_compact(value: Json) -> str:
    """Encode as compact JSON, a foreign object in it as its text; "" for a value that JSON cannot represent."""
    try:
        return orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
    except TypeError:
        return ""


def _without_halves(data: bytes) -> bytes:
    if b"\\ud" not in data and b"\\uD" not in data:  # nearly always; the pattern takes 26 times as long
        return data
    return _SURROGATE.sub(lambda escape: escape[0] if escape[2] else escape[1] + rb"\ufffd", data)


def _whole_number(digits: str) -> int | str:
    if len(digits) > 20:
        return digits
    number = int(digits)
    return number if -(1 << 63) <= number < 1 << 64 else digits
