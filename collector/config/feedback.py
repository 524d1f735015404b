"""The configuration of feedback: how long it waits, whose is believed, and what its numbers mean."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from collector.durations import Seconds
from collector.records.sent_documents import LONGEST_NAME
from collector.section import Section


class FeedbackNameSettings(Section):
    """The scale of feedback with one name."""

    scale: tuple[float, float] = (0.0, 1.0)
    """The worst and the best number, like [1, 5] for stars; [5, 1] where low numbers are good."""

    def _mistakes(self) -> Iterator[str]:
        if self.scale[0] == self.scale[1]:
            yield "scale: the worst and the best number are the same; write for instance [1, 5]"


class FeedbackSettings(Section):
    """Feedback of users, experts and programs: by OTLP, `POST /v1/feedback`, topics and files, at any time."""

    wait: Seconds = Field(default=7 * 86_400.0, gt=0, le=90 * 86_400.0)
    """How long feedback waits for an evaluation of what it is about, and how far back it finds one; then it is counted
    as unmatched."""
    names: dict[Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)], FeedbackNameSettings] = Field(
        default_factory=dict, max_length=50
    )
    """Names of feedback that are labels of metrics, with the scale of their numbers; others are `other`, and their
    numbers count from 0 to 1."""
    experts: Literal["never", "always"] | list[str] = "never"
    """Senders whose feedback of source expert over HTTP becomes a label: none, all, or the named tenants. Topics and
    files are always trusted."""
