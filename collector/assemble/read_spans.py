"""Spans parsed by their dialects, each with the log records that belong to it."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from collector.assemble.collect_trace import CollectedTrace
from collector.assemble.identity import IdentityLookup
from collector.dialects.call import Call
from collector.dialects.decode import as_dict
from collector.dialects.registry import Dialects
from collector.otlp.span import NOTHING, LogRecord, Span
from collector.records.grouping import group_by

_MAX_ANCESTORS = 500
"""Ancestors of a span, at most: no real program nests deeper, and a hostile trace must not cost more."""


class SpanTree:
    """The spans of a trace by id."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self.spans = {span.span_id: span for span in spans}
        self._ancestors: dict[str, tuple[str, ...]] = {}

    def ancestors(self, span_id: str) -> tuple[str, ...]:
        """The ids of a span's ancestors, parent first, including one that is named but has not arrived."""
        ancestors = self._ancestors.get(span_id)
        if ancestors is None:
            ancestors = self._ancestors[span_id] = self._walk(span_id)
        return ancestors

    def _walk(self, span_id: str) -> tuple[str, ...]:
        ancestors: list[str] = []
        seen = {span_id}
        span = self.spans.get(span_id)
        while span is not None and len(ancestors) < _MAX_ANCESTORS:
            parent = span.parent_span_id
            if parent is None or parent in seen:
                break
            ancestors.append(parent)
            seen.add(parent)
            span = self.spans.get(parent)
        return tuple(ancestors)


_FEEDBACK = "gen_ai.evaluation.result"


class ParsedSpan(NamedTuple):
    """A span with its neutral form."""

    span: Span
    call: Call


class _SpanParser(NamedTuple):
    """Parses spans with their log records, and finds conversation and user in either."""

    dialects: Dialects
    identity: IdentityLookup

    def parse(self, span: Span, records: Sequence[LogRecord] = ()) -> Call | None:
        call = self.dialects.read(span, records)
        if call is None or not records:
            return call
        for record in records:
            conversation, user = self.identity.find(record.attributes)
            if conversation or user:
                return call._replace(conversation_id=call.conversation_id or conversation, user_id=call.user_id or user)
        return call


def read_spans(trace: CollectedTrace, tree: SpanTree, dialects: Dialects, identity: IdentityLookup) -> list[ParsedSpan]:
    """Read every span that a dialect knows, by start.

    Log records are read with the span that they name. The records of a streamed call may name its parent instead, since
    the call's context ended before its answer was complete: those go to the nearest call without an answer.
    """
    if not trace.records:
        return _with_kinds([ParsedSpan(span, call) for span in trace.spans if (call := dialects.read(span))], tree)
    parser = _SpanParser(dialects, identity)
    own_records = group_by(trace.records, lambda record: record.span_id)
    parsed_spans: dict[str, ParsedSpan] = {}
    stray_records: dict[str | None, list[LogRecord]] = {}
    for span in trace.spans:
        records = own_records.pop(span.span_id, [])
        call = _parse_with_own_records(span, records, parser, stray_records)
        if call is not None:
            parsed_spans[span.span_id] = ParsedSpan(span, call)
    stray_records.update(own_records)
    records_at = group_by(trace.records, lambda record: record.span_id)
    for span_id, records in stray_records.items():
        remaining = [
            record
            for record in _split_by_call(records)
            if not _add_to_unanswered_call(span_id, record, parsed_spans, tree, parser, records_at)
        ]
        if remaining:
            _add_to_named_span(span_id, [record for batch in remaining for record in batch], parsed_spans, tree, parser)
    ordered = sorted(parsed_spans.values(), key=lambda each: (each.span.start, each.span.end, each.span.span_id))
    return _with_kinds(ordered, tree)


_ANSWERS = frozenset({"model", "agent", "workflow", "chain"})
_PARTS = frozenset({"tool", "retrieval", "auxiliary", "other"})
"""Kinds of steps that may be part of a model's call."""


