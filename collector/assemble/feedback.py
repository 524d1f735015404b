"""Which turn a user's feedback is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from collector.assemble.nearest import Nearest
from collector.assemble.reading import Read
from collector.assemble.tree import Tree
from collector.assemble.turns import Assembled


def with_feedback(turns: Sequence[Assembled], reads: Sequence[Read], tree: Tree) -> list[Assembled]:
    """Put feedback with the turn it names: by response id, by its span, or by what is around or below that span."""
    done = list(turns)
    told = [read for read in reads if read.call.feedback]
    if not done or not told:
        return done
    nearest = Nearest(done, tree)
    for read in told:
        index = _named(done, read.call.feedback_for)
        index = nearest.index(read.span.span_id) if index is None else index
        turn = done[index].turn
        news = tuple(each for each in read.call.feedback if each not in turn.feedback)
        done[index] = replace(done[index], turn=replace(turn, feedback=(*turn.feedback, *news)))
    return done


def _named(turns: Sequence[Assembled], response: str | None) -> int | None:
    if response is None:
        return None
    return next((index for index, each in enumerate(turns) if each.turn.response_id == response), None)
