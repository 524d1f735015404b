"""Texts in spans and log records that may be a person's or a model's words: where they are, and what their places look
like.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal, NamedTuple

from collector.assemble.model_calls import normalize_whitespace
from collector.dialects.decode import as_dict, as_list, parse_document
from collector.dialects.messages import ROLES, parse_messages
from collector.dialects.program_fields import is_scaffolding
from collector.otlp.span import LogRecord, Span
from evaluators.cases import Json

Side = Literal["input", "output"]

_QUESTIONS = frozenset(
    {"input", "inputs", "prompt", "prompts", "question", "query", "user", "request", "messages", "human", "task"}
)
_ANSWERS = frozenset(
    {"output", "outputs", "completion", "completions", "response", "responses", "answer", "result", "reply", "choice",
     "choices", "generation", "generations", "generated", "assistant", "final", "candidates", "replies"}
)  # fmt: skip
_NEITHER = frozenset(
    {"system", "instruction", "instructions", "description", "schema", "template", "tool", "tools", "reasoning",
     "thinking", "error", "exception", "statement", "stacktrace", "documents", "context", "definitions", "db", "http",
     "url", "code", "traceback", "parameters", "function", "functions", "config", "metadata"}
)  # fmt: skip
_WORD = re.compile(r"[A-Za-z][a-z]*")
_MAX_LEAVES, _MAX_DEPTH, _MAX_TEXTS = 200, 6, 400
_SHORTEST = 8


class TextAt(NamedTuple):
    """A text at a place of a span. `side` is what its place looks like, None if nothing points either way."""

    text: str
    place: str
    span: Span
    side: Side | None
    weight: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadText:
    """A text that no dialect reads: its place, the scope and name of the spans, their number, and its appearance."""

    place: str
    scope: str
    span_name: str
    spans: int
    side: Side | None


def find_texts(span: Span, records: Sequence[LogRecord]) -> list[TextAt]:
    """Find the texts of a span, its events and its log records that may be a person's or a model's words."""
    return list(islice(_find_texts(span, records), _MAX_TEXTS))


def _find_texts(span: Span, records: Sequence[LogRecord]) -> Iterator[TextAt]:
    last = _last_indexes(span.attributes)
    for key, value in span.attributes.items():
        yield from _in_value(_as_place(key, last), value, span)
    for event in span.events:
        if event.name not in {"", "exception"}:  # a place needs a name
            for key, value in event.attributes.items():
                yield from _in_value(f"event:{event.name}:{key}", value, span)
    for record in records:
        if record.kind:
            yield from _in_value(f"log:{record.kind}:body", record.body, span)
            for key, value in record.attributes.items():
                yield from _in_value(f"log:{record.kind}:{key}", value, span)


_INDEX = re.compile(r"\.(\d{1,6})(?=\.|\Z)")


def _last_indexes(keys: Iterable[str]) -> dict[str, int]:
    """The highest number after each beginning of attributes that have one in their names."""
    last: dict[str, int] = {}
    for key in keys:
        match = _INDEX.search(key)
        if match is not None:
            start = key[: match.start()]
            last[start] = max(last.get(start, 0), int(match[1]))
    return last


def _as_place(key: str, last: Mapping[str, int]) -> str:
    """The place of an attribute: if its name has a number that is the highest of its series, the number becomes
    `[-1]`.
    """
    match = _INDEX.search(key)
    if match is None or int(match[1]) < last[key[: match.start()]]:
        return key
    return f"{key[: match.start()]}.[-1]{key[match.end() :]}"


def _in_value(place: str, value: Json, span: Span) -> Iterator[TextAt]:
    if isinstance(value, str):
        document = parse_document(value)
        if document is None:
            if _is_prose(value):
                side, weight = _hint(place)
                yield TextAt(normalize_whitespace(value), place, span, side, weight)
            return
        value = document.value
    if isinstance(value, (dict, list)):
        yield from _as_messages(place, value, span)
        if "[" not in place or "{" not in place:
            yield from islice(_leaves(place, value, span), _MAX_LEAVES)


def _as_messages(place: str, value: Json, span: Span) -> Iterator[TextAt]:
    """The last message of a value that is messages of a known shape."""
    transcript = parse_messages(value, "?")
    messages = [
        message for message in transcript.messages if message.text.strip() and message.role in {"user", "assistant"}
    ]
    if messages:
        side: Side = "input" if messages[-1].role == "user" else "output"
        yield TextAt(normalize_whitespace(messages[-1].text), place, span, side, 3 + (side == _hint(place)[0]))


def _leaves(place: str, value: Json, span: Span) -> Iterator[TextAt]:
    """The texts inside a document, with the path to each."""
    stack: list[tuple[str, Json, str | None, int]] = [("", value, None, 0)]
    while stack:
        path, each, role, depth = stack.pop()
        if isinstance(each, str):
            document = parse_document(each) if each[:1] in {"[", "{"} else None
            if document is not None and depth < _MAX_DEPTH:
                stack.append((path, document.value, role, depth + 1))
            elif _is_prose(each) and path:
                where = f"{place}{{{path}}}"
                side, weight = _hint(where) if role is None else _SIDES.get(role, (None, -3))
                yield TextAt(normalize_whitespace(each), where, span, side, weight)
        elif depth < _MAX_DEPTH:
            items = as_list(each)
            for index, item in enumerate(items[-3:], max(len(items) - 3, 0)):
                stack.append((f"{path}[{-1 if index == len(items) - 1 else index}]", item, role, depth + 1))
            fields = as_dict(each)
            own = fields.get("role", fields.get("type"))
            role = ROLES.get(own.lower(), role) if isinstance(own, str) else role
            for name, item in islice(fields.items(), 40):
                if _NAME.fullmatch(name):
                    stack.append((f"{path}.{name}" if path else name, item, role, depth + 1))


_SIDES: Mapping[str, tuple[Side | None, int]] = {"user": ("input", 3), "assistant": ("output", 3)}
_NAME = re.compile(r"[^\s.\[\]{}]{1,80}")


def _is_prose(text: str) -> bool:
    """Whether a text may be a person's or a model's words: several words of mostly letters, and no address, query or
    scaffolding.
    """
    if len(text) < _SHORTEST or " " not in text.strip() or is_scaffolding(text):
        return False
    start = text[:200]
    letters = sum(character.isalpha() or character.isspace() for character in start)
    return letters >= 0.7 * len(start) and not start.lstrip().upper().startswith(_CODE)


_CODE = ("SELECT ", "INSERT ", "UPDATE ", "DELETE ", "WITH ", "CREATE ", "HTTP", "TRACEBACK", "<", "{", "[")


def _hint(place: str) -> tuple[Side | None, int]:
    """The kind that a place's name suggests, and how strongly: the last words count most."""
    words = [word.lower() for word in _WORD.findall(place.replace("_", " "))]
    if _NEITHER.intersection(words):
        return None, -3
    for index, word in enumerate(reversed(words)):
        weight = max(2 - index // 2, 1)
        if word in _QUESTIONS:
            return "input", weight
        if word in _ANSWERS:
            return "output", weight
    return None, 0


def list_unread(texts: Sequence[TextAt]) -> list[UnreadText]:
    """The places of texts, those that look most like questions and answers first."""
    spans: dict[tuple[str, str, str], set[str]] = {}
    best: dict[tuple[str, str, str], TextAt] = {}
    for text in texts:
        key = (text.place, text.span.scope, shape_of(text.span.name))
        spans.setdefault(key, set()).add(text.span.span_id)
        if key not in best or best[key].weight < text.weight:
            best[key] = text
    return [
        UnreadText(place=key[0], scope=key[1], span_name=key[2], spans=len(spans[key]), side=best[key].side)
        for key in sorted(best, key=lambda key: (-best[key].weight, -len(spans[key]), key))
    ]


def shape_of(name: str) -> str:
    """A span's name without what varies: `chat gpt-4` is `chat *`."""
    first, space, _ = name.partition(" ")
    return f"{first} *" if space else name
