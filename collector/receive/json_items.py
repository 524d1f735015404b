"""JSON about turns that comes apart from traces: read and redacted in one way, and the result."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from collector.errors import TooLarge
from collector.logs.log import Record
from collector.otlp.outline import has_more_objects_than
from collector.receive.rejection import NotRedacted
from collector.records.ready_made import Incoming, documents_in
from collector.redact.documents import redact_document
from collector.redact.redactor import RedactionFailed, Redactor
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import RECEIVE_BYTES, RECEIVE_ITEMS


@dataclass(frozen=True, slots=True)
class ParsedItems:
    """The records of what was sent; there may be several of one item. `accepted` is how many items there are."""

    signal: ClassVar[Incoming]

    records: list[Record]
    accepted: int

    def count(self, telemetry: Telemetry, source: str, size: int, now: float | None = None) -> None:
        """Count durable items that came in `size` bytes."""
        del now  # they come when they come
        telemetry.counter(RECEIVE_BYTES, source, self.signal).inc(size)
        telemetry.counter(RECEIVE_ITEMS, source, self.signal, "accepted").inc(self.accepted)


def items_of(
    body: bytes, noun: str, *, max_items: int | None, redactor: Redactor | None, no_texts: Collection[str] = ()
) -> list[Any]:
    """The documents of a body, redacted but for what is under the keys `no_texts`; `noun` is what they are.

    Raises:
        TooLarge: it holds more than `max_items` objects.
        NotRedacted: the redactor failed on it.
        BadInput: it cannot be read.
    """
    if max_items is not None and has_more_objects_than(body, max_items):
        raise TooLarge(f"it holds more than {max_items} {noun}")
    documents = documents_in(body)
    return documents if redactor is None else [_redacted(document, redactor, no_texts) for document in documents]


def _redacted(document: object, redactor: Redactor, no_texts: Collection[str]) -> Any:
    try:
        redacted = redact_document(document, redactor)
    except RedactionFailed as error:
        raise NotRedacted(f"a text could not be redacted ({error}), so nothing of it is stored") from None
    if not isinstance(document, Mapping):
        return redacted
    whole = cast("Mapping[str, Any]", document)
    return cast("dict[str, Any]", redacted) | {name: whole[name] for name in no_texts if name in whole}
