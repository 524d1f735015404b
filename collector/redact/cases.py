"""Redacts a turn or conversation: as a log holds it, or for a judge, who sees numbers, the same all through it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any, cast

import orjson

from collector.redact.redactor import Numbering, Redactor, has_pseudonym
from evaluators.cases import Conversation, Json, Turn

_NO_TEXT = frozenset(
    {
        "turn_id", "conversation_id", "trace_id", "span_id", "parent_span_id", "response_id", "service", "dialect",
        "model", "user_id", "started_at", "ended_at", "usage", "incomplete", "role", "closed_by", "revision",
        "kind", "place", "media_type", "size", "sha256", "data",
    }
)  # fmt: skip
"""Fields that say which case it is; no judge is shown them."""


def redact_case(case: Turn | Conversation, redactor: Redactor) -> Turn | Conversation:
    """The case with every text redacted, and with `<EMAIL_1>` for each pseudonym.

    Raises:
        RedactionFailed: a text could not be looked through; the case must not be sent.
    """
    if _is_clean(case, redactor):
        return case
    numbering = Numbering()
    return cast("Turn | Conversation", _walk(case, lambda value: numbering.value(redactor.value(value))))


def redact_as_stored(case: Turn | Conversation, redactor: Redactor) -> Turn | Conversation:
    """The case with every text redacted as in a log: what evaluators without a judge see in the service.

    Raises:
        RedactionFailed: a text could not be looked through.
    """
    return cast("Turn | Conversation", _walk(case, redactor.value))


def _is_clean(case: Turn | Conversation, redactor: Redactor) -> bool:
    """Whether it is known at one glance at all texts that nothing is found in them, and that none is a pseudonym."""
    try:
        texts = orjson.dumps(case, _texts_of, orjson.OPT_PASSTHROUGH_DATACLASS)
    except TypeError:  # it is no JSON, or nested too deeply
        return False
    return not redactor.suspects_of((texts,)) and not has_pseudonym(texts)


def _texts_of(value: object) -> list[object]:
    """The fields of a dataclass that may hold texts, where they hold anything."""
    kind: Any = type(value)  # mypy, which compiles this, takes not every type for hashable
    return [field for name in _names_of(kind) if (field := getattr(value, name))]


def _walk(value: Any, change: Callable[[Json], Json]) -> Any:
    if isinstance(value, tuple):
        return tuple(_walk(each, change) for each in cast("tuple[Any, ...]", value))
    if not is_dataclass(value) or isinstance(value, type):
        return change(value)
    changed: dict[str, Any] = {}
    for name in _names_of(type(value)):
        old = getattr(value, name)
        if old and (new := _walk(old, change)) != old:
            changed[name] = new
    return replace(value, **changed) if changed else value  # a turn has 28 fields: most need no copy


@cache
def _names_of(kind: Any) -> tuple[str, ...]:
    """The names of a dataclass's fields that may hold texts."""
    return tuple(field.name for field in fields(kind) if field.name not in _NO_TEXT)
