"""Records that nothing needs any more, but which a replay must not begin behind yet.

A replay that begins within a conversation sees only a part of its turns, and would close it as another conversation.
What such a replay gives rise to below the position `emitted` is left out, as done. So a conversation's oldest record is
held until `emitted` lies behind the position at which the conversation was forgotten or carried.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable

from collector.evaluate.marks import Mark


class Holds:
    """Marks, each held until everything up to a position is done."""

    def __init__(self) -> None:
        self._until: deque[tuple[int, Mark]] = deque()
        self._marks: list[Mark] = []
        self._released: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._until)

    def add(self, marks: Iterable[Mark], until: int) -> None:
        """Hold marks until all that records up to and with `until` gave rise to is done; it never falls."""
        for mark in marks:
            self._until.append((until, mark))
            heapq.heappush(self._marks, mark)

    def release(self, emitted: int) -> None:
        """All that records below `emitted` gave rise to is done."""
        while self._until and self._until[0][0] < emitted:
            _, mark = self._until.popleft()
            self._released[mark.position] = self._released.get(mark.position, 0) + 1

    @property
    def low_watermark(self) -> Mark | None:
        """The oldest mark that is held."""
        while self._marks and (released := self._released.get(self._marks[0].position, 0)):
            position = heapq.heappop(self._marks).position
            if released == 1:
                del self._released[position]
            else:
                self._released[position] = released - 1
        return self._marks[0] if self._marks else None
