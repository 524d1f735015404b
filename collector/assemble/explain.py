"""Explanations of how a trace was read: every span's dialect and sources, and its turn or the reason for none."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from collector.assemble.collect_trace import TracePiece, collect_trace
from collector.assemble.identity import IdentityLookup
from collector.assemble.read_spans import ParsedSpan, SpanTree, find_task
from collector.assemble.trace import Assembler, TraceAnalysis
from collector.assemble.turns import AssembledTurn
from collector.dialects.call import Call, Kind, find_conflicts
from collector.errors import BadInput
from collector.link.conversation_linker import is_pointer
from collector.otlp.span import Span
from collector.records.attributes import attributes_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedSpan:
    """How one span was read. `dialect` and `kind` are None if no dialect reads it.

    `sources` are the attributes of every field, `empty_sources` those without any message or passage. `identifies`
    names the ids (conversation, user) of a span that no dialect reads. `incomplete` says what content is missing.
    """

    span_id: str
    name: str
    scope: str
    dialect: str | None = None
    kind: str | None = None
    sources: Mapping[str, str] = field(default_factory=dict[str, str])
    empty_sources: Sequence[str] = ()
    identifies: Sequence[str] = ()
    incomplete: Sequence[str] = ()
    contradictions: Sequence[str] = ()
    outcome: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedTurn:
    """A turn of the trace. `incomplete` says why it cannot be judged; `attributes` have their sources.

    `truncated_fields` may be cut. `other_conversations` are attributes around it that name another conversation, with
    its id.
    """

    turn_id: str
    span_id: str | None
    conversation_id: str | None
    failed: bool
    incomplete: str | None
    truncated_fields: Sequence[str]
    attributes: Mapping[str, str]
    other_conversations: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedTrace:
    """How a trace was read, without judged text.

    `unreadable` has the errors of invalid pieces, `events` the names of its log records, `suspected_cuts` the grounds
    for which texts are taken to be cut.
    """

    trace_id: str
    unreadable: Sequence[str]
    spans: Sequence[ExplainedSpan]
    records: int
    events: Sequence[str]
    suspected_cuts: Sequence[str] = ()
    turns: Sequence[ExplainedTurn]


def explain(trace_id: str, pieces: Iterable[TracePiece], assembler: Assembler) -> ExplainedTrace:
    """Explain how a trace is read; without spans, nothing in it concerns a model."""
    bad: list[BadInput] = []
    trace = collect_trace(pieces, assembler.dialects, assembler.identity, bad.append, assembler.names)
    unreadable = [str(error) for error in bad]
    if trace is None:
        return ExplainedTrace(trace_id=trace_id, unreadable=unreadable, spans=(), records=0, events=(), turns=())
    analysis = assembler.analyze(trace)
    by_id = {parsed_span.span.span_id: parsed_span for parsed_span in analysis.parsed_spans}
    return ExplainedTrace(
        trace_id=trace_id,
        unreadable=unreadable,
        spans=[_explain_span(span, by_id.get(span.span_id), analysis, assembler) for span in trace.spans],
        records=len(trace.records),
        events=sorted({record.event_name for record in trace.records}),
        suspected_cuts=analysis.losses.grounds,
        turns=[_explain_turn(turn, analysis.tree, assembler.identity) for turn in analysis.assembly.turns],
    )


def format_lines(trace: ExplainedTrace) -> Iterator[str]:
    """Format an explained trace as lines of text."""
    yield f"trace {trace.trace_id}"
    yield from (f"  invalid piece: {error}" for error in trace.unreadable)
    if not trace.spans and not trace.records:
        yield "  no span or log record concerns a model"
        return
    for span in trace.spans:
        yield from _format_span(span)
    if trace.records:
        yield f"  {trace.records} log records: {', '.join(trace.events)}"
    yield from (f"  probably cut by a limit: {ground}" for ground in trace.suspected_cuts)
    for turn in trace.turns:
        outcome = _FAILED if turn.failed else (f"incomplete, {turn.incomplete}" if turn.incomplete else "complete")
        conversation = turn.conversation_id or "its trace (or name its attribute: assemble.identity.conversation)"
        if turn.truncated_fields:
            outcome += f"; {', '.join(turn.truncated_fields)} may be cut"
        if is_pointer(turn.conversation_id):
            outcome += '; its conversation is the response before, which assemble.link: {services: ["*"]} follows'
        yield f"  turn {turn.turn_id} of span {turn.span_id}, conversation {conversation}: {outcome}"
        for key, other in turn.other_conversations.items():
            yield f"    {key} says conversation {other}; to use it: assemble.identity.conversation: [{key}]"
        yield from (f"    {name} from {origin}" for name, origin in turn.attributes.items())


_FAILED = "failed: its model span ended with an error, so the turn has no answer"


def _format_span(span: ExplainedSpan) -> Iterator[str]:
    yield f"  span {span.span_id} {span.name!r}, scope {span.scope!r}"
    if span.dialect is None:
        ids = f"; it has the id of the {' and the '.join(span.identifies)}" if span.identifies else ""
        yield f"    not read by any dialect{ids}"
        return
    sources = ", ".join(f"{field} from {source}" for field, source in span.sources.items())
    empty = f"; nothing to read in {', '.join(span.empty_sources)}" if span.empty_sources else ""
    yield f"    read by {span.dialect} as {span.kind}: {sources or 'no content'}{empty}"
    yield from (f"    {reason}" for reason in span.incomplete)
    if span.contradictions:
        yield f"    dialects disagree on {', '.join(span.contradictions)}; the most specific one wins"
    yield f"    {span.outcome}"


def _explain_turn(assembled: AssembledTurn, tree: SpanTree, identity: IdentityLookup) -> ExplainedTurn:
    turn = assembled.turn
    own = tree.spans.get(turn.span_id or "")
    spans = [own, *(tree.spans.get(ancestor) for ancestor in tree.ancestors(own.span_id))] if own else []
    return ExplainedTurn(
        turn_id=turn.turn_id,
        span_id=turn.span_id,
        conversation_id=turn.conversation_id,
        failed=turn.error is not None,
        incomplete=turn.incomplete,
        truncated_fields=[name for name in str(turn.attributes.get("truncated_fields", "")).split(",") if name],
        attributes=dict(_explain_attributes(assembled, tree)),
        other_conversations={
            key: value
            for span in reversed(spans)
            if span is not None
            for key, value in identity.list_conversations(span.attributes)
            if value != turn.conversation_id
        },
    )


_OF_RESOURCE = {
    "service": ("service.name",),
    "service_version": ("service.version",),
    "environment": ("deployment.environment.name", "deployment.environment"),
}


_OF_TURN = {
    "language": "the user's words",
    "tools": "the tools that were called",
    "dialect": "the attributes of the span",
}


def _explain_attributes(assembled: AssembledTurn, tree: SpanTree) -> Iterator[tuple[str, str]]:
    """The attributes that the turn's evaluations will have, each with the place that it came from."""
    turn = assembled.turn
    span = tree.spans.get(turn.span_id or "")
    for name in attributes_of(turn, assembled.declared):
        declared = assembled.declared.get(name)
        if declared is not None:
            place = f"span {declared.span_id}" if declared.span_id else "the resource"
            yield name, f"{declared.key} of {place}"
        elif name in _OF_RESOURCE:
            keys = _OF_RESOURCE[name]
            key = next((key for key in keys if span is not None and key in span.resource), keys[0])
            yield name, f"{key} of the resource"
        else:
            yield name, _OF_TURN.get(name, f"span {turn.span_id}, as read by {turn.dialect}")


