"""Redacts ready-made turns, conversations and chats before anybody reads them: JSON documents as they came."""

import re
from collections.abc import Mapping
from typing import Any, cast

from collector.redact.redactor import Redactor
from evaluators.cases import Json

_NO_TEXT = frozenset({"started_at", "ended_at", "usage", "incomplete", "revision"})
"""Readers of the document accept nothing but times, counts and words of ours there, and refuse all else."""

_IDS = {
    "trace_id": (_TRACE := re.compile("[0-9a-fA-F]{32}")),
    "evaluation_id": _TRACE,
    "span_id": (_SPAN := re.compile("[0-9a-fA-F]{16}")),
    "parent_span_id": _SPAN,
}
"""An id of another form is none to OpenTelemetry, but may be a text."""


def redact_document(document: Json, redactor: Redactor) -> Json:
    """The document with every text in it redacted, other ids and names included.

    Raises:
        RedactionFailed: a text could not be looked through; nothing of the document must be stored.
    """
    if not isinstance(document, Mapping):
        return redactor.value(document)
    return {name: _field(name, value, redactor) for name, value in cast("Mapping[str, Any]", document).items()}


def _field(name: str, value: Json, redactor: Redactor) -> Json:
    if name == "turns" and isinstance(value, list):
        return [redact_document(each, redactor) for each in cast("list[Json]", value)]
    if name in _NO_TEXT or (name in _IDS and isinstance(value, str) and _IDS[name].fullmatch(value)):
        return value
    return redactor.value(value)
