"""Offsets retained so that recovery never starts in the middle of a conversation.

A replay that begins within a conversation sees only a part of its turns, and would close it as another conversation.
The jobs of such a replay below the offset `done_below` are skipped, as done. So the oldest offset of a conversation is
retained until `done_below` lies behind the record at which the conversation was removed or snapshotted.
"""
# Why not release it with the conversation: a job of an earlier record may still be pending, and `done_below` then lies
# before the conversation's end. A replay from its middle would make a job for a part of its turns, which has another
# id: the conversation would be judged twice.

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable

from collector.evaluate.recovery.replay_point import ReplayPoint


class RetainedOffsets:
    """Replay points, each retained until everything up to an offset is done."""

    def __init__(self) -> None:
        self._until: deque[tuple[int, ReplayPoint]] = deque()
        self._points: list[ReplayPoint] = []
        self._released: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._until)

    def retain(self, points: Iterable[ReplayPoint], until: int) -> None:
        """Retain points until all jobs of records up to and with `until` are done; `until` never falls."""
        for point in points:
            self._until.append((until, point))
            heapq.heappush(self._points, point)

    def release(self, done_below: int) -> None:
        """All jobs of records below `done_below` are done."""
        while self._until and self._until[0][0] < done_below:
            _, point = self._until.popleft()
            self._released[point.offset] = self._released.get(point.offset, 0) + 1

    @property
    def low_watermark(self) -> ReplayPoint | None:
        """The oldest point that is retained."""
        while self._points and (released := self._released.get(self._points[0].offset, 0)):
            offset = heapq.heappop(self._points).offset
            if released == 1:
                del self._released[offset]
            else:
                self._released[offset] = released - 1
        return self._points[0] if self._points else None
