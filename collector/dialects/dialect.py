"""What makes a dialect: by what evidence it is known, and what reads it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from collector.dialects.call import Call
from collector.span import LogRecord, Span

Read = Callable[[Span, Sequence[LogRecord]], Call | None]
"""Reads a span with the log records that name it; None: not mine after all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Carries:
    """What a dialect can carry, for the table in the documentation. A short word each, "" for nothing."""

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

    `rank` orders readers: the lowest is the most specific, is asked first, and wins where two contradict each other.
    `evidence` are attribute names that make a span worth showing to the reader; one that ends in `*` stands for all
    names that begin so. `scopes` are beginnings of instrumentation scopes that do the same, `events` names of span
    events, `records` names of log records that the reader wants to see.
    """

    name: str
    rank: int
    read: Read
    evidence: tuple[str, ...]
    carries: Carries
    scopes: tuple[str, ...] = ()
    events: frozenset[str] = field(default_factory=frozenset[str])
    records: frozenset[str] = field(default_factory=frozenset[str])