_WITHOUT_MESSAGES = frozenset({"tool", "retrieval", "other"})
"""Kinds whose inputs and outputs are not messages."""


def _explain_span(
    span: Span, parsed_span: ParsedSpan | None, analysis: TraceAnalysis, assembler: Assembler
) -> ExplainedSpan:
    explained = partial(ExplainedSpan, span_id=span.span_id, name=span.name, scope=span.scope)
    if parsed_span is None:
        ids = zip(("conversation", "user"), assembler.identity.find(span.attributes), strict=True)
        named = [name for name, value in ids if value]
        return explained(identifies=named, outcome="no turn: not read by any dialect")
    call = parsed_span.call
    messages = {"input": call.input, "output": call.output, "passages": call.passages or None}
    sources = sorted(call.sources.items())
    fields = {"passages"} if call.kind in _WITHOUT_MESSAGES else messages.keys()
    return explained(
        dialect=call.dialect,
        kind=call.kind,
        sources={field: source for field, source in sources if messages.get(field, ()) is not None},
        empty_sources=[source for field, source in sources if field in fields and messages[field] is None],
        incomplete=_list_incomplete(parsed_span),
        contradictions=sorted(find_conflicts(assembler.dialects.read_each(span, ()))),
        outcome=_describe_outcome(parsed_span, analysis),
    )


