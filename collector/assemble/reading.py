"""Reads the spans of a trace, each with the log records that belong to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from collector.assemble.gather import Gathered
from collector.assemble.identity import Identity
from collector.assemble.tree import Tree
from collector.dialects.call import Call
from collector.dialects.decode import as_dict
from collector.dialects.registry import Dialects
from collector.span import NOTHING, LogRecord, Span

_FEEDBACK = "gen_ai.evaluation.result"


class Read(NamedTuple):
    """A span and what it says."""

    span: Span
    call: Call


class _Reader(NamedTuple):
    """Reads spans with their records, and who is talking out of either."""

    dialects: Dialects
    identity: Identity

    def read(self, span: Span, records: Sequence[LogRecord] = ()) -> Call | None:
        call = self.dialects.read(span, records)
        if call is None or not records:
            return call
        for record in records:
            conversation, user = self.identity.who(record.attributes)
            if conversation or user:
                return call._replace(conversation_id=call.conversation_id or conversation, user_id=call.user_id or user)
        return call


def read_spans(gathered: Gathered, tree: Tree, dialects: Dialects, identity: Identity) -> list[Read]:
    """Read every span that has something to say, by start.

    Records are read with the span they name. Of a streamed call they may name the parent instead, for the call was
    left before its answer was complete: then they go to the call there that has no answer.
    """
    if not gathered.records:
        return [Read(span, call) for span in gathered.spans if (call := dialects.read(span))]
    reader = _Reader(dialects, identity)
    own = _by_span(gathered.records)
    reads: dict[str, Read] = {}
    strays: dict[str | None, list[LogRecord]] = {}
    for span in gathered.spans:
        records = own.pop(span.span_id, [])
        call = _read_at_home(span, records, reader, strays)
        if call is not None:
            reads[span.span_id] = Read(span, call)
    strays.update(own)
    records_at = _by_span(gathered.records)
    for span_id, records in strays.items():
        left = [each for each in _batches(records) if not _settle(span_id, each, reads, tree, reader, records_at)]
        if left:
            _keep(span_id, [record for batch in left for record in batch], reads, tree, reader)
    return sorted(reads.values(), key=lambda read: (read.span.start, read.span.end, read.span.span_id))


def _by_span(records: Iterable[LogRecord]) -> dict[str | None, list[LogRecord]]:
    groups: dict[str | None, list[LogRecord]] = {}
    for record in records:
        groups.setdefault(record.span_id, []).append(record)
    return groups


def _read_at_home(
    span: Span, records: list[LogRecord], reader: _Reader, strays: dict[str | None, list[LogRecord]]
) -> Call | None:
    """Read a span with its records; if it is no model call, only feedback is at home there."""
    if not records:
        return reader.read(span)
    feedback = [record for record in records if record.event_name == _FEEDBACK]
    alone = reader.read(span, feedback)
    if len(feedback) == len(records):
        return alone
    if alone is not None and alone.kind == "model":
        return reader.read(span, records)
    strays[span.span_id] = [record for record in records if record.event_name != _FEEDBACK]
    return alone


_CHOICE = "gen_ai.choice"
_ENDS = frozenset({_CHOICE, "gen_ai.content.completion", "gen_ai.client.inference.operation.details"})
"""Records that end what is said of a call."""


def _batches(records: Sequence[LogRecord]) -> list[list[LogRecord]]:
    """The records of several calls, in order of time, parted where one has ended and the next one begins."""
    batches: list[list[LogRecord]] = []
    for record in records:
        if not batches or _is_over(batches[-1][-1], record):
            batches.append([])
        batches[-1].append(record)
    return batches


def _is_over(before: LogRecord, record: LogRecord) -> bool:
    """Whether what is said of a call ends between two records; several choices are of one call."""
    if before.event_name not in _ENDS:
        return False
    if record.event_name != before.event_name or record.event_name != _CHOICE:
        return True
    last, this = as_dict(before.body), as_dict(record.body)
    return last.get("index") == this.get("index") and bool(last.get("finish_reason"))


def _settle(
    span_id: str | None,
    records: list[LogRecord],
    reads: dict[str, Read],
    tree: Tree,
    reader: _Reader,
    records_at: dict[str | None, list[LogRecord]],
) -> bool:
    """Give the stray records of a call to the span they must be from; False if there is none."""
    target = _unanswered(span_id, records, reads.values(), tree)
    if target is not None:
        both = [*records_at.get(target.span.span_id, []), *records]
        call = reader.read(target.span, both)
        if call is not None and call.output is not None:
            reads[target.span.span_id] = Read(target.span, call)
            return True
    return False


def _keep(
    span_id: str | None, records: Sequence[LogRecord], reads: dict[str, Read], tree: Tree, reader: _Reader
) -> None:
    """Give stray records to the span they name, or else to one of their own."""
    span = tree.spans.get(span_id or "") or _stand_in(records)
    call = reader.read(span, records)
    if call is not None:
        reads[span.span_id] = Read(span, call)


def _unanswered(span_id: str | None, records: Sequence[LogRecord], reads: Iterable[Read], tree: Tree) -> Read | None:
    """The model call without an answer that records with this span id are nearest to: by descent, then by time."""
    open_ = [
        read for read in reads if read.call.kind == "model" and read.call.output is None and read.call.error is None
    ]
    if not open_:
        return None
    when = records[-1].time

    def distance(read: Read) -> tuple[int, int, str]:
        line = tree.line(read.span.span_id)
        steps = line.index(span_id) if span_id in line else len(line) + 1_000
        return steps, abs(when - read.span.end), read.span.span_id

    return min(open_, key=distance)


def _stand_in(records: Sequence[LogRecord]) -> Span:
    """A span for records whose own has not come."""
    first = records[0]
    return Span(
        first.trace_id,
        first.span_id or f"{first.time:016x}"[-16:],
        None,
        first.event_name,
        first.time,
        records[-1].time,
        attributes=NOTHING,
        scope=first.scope,
        resource=first.resource,
    )
