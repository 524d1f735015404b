"""A fold of the evaluations log whose state depends only on the last `memory` seconds of the log."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence

from collector.errors import BadInput
from collector.logs.log import StoredRecord, UntimedFold
from collector.records.epochs import RecentIds
from collector.records.json import evaluation_from_json
from evaluators.results import Evaluation

OFFSET_EVERY = 3600.0
"""Seconds between two remembered offsets; the memory begins at one of them."""


class MemoryFold(UntimedFold, ABC):
    """The fold of one partition. A restart reads the last `memory` seconds of the log again."""

    def __init__(self, memory: float) -> None:
        self._memory = memory
        self._offsets: deque[tuple[float, int]] = deque()
        self._seen = RecentIds()

    @property
    def low_watermark(self) -> int | None:
        """The oldest evaluation within the memory, to the hour."""
        return self._offsets[0][1] if self._offsets else None

    async def replay(self, records: Sequence[StoredRecord]) -> None:
        """Read the memory back."""
        await self.deliver(records)

    async def deliver(self, records: Sequence[StoredRecord]) -> None:
        """Take the evaluations; the exporters count unreadable records."""
        for record in records:
            self._remember_offset(record)
            if record.headers:  # a tick, a label, or a control record
                continue
            try:
                evaluation = evaluation_from_json(record.value)
            except BadInput:
                continue
            self.take(evaluation, record.timestamp)

    @abstractmethod
    def take(self, evaluation: Evaluation, time: float) -> None:
        """Take an evaluation that the log received at `time` (s since the epoch); it may come twice."""

    def _remember_offset(self, record: StoredRecord) -> None:
        if not self._offsets or record.timestamp - self._offsets[-1][0] >= OFFSET_EVERY:
            self._offsets.append((record.timestamp, record.offset))
        while len(self._offsets) > 1 and self._offsets[1][0] < record.timestamp - self._memory:
            self._offsets.popleft()
