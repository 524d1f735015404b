"""The parsing of references into records of the turns log, redacted like the turns that they are about."""

from __future__ import annotations

from typing import ClassVar

from collector.logs.log import Log
from collector.receive.json_items import ParsedItems, items_of
from collector.records.ready_made import Incoming
from collector.records.references import reference_records, references_in
from collector.redact.redactor import Redactor


class ParsedReferences(ParsedItems):
    """The records of references; there may be one for each partition."""

    __slots__ = ()
    signal: ClassVar[Incoming] = "references"


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
    documents = items_of(body, "references", max_items=max_items, redactor=redactor)
    references = references_in(documents, tenant=tenant)
    return ParsedReferences(
        [record for reference in references for record in reference_records(reference, turns)], len(references)
    )
