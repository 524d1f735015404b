"""The parsing of references into records of the turns log, redacted like the turns that they are about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from collector.errors import TooLarge
from collector.logs.log import Log, Record
from collector.otlp.item_count import has_more_objects_than
from collector.receive.rejection import NotRedacted
from collector.records.ready_made import Incoming, documents_in
from collector.records.references import reference_records, references_in
from collector.redact.documents import redact_document
from collector.redact.redactor import RedactionFailed, Redactor
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import RECEIVE_BYTES, RECEIVE_ITEMS

SIGNAL: Incoming = "references"


@dataclass(frozen=True, slots=True)
class ParsedReferences:
    """The records of references; there may be one for each partition. `accepted` is how many references there are."""

    records: list[Record]
    accepted: int

    def count(self, telemetry: Telemetry, source: str, size: int, now: float | None = None) -> None:
        """Count durable references that came in `size` bytes."""
        del now  # they come when they come
        telemetry.counter(RECEIVE_BYTES, source, SIGNAL).inc(size)
        telemetry.counter(RECEIVE_ITEMS, source, SIGNAL, "accepted").inc(self.accepted)


def parse_references(
    body: bytes,
    turns: Log,
    *,
    tenant: str | None,
    max_items: int | None = None,
    redactor: Redactor | None = None,
) -> ParsedReferences:
    """Parse a JSON document, an array of them or one a line: all of it, or nothing.

    `tenant` is the sender's ("" without a name); None for sources that may say something of every tenant's turns.

    Raises:
        TooLarge: it holds more than `max_items` objects.
        NotRedacted: the redactor failed on it.
        BadInput: it cannot be read.
    """
    if max_items is not None and has_more_objects_than(body, max_items):
        raise TooLarge(f"it holds more than {max_items} references")
    documents = documents_in(body)
    if redactor is not None:
        documents = [_redacted(each, redactor) for each in documents]
    references = references_in(documents, tenant=tenant)
    return ParsedReferences(
        [record for each in references for record in reference_records(each, turns)], len(references)
    )


def _redacted(document: object, redactor: Redactor) -> Any:
    try:
        return redact_document(document, redactor)
    except RedactionFailed as error:
        raise NotRedacted(f"a text could not be redacted ({error}), so nothing of it is stored") from None