def _with_kinds(parsed_spans: list[ParsedSpan], tree: SpanTree) -> list[ParsedSpan]:
    """Give the spans the kinds that their content shows: calls that a chat program makes for itself answer no user."""
    lone: list[ParsedSpan] = []
    if any(_BASE in span.attributes for span, _ in parsed_spans):
        parsed_spans = _with_whole_inputs(parsed_spans)
    for index, (span, call) in enumerate(parsed_spans):
        if (call.input or call.system) and call.kind in _ANSWERS and find_task(call):
            parsed_spans[index] = ParsedSpan(span, call._replace(kind="auxiliary"))
        elif call.kind == "chain" and _may_be_call(parsed_spans[index]):
            lone.append(parsed_spans[index])
    return _with_lone_calls(parsed_spans, lone, tree) if lone else parsed_spans


_BASE = "lk.input.base_span_id"
"""LiveKit's name for the call whose input a call continues, where it records only what is new in each."""
_MOST_CONTINUED = 400
"""Messages of a continued input, at most: each call of a hostile trace would repeat them."""


def _with_whole_inputs(parsed_spans: Iterable[ParsedSpan]) -> list[ParsedSpan]:
    """The spans, by start, each with its whole input, or marked as one whose input begins in a call that is missing."""
    whole: dict[str, Call] = {}
    done: list[ParsedSpan] = []
    for parsed_span in parsed_spans:
        span, call = parsed_span
        base, dropped = whole.get(str(span.attributes.get(_BASE))), span.attributes.get("lk.input.dropped_from_base")
        before = base.input or () if base is not None else ()
        beginning = before[: max(len(before) - dropped, 0)] if isinstance(dropped, int) else ()
        is_known = len(before) > 0 and len(beginning) <= _MOST_CONTINUED
        if base is not None and is_known and all(message.role != "tool" for message in before[len(beginning) :]):
            call = call._replace(input=(*beginning, *(call.input or ())), system=call.system or base.system)
        elif _BASE in span.attributes:  # several results of tools may have been one message
            call = call._replace(input_begins_elsewhere=True)
        if not (call.input_begins_elsewhere or call.input_incomplete or span.dropped_attributes):
            whole[span.span_id] = call
        done.append(ParsedSpan(span, call))
    return done


def _with_lone_calls(parsed_spans: list[ParsedSpan], lone: list[ParsedSpan], tree: SpanTree) -> list[ParsedSpan]:
    """Take a step with a model and messages for a call of the model if it encloses nothing.

    Libraries give operations names of their own, and a step around others is only what a dialect does not know.
    """
    around = {
        span_id for span, call in parsed_spans if call.kind not in _PARTS for span_id in tree.ancestors(span.span_id)
    }
    calls = {span.span.span_id for span in lone if span.span.span_id not in around}
    return [
        span._replace(call=span.call._replace(kind="model")) if span.span.span_id in calls else span
        for span in parsed_spans
    ]


def _may_be_call(step: ParsedSpan) -> bool:
    span, call = step
    is_whole = not span.dropped_attributes  # else its kind may be lost
    return is_whole and bool(call.model and call.input and (call.output or call.error or call.output_incomplete))


def _parse_with_own_records(
    span: Span, records: list[LogRecord], parser: _SpanParser, stray_records: dict[str | None, list[LogRecord]]
) -> Call | None:
    """Parse a span with its records; only feedback belongs to a span that is not a model call."""
    if not records:
        return parser.parse(span)
    feedback = [record for record in records if record.event_name == _FEEDBACK]
    own_call = parser.parse(span, feedback)
    if len(feedback) == len(records):
        return own_call
    kinds = {record.kind for record in records}
    if own_call is not None and (own_call.kind == "model" or kinds <= parser.dialects.own_records):
        return parser.parse(span, records)
    stray_records[span.span_id] = [record for record in records if record.event_name != _FEEDBACK]
    return own_call


_CHOICE = "gen_ai.choice"
_ENDS = frozenset({_CHOICE, "gen_ai.content.completion", "gen_ai.client.inference.operation.details"})
"""Records that are the last of a call."""


def _split_by_call(records: Sequence[LogRecord]) -> list[list[LogRecord]]:
    """Split the records of several calls, in order of time, where one ends and the next one begins."""
    batches: list[list[LogRecord]] = []
    for record in records:
        if not batches or _ends_call(batches[-1][-1], record):
            batches.append([])
        batches[-1].append(record)
    return batches


