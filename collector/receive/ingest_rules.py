"""The rules that every way in applies to what it receives."""

from dataclasses import dataclass, field

from collector.otlp.own_items import OwnItems
from collector.receive.feedback_ingest import ALL_FEEDBACK, FeedbackRules
from collector.receive.parsed_request import TurnNoting
from collector.redact.open_redactor import Redactors
from collector.redact.redactor import Redactor


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestRules:
    """How received content becomes records.

    `own` finds what evalstream has sent itself. Media of up to `stored_media` bytes are stored. `notes` are of turns in
    conversations that are not wanted.
    """

    redactors: Redactors = field(default_factory=Redactors)
    own: OwnItems | None = None
    stored_media: int = 0
    feedback: FeedbackRules = ALL_FEEDBACK
    notes: TurnNoting | None = None

    def redactor_of(self, body: bytes) -> Redactor | None:
        """The redactor of what came by a topic or a file. Its work is bounded by what the body holds when packed."""
        redactor = self.redactors.everybody
        return redactor.remembering(body=body) if redactor is not None else None
