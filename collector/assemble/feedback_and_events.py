"""Feedback and application events, each attached to the turn that it is about."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from collector.assemble.collect_trace import ApplicationEvent
from collector.assemble.read_spans import ParsedSpan
from collector.assemble.tree import SpanTree
from collector.assemble.turns import AssembledTurn

_MAX_EVENTS = 16
"""Event names of a turn: the latest, since the event that ends a conversation comes last."""


class _NearestTurn:
    """Finds the turn that a span is part of, else one around or beside it, else the last. There must be a turn."""

    def __init__(self, turns: Sequence[AssembledTurn], tree: SpanTree) -> None:
        self._tree = tree
        self._last = len(turns) - 1
        self._by_span: dict[str, int] = {}
        for index, each in enumerate(turns):
            self._by_span.update(dict.fromkeys((*each.spans, *tree.ancestors(each.turn.span_id or "")), index))

    def find(self, span_id: str) -> int:
        """The turn's index: of the nearest span that is part of a turn or around one; of several turns the last."""
        for each in (span_id, *self._tree.ancestors(span_id)):
            if each in self._by_span:
                return self._by_span[each]
        return self._last


def add_feedback(
    turns: Sequence[AssembledTurn], parsed_spans: Sequence[ParsedSpan], tree: SpanTree
) -> list[AssembledTurn]:
    """Add feedback to the turn that it names: by response id, else by the span that carries it."""
    result = list(turns)
    with_feedback = [each for each in parsed_spans if each.call.feedback]
    if not result or not with_feedback:
        return result
    nearest = _NearestTurn(result, tree)
    for span, call in with_feedback:
        index = _find_by_response(result, call.feedback_for)
        index = nearest.find(span.span_id) if index is None else index
        turn = result[index].turn
        new = tuple(each for each in call.feedback if each not in turn.feedback)
        result[index] = replace(result[index], turn=replace(turn, feedback=(*turn.feedback, *new)))
    return result


def _find_by_response(turns: Sequence[AssembledTurn], response_id: str | None) -> int | None:
    if response_id is None:
        return None
    return next((index for index, each in enumerate(turns) if each.turn.response_id == response_id), None)


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
    return replace(turn, turn=replace(turn.turn, events=tuple(names)[-_MAX_EVENTS:]))
