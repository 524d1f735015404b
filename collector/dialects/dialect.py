"""The port of a dialect: the evidence by which its spans are recognized, and the function that reads them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from collector.dialects.call import Call, Kind
from collector.otlp.span import LogRecord, Span

SpanReader = Callable[[Span, Sequence[LogRecord]], Call | None]
"""Reads a span with the log records that name it; None if the span is not of this dialect after all."""


Glance = Callable[[Span], Kind | Literal["nothing"] | None]
"""The kind of call that `read` certainly returns for a span that has not failed, without events and log records.

It reads no messages, and returns None where it is in doubt; `nothing` says that `read` returns None. The call has this
dialect's name, and neither an error, feedback nor a conversation of its own. If it is a model's, it has an outcome and
requests no tool.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """The contents that a dialect can deliver, for the table in the documentation: a few words each, "" for nothing."""

    libraries: str
    messages: str = ""
    tools: str = ""
    retrieval: str = ""
    conversation: str = ""
    user: str = ""
    feedback: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """A way of writing LLM calls into spans and log records.

    `rank` orders readers: the lowest is the most specific, runs first, and wins where two contradict each other. A span
    is given to `read` if it has an attribute in `evidence` (a name that ends in `*` is a prefix), a scope that starts
    with one of `scopes`, an event in `events`, or a log record in `records` (by its event name, or without one by its
    scope). Records in `own_records` are about the span that they name, even if it is no model call. With a `glance`,
    traces of one model call need not be read if no monitor needs their content.
    """

    name: str
    rank: int
    read: SpanReader
    coverage: Coverage
    evidence: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    events: frozenset[str] = field(default_factory=frozenset[str])
    records: frozenset[str] = field(default_factory=frozenset[str])
    own_records: frozenset[str] = field(default_factory=frozenset[str])
    glance: Glance | None = None
