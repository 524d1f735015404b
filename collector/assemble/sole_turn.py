"""The turn of a trace with one model call, found without reading what was said.

A trace of an application that asks a model once is much of the traffic. Its conversation and time stand in attributes
beside the messages; if no monitor wants the content, the rest of assembling would be for nothing. Pure; if anything is
in doubt there is no such turn, and the trace must be assembled.

Why one call below agents, workflows and chains is one turn, whatever its words are: such a span either takes over the
call's draft or leaves it (`enclosing_spans`). Beside the call an agent or a workflow may be a turn by itself, while a
chain never is.
"""

from collections.abc import Sequence

from collector.assemble.collect_trace import UNREAD, CollectedTrace
from collector.assemble.identity import IdentityLookup, may_be_made_up
from collector.assemble.read_spans import SpanTree
from collector.assemble.turns import service_name
from collector.dialects.call import Kind
from collector.dialects.registry import Dialects
from collector.otlp.span import Span
from collector.records.noted_turns import NotedTurn

_ENCLOSING: frozenset[Kind | None] = frozenset(("agent", "workflow"))
_HARMLESS: frozenset[Kind | None] = frozenset(("chain", "retrieval", "tool", "other", None))


def find_sole_turn(trace: CollectedTrace, dialects: Dialects, identity: IdentityLookup) -> NotedTurn | None:
    """Find the turn that assembling the trace would give, without its content; None if only assembling can tell.

    It has the conversation, the service and the model's span of the assembled turn, and the times of its call.
    """
    call = None if trace.records else _find_sole_call([span for span in trace.spans if span.evidence > 1], dialects)
    if call is None:
        return None
    model, enclosing, read_by = call
    if enclosing and not enclosing.issubset(SpanTree(trace.spans).ancestors(model.span_id)):
        return None
    conversation = _find_conversation(trace.spans, model, identity)
    if conversation is None:
        return None
    return NotedTurn(
        model.trace_id,
        model.span_id,
        read_by[model.span_id],
        {span.span_id: read_by.get(span.span_id, UNREAD) for span in trace.spans},
        conversation,
        service_name(model.resource),
        model.start,
        model.end,
        model.trace_state,
    )


def _find_sole_call(relevant: Sequence[Span], dialects: Dialects) -> tuple[Span, set[str], dict[str, str]] | None:
    """Find the model's call among the spans with evidence of a dialect; None without exactly one, or in doubt.

    Its span, the ids of the agents and workflows, and the dialect of each span that one reads.
    """
    model: Span | None = None
    enclosing: set[str] = set()
    read_by: dict[str, str] = {}
    for span in relevant:
        glanced = dialects.glance(span)
        if glanced is None:
            return None
        dialect, kind = glanced
        if kind == "model" and model is None:
            model = span
        elif kind in _ENCLOSING:
            enclosing.add(span.span_id)
        elif kind not in _HARMLESS:
            return None
        if kind is not None:
            read_by[span.span_id] = dialect
    if model is None or any(read_by[span_id] != read_by[model.span_id] for span_id in enclosing):
        return None  # without an answer of the model, the turn belongs to the enclosing span's dialect
    if any(span.resource is not model.resource and span.resource != model.resource for span in relevant):
        return None
    return model, enclosing, read_by


def _find_conversation(spans: Sequence[Span], model: Span, identity: IdentityLookup) -> str | None:
    """The conversation that the trace names, "" for none; None if it may name several, or one that may be made up."""
    if identity.configured is not None and identity.configured.find(model.resource)[0]:
        return None
    named = ""
    for span in spans:
        conversation = identity.find(span.attributes)[0] if span.attributes else None
        if conversation:
            if may_be_made_up(conversation, span.scope) or (named and named != conversation):
                return None
            named = conversation
    named = named or identity.find(model.resource)[0] or ""
    return None if identity.set_aside is not None and not named else named
