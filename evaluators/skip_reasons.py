"""Reasons of skips: why an evaluation has neither a score nor an error."""

from collections.abc import Mapping
from enum import StrEnum


class SkipReason(StrEnum):
    """The code that a skip's reason begins with; details may follow it, as in `missing_field: expected_output`.

    `MEANINGS` says what each one means. An evaluator of your own may give other reasons.
    """

    MISSING_FIELD = "missing_field"
    INVALID_FIELD = "invalid_field"
    INCOMPLETE = "incomplete"
    APPLICATION_ERROR = "application_error"
    UNSEEN_MEDIA = "unseen_media"
    UNCLEAR_LANGUAGE = "unclear_language"
    NOT_COMPLETED = "not_completed"
    GATED = "gated"
    SHED = "shed"
    OVER_BUDGET = "over_budget"
    REFERENCE_MISSING = "reference_missing"

    def text(self, *details: str) -> str:
        """The reason as it is recorded: the code and its details."""
        return f"{self.value}: {', '.join(details)}" if details else self.value


MEANINGS: Mapping[SkipReason, str] = {
    SkipReason.MISSING_FIELD: "The subject lacks fields that the evaluator requires; they follow.",
    SkipReason.INVALID_FIELD: "A field has a value that the evaluator cannot use; it follows.",
    SkipReason.INCOMPLETE: "The turn is incomplete, or too many turns of the conversation are; the missing reason of "
    "the first one follows.",
    SkipReason.APPLICATION_ERROR: "The application failed before it gave an answer.",
    SkipReason.UNSEEN_MEDIA: "The judge cannot be shown attachments of these kinds, and the monitor has "
    "`unseen_media: skip`.",
    SkipReason.UNCLEAR_LANGUAGE: "The language of a text cannot be told; its field follows.",
    SkipReason.NOT_COMPLETED: "The task was not completed, so there is nothing to score.",
    SkipReason.GATED: "A composite's first evaluator, which follows, did not ask for the second one.",
    SkipReason.SHED: "The evaluation waited longer than `evaluate.shed_after`, or too many evaluations waited for a "
    "batch.",
    SkipReason.OVER_BUDGET: "A budget had no money left for it.",
    SkipReason.REFERENCE_MISSING: "No reference brought in time what the evaluator requires; it follows.",
}

LOSSES = (SkipReason.OVER_BUDGET, SkipReason.SHED, SkipReason.INCOMPLETE)
"""The subject should have got a score: alerts watch the share of these."""

UNMADE = frozenset({SkipReason.SHED, SkipReason.OVER_BUDGET, SkipReason.REFERENCE_MISSING})
"""The evaluation was not tried, so `evalstream rejudge` can make it later."""


def code_of(reason: str) -> str:
    """The part of a reason before its details."""
    return reason.partition(":")[0]


def table() -> str:
    """The reasons as a Markdown table."""
    rows = [
        f"| `{code}` | {meaning} | {_yes(code in LOSSES)} | {_yes(code in UNMADE)} |"
        for code, meaning in MEANINGS.items()
    ]
    return "\n".join(("| reason | meaning | a loss | never tried |", "|---|---|---|---|", *rows))


def _yes(holds: bool) -> str:
    return "yes" if holds else "no"
