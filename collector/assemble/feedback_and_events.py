"""Feedback and application events, each attached to the turn that it is about."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from collector.assemble.collect_trace import ApplicationEvent
from collector.assemble.read_spans import ParsedSpan
from collector.assemble.tree import SpanTree
from collector.assemble.turns import AssembledTurn
from collector.records.feedback import FeedbackEntry, cut, digest_of, stated
from collector.records.ready_made import LONGEST_ID
from evaluators.cases import Feedback
from evaluators.records import to_dict

_MOST_AROUND = 20
"""Spans around the one that carries feedback which it may be about."""
_MAX_EVENTS = 16
"""Event names of a turn: the latest, since the event that ends a conversation comes last."""


class _NearestTurn:
    """Finds the turn that a span is part of, else one around or beside it, else the last. There must be a turn."""

    def __init__(self, turns: Sequence[AssembledTurn], tree: SpanTree) -> None:
        self._tree = tree
        self._last = len(turns) - 1
        self._by_span: dict[str, int] = {}
        for index, turn in enumerate(turns):
            self._by_span.update(dict.fromkeys((*turn.spans, *tree.ancestors(turn.turn.span_id or "")), index))

    def find(self, span_id: str) -> int:
        """The turn's index: of the nearest span that is part of a turn or around one; of several turns the last."""
        for each in (span_id, *self._tree.ancestors(span_id)):
            if each in self._by_span:
                return self._by_span[each]
        return self._last


@dataclass(frozen=True, slots=True)
class TraceFeedback:
    """Feedback that a span of a trace carries, by whatever time it came.

    `turn_id` is the turn that has it, None if no turn of the trace was there. It is about the turn with this
    `response_id`, in whichever trace, or else about that of one of the `spans`: that of the turn, or else its own and
    those around it.
    """

    feedback: Feedback
    trace_id: str
    span_id: str
    turn_id: str | None = None
    response_id: str | None = None
    spans: tuple[str, ...] = ()


def add_feedback(
    turns: Sequence[AssembledTurn], parsed_spans: Sequence[ParsedSpan], tree: SpanTree
) -> tuple[list[AssembledTurn], tuple[TraceFeedback, ...]]:
    """Add feedback to the turn that it names: by response id, else by the span that carries it; and list it."""
    result, listed = list(turns), list[TraceFeedback]()
    with_feedback = [parsed_span for parsed_span in parsed_spans if parsed_span.call.feedback]
    if not with_feedback:
        return result, ()
    nearest = _NearestTurn(result, tree) if result else None
    for span, call in with_feedback:
        index = _find_by_response(result, call.feedback_for)
        if index is None and nearest is not None:
            index = nearest.find(span.span_id)
        turn_id, spans = None, (span.span_id, *tree.ancestors(span.span_id)[:_MOST_AROUND])
        if index is not None:
            turn = result[index].turn
            turn_id, spans = turn.turn_id, (turn.span_id or span.span_id,)
            new = tuple(feedback for feedback in call.feedback if feedback not in turn.feedback)
            result[index] = result[index]._replace(turn=replace(turn, feedback=(*turn.feedback, *new)))
        listed += (
            TraceFeedback(feedback, span.trace_id, span.span_id, turn_id, call.feedback_for, spans)
            for feedback in call.feedback
        )
    return result, tuple(listed)


def entry_of(listed: TraceFeedback, tenant: str) -> FeedbackEntry | None:
    """The entry for the labels log, the same however often the trace is read; None if nothing is said.

    `tenant` is the sender's, "" without a name.
    """
    entry = stated(listed.feedback, tenant)
    if entry is None:
        return None
    entry = replace(entry, trace_id=listed.trace_id)
    digest = digest_of(tenant, {**to_dict(entry), "span_id": listed.span_id})
    return replace(entry, feedback_id=digest, response_id=cut(listed.response_id, LONGEST_ID), spans=listed.spans)


def _find_by_response(turns: Sequence[AssembledTurn], response_id: str | None) -> int | None:
    if response_id is None:
        return None
    return next((index for index, turn in enumerate(turns) if turn.turn.response_id == response_id), None)


def add_events(
    turns: Sequence[AssembledTurn], events: Sequence[ApplicationEvent], tree: SpanTree
) -> list[AssembledTurn]:
    """Add the names of the application's events, given in order of time, to the turns during which they happened.

    A monitor may take such an event as the end of a conversation.
    """
    result = list(turns)
    if not result or not events:
        return result
    nearest = _NearestTurn(result, tree)
    names: dict[int, dict[str, None]] = {}
    for event in events:
        turn_names = names.setdefault(nearest.find(event.span_id), {})
        turn_names.pop(event.name, None)  # move a repeated name to the end
        turn_names[event.name] = None
    for index, turn_names in names.items():
        result[index] = _with_events(result[index], turn_names)
    return result


def _with_events(turn: AssembledTurn, names: Iterable[str]) -> AssembledTurn:
    return turn._replace(turn=replace(turn.turn, events=tuple(names)[-_MAX_EVENTS:]))
