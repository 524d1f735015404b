"""Which turn something is about that was said at a span."""

from __future__ import annotations

from collections.abc import Sequence

from collector.assemble.tree import Tree
from collector.assemble.turns import Assembled


class Nearest:
    """Finds the turn a span is part of, else one around or beside it, else the last. There must be a turn."""

    def __init__(self, turns: Sequence[Assembled], tree: Tree) -> None:
        self._tree = tree
        self._last = len(turns) - 1
        self._at: dict[str, int] = {}
        for index, each in enumerate(turns):
            self._at.update(dict.fromkeys((*each.spans, *tree.line(each.turn.span_id or "")), index))

    def index(self, span_id: str) -> int:
        """Where the turn stands: of the nearest span that is part of a turn, or around one; of several the last."""
        for each in (span_id, *self._tree.line(span_id)):
            if each in self._at:
                return self._at[each]
        return self._last
