"""Which events of the application's own happened during a turn: by them it may say that a conversation is over."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from collector.assemble.gather import Noted
from collector.assemble.nearest import Nearest
from collector.assemble.tree import Tree
from collector.assemble.turns import Assembled

_MOST = 16
"""Names kept with a turn: the latest, for what ends a conversation comes last."""


def with_events(turns: Sequence[Assembled], noted: Sequence[Noted], tree: Tree) -> list[Assembled]:
    """Put the names of events, given by time, with the turns they happened in."""
    done = list(turns)
    if not done or not noted:
        return done
    nearest = Nearest(done, tree)
    names: dict[int, dict[str, None]] = {}
    for each in noted:
        here = names.setdefault(nearest.index(each.span_id), {})
        here.pop(each.name, None)  # the latest of a name counts
        here[each.name] = None
    for index, found in names.items():
        done[index] = _with(done[index], found)
    return done


def _with(each: Assembled, names: Iterable[str]) -> Assembled:
    return replace(each, turn=replace(each.turn, events=tuple(names)[-_MOST:]))
