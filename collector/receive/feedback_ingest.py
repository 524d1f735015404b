"""JSON about turns that arrives separately from traces, redacted like them.

Feedback becomes records of the labels log, references become records of the turns log.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, cast

from collector.errors import BadInput, TooLarge
from collector.logs.log import Log, Record
from collector.otlp.outline import has_more_objects_than
from collector.receive.rejection import NotRedacted, Rejected
from collector.records.feedback import FeedbackEntry, feedback_of, feedback_record
from collector.records.ready_made import documents_in
from collector.records.references import all_of, reference_of, reference_records
from collector.redact.documents import redact_document
from collector.redact.redactor import RedactionFailed, Redactor
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import RECEIVE_BYTES, RECEIVE_ITEMS

DocumentKind = Literal["references", "feedback"]


@dataclass(frozen=True, slots=True)
class ParsedDocuments:
    """The records of what was sent; one item may cause several. `accepted` is how many items there are."""

    signal: DocumentKind
    records: list[Record]
    accepted: int

    def count(self, telemetry: Telemetry, source: str, size: int, now: float | None = None) -> None:
        """Count durable items that came in `size` bytes."""
        del now  # references and feedback have no lag to measure
        telemetry.counter(RECEIVE_BYTES, source, self.signal).inc(size)
        telemetry.counter(RECEIVE_ITEMS, source, self.signal, "accepted").inc(self.accepted)


def items_of(
    body: bytes, noun: str, *, max_items: int | None, redactor: Redactor | None, unredacted: Collection[str] = ()
) -> list[Any]:
    """The documents of a body, redacted except under `unredacted`; `noun` is their name in messages.

    Raises:
        TooLarge: it holds more than `max_items` objects.
        NotRedacted: the redactor failed on it.
        BadInput: it cannot be read.
    """
    if max_items is not None and has_more_objects_than(body, max_items):
        raise TooLarge(f"it holds more than {max_items} {noun}")
    documents = documents_in(body)
    return documents if redactor is None else [redact_item(document, redactor, unredacted) for document in documents]


def redact_item(document: object, redactor: Redactor, unredacted: Collection[str] = ()) -> Any:
    """A document with personal data redacted, except under the keys `unredacted`. Raises NotRedacted."""
    try:
        clean = redact_document(document, redactor)
    except RedactionFailed as error:
        raise NotRedacted(f"a text could not be redacted ({error}), so nothing of it is stored") from None
    if not isinstance(document, Mapping):
        return clean
    whole = cast("Mapping[str, Any]", document)
    return cast("dict[str, Any]", clean) | {name: whole[name] for name in unredacted if name in whole}


def parse_references(
    body: bytes, turns: Log, *, tenant: str | None, max_items: int | None = None, redactor: Redactor | None = None
) -> ParsedDocuments:
    """Parse a JSON document, an array of them or one a line: all of it, or nothing.

    `tenant` is the sender's ("" without a name); None for sources that may say something of every tenant's turns.

    Raises:
        TooLarge: it holds more than `max_items` objects.
        NotRedacted: the redactor failed on it.
        BadInput: it cannot be read.
    """
    documents = items_of(body, "references", max_items=max_items, redactor=redactor)
    references = all_of(documents, "reference", partial(reference_of, tenant=tenant))
    records = [record for reference in references for record in reference_records(reference, turns)]
    return ParsedDocuments("references", records, len(references))


@dataclass(frozen=True, slots=True)
class FeedbackRules:
    """The accepted feedback: comments if texts are stored at all, experts' feedback of tenants that may have experts.

    `experts` are the names of those tenants, "" for senders without a name; None for all senders. `scales` are the
    worst and the best number for each feedback name: a number beyond them is a mistake of the sender or of the
    configuration.
    """

    comments: bool = True
    experts: frozenset[str] | None = frozenset()
    scales: Mapping[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])

    def require_scale(self, entry: FeedbackEntry) -> None:
        """Raise BadInput for a number that is not on the scale of its name; -1 is bad on every scale."""
        scale, value = self.scales.get(entry.name), entry.value
        if scale is None or isinstance(value, bool | str | None) or value == -1 or min(scale) <= value <= max(scale):
            return
        raise BadInput(
            f"value: {value:g} is not on the scale of {entry.name}, {min(scale):g} to {max(scale):g}; "
            f"send a number on it, or correct feedback.names.{entry.name}.scale"
        )

    def believes(self, entry: FeedbackEntry) -> bool:
        """Whether the sender may send feedback as an expert's. An operator's source (`tenant` is None) always may."""
        return entry.source != "expert" or entry.tenant is None or self.experts is None or entry.tenant in self.experts


ALL_FEEDBACK = FeedbackRules(experts=None)


def parse_feedback(
    body: bytes, rules: FeedbackRules, *, tenant: str | None, redactor: Redactor | None, max_items: int | None = None
) -> ParsedDocuments:
    """Parse a JSON document, an array of them or one a line: all of it, or nothing.

    `tenant` is the sender's ("" without a name); None for sources that may say something of every tenant's turns.

    Raises:
        TooLarge: it holds more than `max_items` objects.
        NotRedacted: the redactor failed on it.
        Rejected: 403, some of it is marked as an expert's, and this sender may not send that.
        BadInput: it cannot be read.
    """
    documents = items_of(body, "pieces of feedback", max_items=max_items, redactor=redactor, unredacted=("at",))
    entries = all_of(documents, "feedback", partial(feedback_of, tenant=tenant))
    if not all(rules.believes(entry) for entry in entries):
        raise Rejected(
            403,
            "feedback of source expert is taken from the senders that feedback.experts names; write source: user, or "
            "name the tenant there",
            reason="expert",
        )
    for entry in entries:
        rules.require_scale(entry)
    records = [feedback_record(entry, comments=rules.comments) for entry in entries]
    return ParsedDocuments("feedback", records, len(records))
