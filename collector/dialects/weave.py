"""Weights & Biases Weave: marks which span is a turn of a thread; messages are beside it in another dialect's words."""

from __future__ import annotations

from collections.abc import Sequence

from collector.dialects.call import Call
from collector.dialects.dialect import Carries, Dialect
from collector.dialects.free_form import answer_in, question_in
from collector.dialects.reading import found_at
from collector.span import LogRecord, Span


def read(span: Span, _records: Sequence[LogRecord]) -> Call | None:
    """Read a span that is marked as a turn: it tells question and answer as the user saw them."""
    attributes = span.attributes
    if attributes.get("wandb.is_turn") not in (True, "true", "True"):
        return None
    given, given_at = found_at(attributes, "input.value", "weave.input", "gen_ai.input.messages")
    came, came_at = found_at(attributes, "output.value", "weave.output", "gen_ai.output.messages")
    asked, answered = question_in(given), answer_in(came)
    return Call(
        dialect="weave",
        kind="workflow",
        input=asked.said,
        output=answered.said,
        input_hole=asked.hole,
        output_hole=answered.hole,
        found={field: key for field, key in (("input", given_at), ("output", came_at)) if key},
    )


DIALECT = Dialect(
    name="weave",
    rank=90,
    read=read,
    evidence=("wandb.is_turn",),
    carries=Carries(
        libraries="W&B Weave",
        messages="in the words of the dialect beside it",
        conversation="wandb.thread_id",
    ),
)
