"""The parsing of feedback into records of the labels log, redacted like the turns that it is about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from collector.receive.json_items import ParsedItems, items_of
from collector.receive.rejection import Rejected
from collector.records.feedback import FeedbackEntry, feedback_in, feedback_record, without_comment
from collector.records.ready_made import Incoming
from collector.redact.redactor import Redactor


@dataclass(frozen=True, slots=True)
class FeedbackRules:
    """The accepted feedback: comments if texts are stored at all, experts' feedback of tenants that may have experts.

    `experts` are the names of those tenants, "" for senders without a name; None for all senders.
    """

    comments: bool = True
    experts: frozenset[str] | None = frozenset()

    def believes(self, entry: FeedbackEntry) -> bool:
        """Whether the sender may say that an expert says so. A sender that is no tenant is an operator, and may."""
        return entry.source != "expert" or entry.tenant is None or self.experts is None or entry.tenant in self.experts


ALL_FEEDBACK = FeedbackRules(experts=None)


class ParsedFeedback(ParsedItems):
    """The records of feedback, one for each piece."""

    __slots__ = ()
    signal: ClassVar[Incoming] = "feedback"


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
    documents = items_of(body, "pieces of feedback", max_items=max_items, redactor=redactor, no_texts=("at",))
    entries = feedback_in(documents, tenant=tenant)
    if not all(rules.believes(entry) for entry in entries):
        raise Rejected(
            403,
            "feedback of source expert is taken from the senders that feedback.experts names; write source: user, or "
            "name the tenant there",
            reason="expert",
        )
    records = [feedback_record(entry if rules.comments else without_comment(entry)) for entry in entries]
    return ParsedFeedback(records, len(records))