def _list_incomplete(parsed_span: ParsedSpan) -> Sequence[str]:
    call = parsed_span.call
    sides = {"input": call.input_incomplete, "output": call.output_incomplete}
    reasons = [f"{side} is incomplete: {reason}" for side, reason in sides.items() if reason]
    if parsed_span.span.dropped_attributes:
        reasons.append(f"{parsed_span.span.dropped_attributes} attributes dropped by the sender")
    if _may_hold_thoughts(parsed_span):
        reasons.append(
            "its usage counts thoughts, none is marked, and its answer has several texts: some may be thoughts"
        )
    return reasons


_TEXT_PART = re.compile(r'"type":\s{0,4}"text"')
_THOUGHT = re.compile(r'"(?:type|thought)":\s{0,4}(?:true|"(?:reasoning|thinking|thought))')


def _may_hold_thoughts(parsed_span: ParsedSpan) -> bool:
    """Whether thoughts may be among the texts of an answer: Google's ADK writes streamed ones as plain text."""
    attributes, call = parsed_span.span.attributes, parsed_span.call
    written = attributes.get(call.sources.get("output", ""))
    if not isinstance(written, str) or len(call.output or ()) != 1 or len(_TEXT_PART.findall(written)) <= 1:
        return False
    thoughts = (value for key, value in attributes.items() if "usage" in key and "reasoning" in key)
    return any(isinstance(value, int) and value > 0 for value in thoughts) and not _THOUGHT.search(written)


def _describe_outcome(parsed_span: ParsedSpan, analysis: TraceAnalysis) -> str:
    span = parsed_span.span
    for turn in analysis.assembly.turns:
        if turn.turn.span_id == span.span_id:
            run = f", the run of an agent in turn {turn.turn.agent_run_of}" if turn.turn.agent_run_of else ""
            return f"becomes turn {turn.turn.turn_id}{run}"
        if span.span_id in turn.spans:
            return f"is part of turn {turn.turn.turn_id}"
    call = next((model_call for model_call in analysis.calls if span.span_id in model_call.span_ids), None)
    if call is None:
        task = find_task(parsed_span.call)
        if task is not None:
            return f"no turn: it makes {task}"
        encloses = any(span.span_id in analysis.tree.ancestors(other.span.span_id) for other in analysis.parsed_spans)
        return f"no turn: {_describe_omission(parsed_span.call, encloses=encloses)}"
    if call.span.span_id != span.span_id and parsed_span.call.output is None:
        return f"no turn: it is part of the call of span {call.span.span_id}"
    if call.is_step:
        return "no turn: it requests a tool, and no answer follows in this trace"
    return "no turn: its answer was a step towards another answer"


_OMISSIONS: dict[Kind, str] = {
    "tool": "tool results are part of the turn that called the tool",
    "retrieval": "documents are part of the turn that they were retrieved for",
    "auxiliary": "guardrails, evaluators and rerankers do not answer the user",
    "other": "embeddings, templates and the like have nothing to judge",
}


def _describe_omission(call: Call, *, encloses: bool) -> str:
    if call.kind == "model":
        beside = "encloses other spans, and shows no answer beside theirs"
        return f"it {beside if encloses else 'shows no answer: no text, token count, finish reason or error'}"
    if call.kind in _OMISSIONS:
        return _OMISSIONS[call.kind]
    missing = [side for side, messages in (("question", call.input), ("answer", call.output)) if messages is None]
    if missing:
        return f"it {'encloses other spans and ' if encloses else ''}has no {' and no '.join(missing)} of its own"
    if encloses:
        return "it encloses other spans, and no model call inside confirms its answer"
    return "it is a step by its kind, names no model, and encloses no call of one"
