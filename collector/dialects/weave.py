"""Weights & Biases Weave's mark of the spans that are turns of a thread; messages are there in another dialect."""

from collections.abc import Sequence

from collector.dialects.attributes import find_sources, find_value
from collector.dialects.call import Call
from collector.dialects.dialect import Coverage, Dialect
from collector.dialects.free_form import exchanged, parse_answer, parse_question
from collector.otlp.span import LogRecord, Span


def read(span: Span, _records: Sequence[LogRecord]) -> Call | None:
    """Read a span that is marked as a turn: it has question and answer as the user saw them."""
    attributes = span.attributes
    if attributes.get("wandb.is_turn") not in (True, "true", "True"):
        return None
    input_value, input_key = find_value(attributes, "input.value", "weave.input", "gen_ai.input.messages")
    output_value, output_key = find_value(attributes, "output.value", "weave.output", "gen_ai.output.messages")
    question, answer = parse_question(input_value), parse_answer(output_value)
    return Call(
        kind="workflow",
        **exchanged(question, answer),
        sources=find_sources(attributes, input=input_key, output=output_key),
    )


DIALECT = Dialect(
    name="weave",
    rank=90,
    read=read,
    evidence=("wandb.is_turn",),
    coverage=Coverage(
        libraries="W&B Weave", messages="as written by the other dialect on the span", conversation="wandb.thread_id"
    ),
)
