"""What every reader needs: attributes of the right type, token counts, errors, indexed attributes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from collector.dialects.call import Passage
from collector.dialects.decode import as_dict, as_list, decoded, json_value
from collector.span import Attributes, Span
from evaluators.cases import Incomplete, Json, TokenCount

MASKS = frozenset(
    {"__REDACTED__", "[REDACTED]", "<elided>", "<redacted>", "<REDACTED>", "[redacted]", "REDACTED", "***"}
)
"""Texts that stand where a text was taken away."""

LONGEST_MASK = 200
"""No mask is longer, in characters."""

_SCRUBBED = re.compile(r"\[Scrubbed due to .{1,80}\]")


def is_masked(value: Json) -> bool:
    """Whether a text stands for one that was taken away."""
    if not isinstance(value, str) or len(value) > LONGEST_MASK:
        return False
    stripped = value.strip()
    return stripped in MASKS or _SCRUBBED.fullmatch(stripped) is not None


_OBJECT = re.compile(r"<[\w.<>]{1,200}(?: object)?(?: [\w.<>]{1,200})? at 0x[0-9a-fA-F]+>")


def looks_like_repr(text: str) -> bool:
    """Whether a text is the repr of an object rather than something said: `StopEvent(result=…`, `<groq.Stream …>`."""
    name, bracket, _ = text[:80].partition("(")
    if name.startswith("<") and _OBJECT.fullmatch(text.strip()):
        return True
    return bool(bracket) and name.isidentifier() and text.rstrip().endswith((")", "..."))


def text_at(attributes: Mapping[str, Json], *keys: str) -> str | None:
    """The first of the keys that holds a text that is not empty."""
    for key in keys:
        value = attributes.get(key)
        if isinstance(value, str) and value:
            return value
    return None


def found_at(attributes: Mapping[str, Json], *keys: str) -> tuple[Json, str]:
    """The value of the first key that is there, and that key; (None, "") if none is."""
    for key in keys:
        value = attributes.get(key)
        if value is not None:
            return value, key
    return None, ""


def count_at(attributes: Mapping[str, Json], *keys: str) -> int | None:
    """The first of the keys that holds a count, as a number or as a text of one."""
    for key in keys:
        value = attributes.get(key)
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 18:
            return int(value)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 2**62:
            return int(value)
    return None


def usage_at(attributes: Mapping[str, Json], inputs: Iterable[str], outputs: Iterable[str]) -> TokenCount | None:
    """Token counts, each from the first of its keys; None if there are none, or nothing but zeros."""
    given, taken = count_at(attributes, *inputs), count_at(attributes, *outputs)
    if not given and not taken:  # some count nothing where they fail to count; no call costs nothing
        return None
    return TokenCount(input_tokens=given or 0, output_tokens=taken or 0)


INPUT_TOKENS = ("input_tokens", "prompt_tokens", "inputTokens", "promptTokens", "prompt", "input", "promptTokenCount")
OUTPUT_TOKENS = (
    "output_tokens", "completion_tokens", "outputTokens", "completionTokens", "completion", "output",
    "candidatesTokenCount",
)  # fmt: skip


def usage_of(value: Json) -> TokenCount | None:
    """Token counts from a provider's own usage object, or JSON of one."""
    return usage_at(as_dict(json_value(value)), INPUT_TOKENS, OUTPUT_TOKENS)


def texts_in(value: Json) -> dict[str, str]:
    """The texts of an object, or of JSON of one, by their names: what a template was filled with."""
    return {key: each for key, each in as_dict(decoded(value)).items() if isinstance(each, str)}


def failure(span: Span, *, answered: bool) -> str | None:
    """What went wrong, None if nothing did: status ERROR, or an exception on a span that has no answer."""
    if not span.failed and (answered or not span.events):
        return None
    exception = next((event.attributes for event in reversed(span.events) if event.name == "exception"), None)
    if not span.failed and exception is None:
        return None
    about = exception or {}
    kind = text_at(span.attributes, "error.type") or text_at(about, "exception.type") or ""
    kind = kind.removeprefix("<class '").removesuffix("'>")  # the repr of a Python class
    message = (
        span.status_message or text_at(span.attributes, "error.message") or text_at(about, "exception.message") or ""
    )
    return _sentence(kind, message)


_TRACE = "Traceback (most recent call last)"
"""Some put the whole stack into the message."""


def _sentence(kind: str, message: str) -> str:
    message = message.partition(_TRACE)[0].strip()[:2000]
    if not kind or kind.rpartition(".")[2] in message:
        return message or kind or "error"
    return f"{kind}: {message}" if message else kind


def indexed(attributes: Attributes, beginning: str) -> list[dict[str, Json]]:
    """Put indexed attributes together again: `<beginning>3.role` gives an object that has `role`, in index order.

    Indexes may have gaps, since a limit on the number of attributes takes some away.
    """
    groups: dict[int, dict[str, Json]] = {}
    size = len(beginning)
    for key, value in attributes.items():
        if key.startswith(beginning):
            index, _, rest = key[size:].partition(".")
            if index.isascii() and index.isdigit() and len(index) <= 9:
                groups.setdefault(int(index), {})[rest] = value
    return [groups[index] for index in sorted(groups)]


def masked_hole(*values: Json) -> Incomplete | None:
    """`redacted` if one of the values is a mask."""
    return "redacted" if any(is_masked(value) for value in values) else None


def passages_in(value: Json) -> tuple[Passage, ...]:
    """The documents of a list, or of an object that holds one under `documents` or the like; JSON of either."""
    value = decoded(value)
    held = as_dict(value)
    for key in ("documents", "source_documents", "source_nodes", "results", "data", "output"):
        if isinstance(held.get(key), list):
            value = held[key]
            break
    return tuple(passage(held) for each in as_list(value) if (held := as_dict(decoded(each))))


def passage(document: Mapping[str, Any]) -> Passage:
    """A document as a passage, whatever its keys are called."""
    inner = as_dict(document.get("node") or document.get("document") or document.get("kwargs"))
    held = {**inner, **document}
    text = text_at(held, "content", "page_content", "pageContent", "text", "snippet", "chunk", "document", "body")
    if text is None:  # Genkit: in parts
        parts = [text_at(as_dict(part), "text") for part in as_list(held.get("content"))]
        text = "\n".join(part for part in parts if part)
    score = held.get("score", held.get("similarity", held.get("relevance_score")))
    number = float(score) if isinstance(score, (int, float)) and not isinstance(score, bool) else None
    identity = held.get("id", held.get("id_", held.get("doc_id")))
    return Passage(text or "", str(identity)[:200] if isinstance(identity, (str, int)) else None, number)
