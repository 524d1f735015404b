"""The parsing of feedback into records of the labels log, redacted like the turns that it is about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from collector.errors import TooLarge
from collector.logs.log import Record
from collector.otlp.item_count import has_more_objects_than
from collector.receive.rejection import NotRedacted, Rejected
from collector.records.feedback import FeedbackEntry, feedback_in, feedback_record, without_comment
from collector.records.ready_made import Incoming, documents_in
from collector.redact.documents import redact_document
from collector.redact.redactor import RedactionFailed, Redactor
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import RECEIVE_BYTES, RECEIVE_ITEMS

SIGNAL: Incoming = "feedback"


@dataclass(frozen=True, slots=True)
class FeedbackRules:
    """What is taken: comments if texts are stored at all, experts' feedback of tenants that may have experts.

    `experts` are the names of those tenants, "" for senders without a name; None for all senders.
    """

    comments: bool = True
    experts: frozenset[str] | None = frozenset()

    def believes(self, entry: FeedbackEntry) -> bool:
        """Whether the sender may say that an expert says so. Who is no tenant is an operator, and may."""
        return entry.source != "expert" or entry.tenant is None or self.experts is None or entry.tenant in self.experts


ALL_FEEDBACK = FeedbackRules(experts=None)


@dataclass(frozen=True, slots=True)
class ParsedFeedback:
    """The records of feedback, one for each piece."""

    records: list[Record]

    @property
    def accepted(self) -> int:
        """How many pieces there are."""
        return len(self.records)

    def count(self, telemetry: Telemetry, source: str, size: int, now: float | None = None) -> None:
        """Count durable feedback that came in `size` bytes."""
        del now  # it comes when it comes
        telemetry.counter(RECEIVE_BYTES, source, SIGNAL).inc(size)
        telemetry.counter(RECEIVE_ITEMS, source, SIGNAL, "accepted").inc(self.accepted)


def parse_feedback(
    body: bytes,
    rules: FeedbackRules,
    *,
    tenant: str | None,
    max_items: int | None = None,
    redactor: Redactor | None = None,
) -> ParsedFeedback:
    """Parse a JSON document, an array of them or one a line: all of it, or nothing.

    `tenant` is the sender's ("" without a name); None for sources that may say something of every tenant's turns.

    Raises:
        TooLarge: it holds more than `max_items` objects.
        NotRedacted: the redactor failed on it.
        Rejected: 403, it is said to be an expert's, and this sender has none.
        BadInput: it cannot be read.
    """
    if max_items is not None and has_more_objects_than(body, max_items):
        raise TooLarge(f"it holds more than {max_items} pieces of feedback")
    documents = documents_in(body)
    if redactor is not None:
        documents = [_redacted(each, redactor) for each in documents]
    entries = feedback_in(documents, tenant=tenant)
    if not all(rules.believes(each) for each in entries):
        raise Rejected(
            403,
            "feedback of source expert is taken from the senders that feedback.experts names; write source: user, or "
            "name the tenant there",
            reason="expert",
        )
    return ParsedFeedback([feedback_record(each if rules.comments else without_comment(each)) for each in entries])


def _redacted(document: object, redactor: Redactor) -> Any:
    """The document with its texts redacted; its time is none."""
    try:
        redacted = redact_document(document, redactor)
    except RedactionFailed as error:
        raise NotRedacted(f"a text could not be redacted ({error}), so nothing of it is stored") from None
    if isinstance(document, Mapping) and "at" in document:
        return cast("dict[str, Any]", redacted) | {"at": cast("Mapping[str, Any]", document)["at"]}
    return redacted
