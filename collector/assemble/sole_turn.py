"""The turn of a trace with one model call, found without reading what was said.

A trace of an application that asks a model once is much of the traffic. Its conversation and time stand in attributes
beside the messages; if no monitor wants the content, the rest of assembling would be for nothing. Pure; if anything is
in doubt there is no such turn, and the trace must be assembled.

Why one call below agents, workflows and chains is one turn, whatever its words are: such a span either takes over the
call's draft or leaves it (`enclosing_spans`). Beside the call an agent or a workflow may be a turn by itself, while a
chain never is.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from collector.assemble.collect_trace import UNREAD, CollectedTrace
from collector.assemble.identity import IdentityLookup, may_be_made_up
from collector.assemble.read_spans import SpanTree
from collector.assemble.turns import service_of, to_datetime
from collector.dialects.call import Kind
from collector.dialects.registry import Dialects
from collector.otlp.span import Span
from collector.records.noted_turns import NotedTurn
from evaluators.cases import Turn

_ENCLOSING: frozenset[Kind | None] = frozenset(("agent", "workflow"))
_HARMLESS: frozenset[Kind | None] = frozenset(("chain", "retrieval", "tool", "other", None))


class _SoleCall(NamedTuple):
    """The only model call of a trace: its span and dialect, the agents and workflows, and the dialects of all spans."""

    model: Span
    dialect: str
    enclosing: frozenset[str]
    dialects: Mapping[str, str]


def find_sole_turn(trace: CollectedTrace, dialects: Dialects, identity: IdentityLookup) -> NotedTurn | None:
    """Find the turn that assembling the trace would give, without its content; None if only assembling can tell.

    It has the conversation, the service and the model's span of the assembled turn, and the times of its call.
    """
    if trace.records:
        return None
    relevant = [span for span in trace.spans if span.evidence > 1]
    call = _find_sole_call(relevant, dialects)
    if call is None:
        return None
    if call.enclosing and not call.enclosing.issubset(SpanTree(trace.spans).ancestors(call.model.span_id)):
        return None
    conversations = _list_conversations(trace.spans, call.model, identity)
    if conversations is None:
        return None
    return _note(call, trace.spans, next(iter(conversations), ""))


def _find_sole_call(relevant: Sequence[Span], dialects: Dialects) -> _SoleCall | None:
    """Find the model's call among the spans with evidence of a dialect; None without exactly one, or in doubt."""
    model, model_dialect = None, ""
    enclosing: list[str] = []
    dialects_around: set[str] = set()
    by_span: dict[str, str] = {}
    for span in relevant:
        glanced = dialects.glance(span)
        if glanced is None:
            return None
        dialect, kind = glanced
        if kind == "model" and model is None:
            model, model_dialect = span, dialect
        elif kind in _ENCLOSING:
            enclosing.append(span.span_id)
            dialects_around.add(dialect)
        elif kind not in _HARMLESS:
            return None
        if kind is not None:
            by_span[span.span_id] = dialect
    if model is None or not dialects_around <= {model_dialect}:
        return None  # without an answer of the model the turn is of the dialect around it
    for span in relevant:
        if span.resource is not model.resource and span.resource != model.resource:
            return None
    return _SoleCall(model, model_dialect, frozenset(enclosing), by_span)


def _list_conversations(spans: Sequence[Span], model: Span, identity: IdentityLookup) -> frozenset[str] | None:
    """The conversation that the trace names, if any; None if it may name several, or one that may be made up."""
    if identity.configured is not None and identity.configured.find(model.resource)[0]:
        return None
    conversations: set[str] = set()
    for span in spans:
        conversation = identity.find(span.attributes)[0] if span.attributes else None
        if conversation:
            if may_be_made_up(conversation, span.scope):
                return None
            conversations.add(conversation)
    if len(conversations) > 1:
        return None
    in_resource = None if conversations else identity.find(model.resource)[0]
    if identity.set_aside is not None and not (conversations or in_resource):
        return None
    return frozenset(conversations or ({in_resource} if in_resource else ()))


def _note(call: _SoleCall, spans: Sequence[Span], conversation: str) -> NotedTurn:
    model, dialects = call.model, call.dialects
    return NotedTurn(
        model.trace_id,
        model.span_id,
        call.dialect,
        {span.span_id: dialects.get(span.span_id, UNREAD) for span in spans},
        conversation,
        service_of(model),
        model.start,
        model.end,
        model.trace_state,
    )


def unread_turn_id(trace_id: str, span_id: str) -> str:
    """The id of the turn of a model's span that nobody reads."""
    return hashlib.sha256(f"{trace_id}\x1f{span_id}\x1funwanted".encode()).hexdigest()[:32]


def make_unread_turn(
    *,
    trace_id: str,
    span_id: str,
    conversation_id: str | None,
    service: str | None,
    dialect: str,
    times: tuple[int, int],
    trace_state: str,
) -> Turn:
    """The turn of a model's span that nobody reads; `times` are its start and end in nanoseconds since the epoch."""
    return Turn(
        turn_id=unread_turn_id(trace_id, span_id),
        conversation_id=conversation_id,
        trace_id=trace_id,
        span_id=span_id,
        service=service,
        dialect=dialect,
        started_at=to_datetime(times[0]),
        ended_at=to_datetime(times[1]),
        incomplete="unwanted",
        trace_state=trace_state or None,
    )
