"""Durations as people write them: `250ms`, `10s`, `15m`, `1h`, `7d`, or a number of seconds."""

import re
from typing import Annotated

from pydantic import BeforeValidator, Field

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_WORDS = re.compile(r"(\d+(?:\.\d+)?) ?(days?|hours?|minutes?|mins?|seconds?|secs?)", re.IGNORECASE)
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")


def seconds(value: object) -> object:
    """A duration in seconds; anything that is not text is left to the number's own validation."""
    if not isinstance(value, str):
        return value
    match = _DURATION.fullmatch(value.strip())
    if match is None:
        raise ValueError(f"write a duration like 10s, 15m or 1h{_in_words(value.strip())}")
    return float(match[1]) * _UNITS[match[2]]


def _in_words(text: str) -> str:
    """The duration that a number and a word are, like `7 days`."""
    match = _WORDS.fullmatch(text)
    return f"; for {text} write {match[1]}{match[2][0].lower()}" if match else ""


Seconds = Annotated[float, BeforeValidator(seconds, json_schema_input_type=float | str), Field(ge=0)]
"""A duration in seconds, not negative."""
