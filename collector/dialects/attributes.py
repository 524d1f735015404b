"""Attributes read safely, whatever their type: texts, token counts, errors, indexed attributes."""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from collector.dialects.decode import as_dict, decode, decode_json
from collector.otlp.span import Attributes, Span
from evaluators.cases import Incomplete, Json, TokenCount

MOST_NAMES, LONGEST_NAME = 20_000, 200
"""How many names of attributes a cache holds, and how long one may be: senders may invent any number, of any length."""

_MOST_DIGITS, _NO_INDEX = 9, -1

MASKS = frozenset(
    {"__REDACTED__", "[REDACTED]", "<elided>", "<redacted>", "<REDACTED>", "[redacted]", "REDACTED", "***"}
)
"""Texts that replace a removed text."""

LONGEST_MASK = 200
"""Characters; a longer text is not tested for being a mask, since no mask is longer."""

_MASK_STARTS = frozenset([mask[0] for mask in MASKS])
_SCRUBBED = re.compile(r"\[Scrubbed due to .{1,80}\]")


def is_masked(value: Json) -> bool:
    """Whether a text replaces one that was removed."""
    if not isinstance(value, str) or len(value) > LONGEST_MASK:
        return False
    stripped = value.strip()
    return stripped[:1] in _MASK_STARTS and (stripped in MASKS or _SCRUBBED.fullmatch(stripped) is not None)


def find_text(attributes: Mapping[str, Json], *keys: str) -> str | None:
    """Find the value of the first key that has a text that is not empty; None if no key has."""
    for key in keys:
        value = attributes.get(key)
        if isinstance(value, str) and value:
            return value
    return None


def find_value(attributes: Mapping[str, Json], *keys: str) -> tuple[Json, str]:
    """Find the value of the first key that is present, and that key; (None, "") if none is."""
    for key in keys:
        value = attributes.get(key)
        if value is not None:
            return value, key
    return None, ""


def find_sources(attributes: Mapping[str, Json], **keys: str) -> dict[str, str]:
    """Find which attributes are present: `Call.sources`, given the attribute of every field."""
    return {field: key for field, key in keys.items() if key in attributes}


def find_count(attributes: Mapping[str, Json], *keys: str) -> int | None:
    """Find the value of the first key that has a count, as a number or as a text of digits."""
    for key in keys:
        value = attributes.get(key)
        if value is None:
            continue
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 18:
            return int(value)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 2**62:
            return int(value)
    return None


def find_usage(attributes: Mapping[str, Json], inputs: Iterable[str], outputs: Iterable[str]) -> TokenCount | None:
    """Find token counts, each under the first of its keys; None if there are none, or only zeros."""
    input_tokens, output_tokens = find_count(attributes, *inputs), find_count(attributes, *outputs)
    if not input_tokens and not output_tokens:  # no call costs nothing: zeros mean that the library could not count
        return None
    return TokenCount(input_tokens=input_tokens or 0, output_tokens=output_tokens or 0)


INPUT_TOKENS = ("input_tokens", "prompt_tokens", "inputTokens", "promptTokens", "prompt", "input", "promptTokenCount")
OUTPUT_TOKENS = (
    "output_tokens", "completion_tokens", "outputTokens", "completionTokens", "completion", "output",
    "candidatesTokenCount",
)  # fmt: skip


def parse_usage(value: Json) -> TokenCount | None:
    """Parse token counts from a provider's own usage object, or from its JSON."""
    return find_usage(as_dict(decode_json(value)), INPUT_TOKENS, OUTPUT_TOKENS)


def parse_texts(value: Json) -> dict[str, str]:
    """Parse the texts of an object, or of its JSON, by name: the variables of a prompt template."""
    return {key: each for key, each in as_dict(decode(value)).items() if isinstance(each, str)}


def find_error(span: Span, *, answered: bool) -> str | None:
    """Find the error of a span: status ERROR, or an exception event if it has no answer; None if nothing failed."""
    if not span.failed and (answered or not span.events):
        return None
    exception = next((event.attributes for event in reversed(span.events) if event.name == "exception"), None)
    if not span.failed and exception is None:
        return None
    exception_attributes = exception or {}
    kind = find_text(span.attributes, "error.type") or find_text(exception_attributes, "exception.type") or ""
    kind = kind.removeprefix("<class '").removesuffix("'>")  # the repr of a Python class
    message = (
        span.status_message
        or find_text(span.attributes, "error.message")
        or find_text(exception_attributes, "exception.message")
        or ""
    )
    return _format_error(kind, message)


_TRACEBACK = "Traceback (most recent call last)"
"""Some libraries put the whole stack into the message."""


def _format_error(kind: str, message: str) -> str:
    message = message.partition(_TRACEBACK)[0].strip()[:2000]
    if not kind or kind.rpartition(".")[2] in message:
        return message or kind or "error"
    return f"{kind}: {message}" if message else kind


def group_indexed(attributes: Attributes, beginning: str) -> list[dict[str, Json]]:
    """Group indexed attributes into objects, in index order: `<beginning>3.role` becomes the `role` of the fourth.

    Indexes may have gaps, since a limit on the number of attributes drops some.
    """
    groups: dict[int, dict[str, Json]] = {}
    size = len(beginning)
    for key, value in attributes.items():
        if key.startswith(beginning):
            index, rest = _split_known(key, size) if len(key) <= LONGEST_NAME else _split_index(key, size)
            if index in groups:
                groups[index][rest] = value
            else:
                groups[index] = {rest: value}
    groups.pop(_NO_INDEX, None)
    return [groups[index] for index in sorted(groups)]


@lru_cache(MOST_NAMES)
def _split_known(key: str, size: int) -> tuple[int, str]:
    """The same, split once: names repeat."""
    return _split_index(key, size)


def _split_index(key: str, size: int) -> tuple[int, str]:
    """Split a name into the index behind its first characters, and what follows that."""
    index, _, rest = key[size:].partition(".")
    return int(index) if index.isascii() and index.isdigit() and len(index) <= _MOST_DIGITS else _NO_INDEX, rest


def find_redaction(value: Json) -> Incomplete | None:
    """Return `redacted` if the value is a mask."""
    return "redacted" if isinstance(value, str) and len(value) <= LONGEST_MASK and is_masked(value) else None
