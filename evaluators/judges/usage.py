"""The billed tokens of a response, by whatever names and in whatever type an endpoint reports them.

An endpoint may report nothing, or what cannot be: such tokens are estimated from the texts, for a cost that is unknown
is not one of zero.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from evaluators.judges.answer_places import mapping
from evaluators.results import Usage

_INPUT = ("prompt_tokens", "input_tokens")
_OUTPUT = ("completion_tokens", "output_tokens")
_INPUT_DETAILS = ("prompt_tokens_details", "input_tokens_details")
_OUTPUT_DETAILS = ("completion_tokens_details", "output_tokens_details")
_CACHED = ("cached_tokens", "cache_read_input_tokens", "prompt_cache_hit_tokens")
_WRITTEN = ("cache_write_tokens", "cache_creation_input_tokens")
_REASONING = ("reasoning_tokens",)
_MOST = 1 << 24
"""Tokens of a request beyond which a number is none: more than any model reads or writes."""
_MOST_UNSEEN = 100_000
"""Input tokens beyond the bytes of a request: pictures behind addresses, and what an endpoint adds unasked."""
_MOST_REASONING = 200_000
"""Output tokens beyond the bytes of an answer: reasoning that it does not show."""
_BYTES_PER_TOKEN = 4
_FEWEST = 32
"""The estimated tokens that are one at the least: a token of 128 bytes is longer than those of any text."""
_PICTURE_TOKENS = 1000


def usage_of(used: Any) -> Usage:
    """The billed usage of one request; what is not known is 0.

    Reasoning that is reported beside the answer's tokens, or stands in the total alone, is output. Input
    tokens of Anthropic, and of others where they are fewer than those out of the cache, leave these out.
    """
    reported = mapping(used)
    input_details = [reported, *[mapping(reported[name]) for name in _INPUT_DETAILS if name in reported]]
    output_details = [reported, *[mapping(reported[name]) for name in _OUTPUT_DETAILS if name in reported]]
    read, written = _first(reported, _INPUT), _first(reported, _OUTPUT)
    cached, stored = _highest(input_details, _CACHED), _highest(input_details, _WRITTEN)
    if cached > read or ("input_tokens" in reported and (_CACHED[1] in reported or _WRITTEN[1] in reported)):
        read += cached + stored
    reasoning, total = _highest(output_details, _REASONING), _tokens(reported.get("total_tokens"))
    if reasoning > written:
        written += reasoning
    if total and read:
        written = max(written, total - max(read, cached))
    return Usage(
        input_tokens=read,
        output_tokens=written,
        calls=1,
        cached_input_tokens=cached or None,
        cache_write_tokens=stored or None,
    )


def with_estimates(usage: Usage, question_tokens: int, answer_tokens: int) -> Usage:
    """The usage of one request; what it lacks, and what cannot be, is estimated.

    The texts of question and answer have about so many tokens, by four bytes a token. No question has a token for
    128 bytes, and no text has more tokens than bytes beside pictures behind addresses and reasoning.
    """
    enough = usage.input_tokens >= question_tokens // _FEWEST
    knows_input = enough and _may_be(usage.input_tokens, question_tokens, _MOST_UNSEEN)
    knows_output = _may_be(usage.output_tokens, answer_tokens, _MOST_REASONING)
    if knows_input and knows_output:
        return usage
    return replace(
        usage,
        input_tokens=usage.input_tokens if knows_input else question_tokens,
        cached_input_tokens=usage.cached_input_tokens if knows_input else None,
        cache_write_tokens=usage.cache_write_tokens if knows_input else None,
        output_tokens=usage.output_tokens if knows_output else answer_tokens,
        estimated_calls=1,
    )


def _may_be(reported: int, estimated: int, unseen: int) -> bool:
    """Whether a reported number of tokens may be that of a text with about `estimated` of them."""
    return reported <= estimated * _BYTES_PER_TOKEN + unseen and (reported > 0 or not estimated)


def estimated_tokens(*parts: Any) -> int:
    """About how many tokens texts, and the texts and pictures within lists and objects, are: four bytes are one."""
    size = 0
    for part in parts:
        if isinstance(part, str):
            size += len(part.encode(errors="replace"))
        elif isinstance(part, (dict, Mapping)):
            fields = cast("Mapping[str, Any]", part)
            picture = "image_url" in fields
            size += _PICTURE_TOKENS * _BYTES_PER_TOKEN if picture else estimated_tokens(*fields.values()) * 4
        elif isinstance(part, (list, Sequence)):
            size += estimated_tokens(*cast("Sequence[Any]", part)) * 4
    return -(-size // _BYTES_PER_TOKEN)


def _first(fields: Mapping[str, Any], names: Sequence[str]) -> int:
    for name in names:
        if name in fields and (number := _tokens(fields[name])):
            return number
    return 0


def _highest(parts: Sequence[Mapping[str, Any]], names: Sequence[str]) -> int:
    return max([_tokens(part[name]) for part in parts for name in names if name in part], default=0)


def _tokens(value: Any) -> int:
    """A number of tokens, as number or text; 0 for anything else, and for what is plainly impossible."""
    if type(value) is int:
        return value if 0 < value <= _MOST else 0
    try:
        number = 0.0 if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return 0
    return int(number) if math.isfinite(number) and 0 < number <= _MOST else 0
