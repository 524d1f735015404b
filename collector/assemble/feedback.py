"""Which turn a user's feedback is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from collector.assemble.reading import Read
from collector.assemble.tree import Tree
from collector.assemble.turns import Assembled


def with_feedback(turns: Sequence[Assembled], reads: Sequence[Read], tree: Tree) -> list[Assembled]:
    """Put feedback with the turn it names: by response id, by its span, or by what is around or below that span."""
    done = list(turns)
    for read in reads:
        if read.call.feedback and done:
            index = _target(done, read, tree)
            turn = done[index].turn
            news = tuple(each for each in read.call.feedback if each not in turn.feedback)
            done[index] = replace(done[index], turn=replace(turn, feedback=(*turn.feedback, *news)))
    return done


def _target(turns: Sequence[Assembled], read: Read, tree: Tree) -> int:
    response = read.call.feedback_for
    for index, each in enumerate(turns):
        if response is not None and each.turn.response_id == response:
            return index
    named = (read.span.span_id, *tree.line(read.span.span_id))
    for span_id in named:
        inside = [index for index, each in enumerate(turns) if _touches(each, span_id, tree)]
        if inside:
            return inside[-1]
    return len(turns) - 1


def _touches(each: Assembled, span_id: str, tree: Tree) -> bool:
    """Whether a span is one of the turn's, or around it."""
    return span_id in each.spans or span_id in tree.line(each.turn.span_id or "")