def _ends_call(before: LogRecord, record: LogRecord) -> bool:
    """Whether a call ends between two records; several choices are one call."""
    if before.event_name not in _ENDS:
        return False
    if record.event_name != before.event_name or record.event_name != _CHOICE:
        return True
    last_body, body = as_dict(before.body), as_dict(record.body)
    return last_body.get("index") == body.get("index") and bool(last_body.get("finish_reason"))


def _add_to_unanswered_call(
    span_id: str | None,
    records: list[LogRecord],
    parsed_spans: dict[str, ParsedSpan],
    tree: SpanTree,
    parser: _SpanParser,
    records_at: dict[str | None, list[LogRecord]],
) -> bool:
    """Add the stray records of a call to the call without an answer; False if there is none."""
    target = _find_unanswered_call(span_id, records, parsed_spans.values(), tree)
    if target is not None:
        call = parser.parse(target.span, [*records_at.get(target.span.span_id, []), *records])
        if call is not None and call.output is not None:
            parsed_spans[target.span.span_id] = ParsedSpan(target.span, call)
            return True
    return False


def _add_to_named_span(
    span_id: str | None,
    records: Sequence[LogRecord],
    parsed_spans: dict[str, ParsedSpan],
    tree: SpanTree,
    parser: _SpanParser,
) -> None:
    """Add stray records to the span that they name, or else to a span made for them."""
    span = tree.spans.get(span_id or "") or _make_span(records)
    call = parser.parse(span, records)
    if call is not None:
        parsed_spans[span.span_id] = ParsedSpan(span, call)


def _find_unanswered_call(
    span_id: str | None, records: Sequence[LogRecord], parsed_spans: Iterable[ParsedSpan], tree: SpanTree
) -> ParsedSpan | None:
    """Find the model call without an answer that is nearest to records of this span id: by descent, then by time."""
    unanswered = [
        parsed_span
        for parsed_span in parsed_spans
        if parsed_span.call.kind == "model" and parsed_span.call.output is None and parsed_span.call.error is None
    ]
    if not unanswered:
        return None
    time = records[-1].time

    def distance(each: ParsedSpan) -> tuple[int, int, str]:
        ancestors = tree.ancestors(each.span.span_id)
        steps = ancestors.index(span_id) if span_id in ancestors else len(ancestors) + 1_000
        return steps, abs(time - each.span.end), each.span.span_id

    return min(unanswered, key=distance)


def _make_span(records: Sequence[LogRecord]) -> Span:
    """Make a span for records whose own has not arrived."""
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


_MOST = 600
"""A task names itself in this many first characters of a text."""
_LONGEST_TITLE = 160
_TASK = re.compile(r"\s{0,9}#{1,4} ?Task:?\s")
_BEFORE_TASK = 10
_HISTORY = re.compile(r"<chat_history>|#{1,4} ?Chat History")
_TITLE = re.compile(
    r"\b(?:generate|generating|creat\w{1,3}|write|provide|find|suggest)\b[^.\n]{0,80}\btitle\b"
    r"[^.\n]{0,80}\b(?:conversation|chat|exchange|discussion)",
    re.IGNORECASE,
)
_LIMIT = re.compile(r"\bwords?\b|\bcharacters\b|\bonly\b|nothing else|concise|\bshort\b|json", re.IGNORECASE)


def find_task(call: Call) -> str | None:
    """Name the task of a call that answers the program rather than its user; None if it answers the user."""
    question, system = "", call.system or ""
    for message in call.input or ():
        if message.role == "user":
            question = message.text
        elif message.role == "system":
            system = system or message.text
    if "#" in question[:_BEFORE_TASK] and _TASK.match(question) and _HISTORY.search(question):
        return "a task of the chat program"
    answer = call.output[-1].text.strip() if call.output else ""
    if len(answer) > _LONGEST_TITLE or "\n\n" in answer:
        return None
    is_possible = "itle" in question or "itle" in system  # most calls end here
    for text in (question[:_MOST], system[:_MOST]) if is_possible else ():
        if "itle" in text and _TITLE.search(text) and _LIMIT.search(text):
            return "a title of the conversation"
    return None
