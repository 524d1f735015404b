"""Records on their way from an append to one consumer of the same process, which need not be read back."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from collector.logs.log import StoredRecord


class FreshRecords:
    """The newest records of one partition, without a gap, as far as they were appended here and fit.

    What does not fit is forgotten: it is in the log, and whoever is that far behind reads it there.
    """

    def __init__(self, batch_records: int, batch_bytes: int) -> None:
        """A batch is as large as one that is read; two of them fit, by the bytes of values and keys."""
        self._records: deque[StoredRecord] = deque()
        self._batch_records = batch_records
        self._batch_bytes = batch_bytes
        self._bytes = 0

    @property
    def start(self) -> int | None:
        """The offset of the oldest; None if there is none."""
        return self._records[0].offset if self._records else None

    def add(self, records: Sequence[StoredRecord]) -> None:
        """Take what was appended; behind a gap (another process has appended, too) only what comes after it is kept."""
        if self._records and records and records[0].offset != self._records[-1].offset + 1:
            self._forget()
        self._records.extend(records)
        self._bytes += sum(map(_size, records))
        if self._bytes > 2 * self._batch_bytes:
            self._forget()

    def take_batch(self, offset: int) -> list[StoredRecord]:
        """Those from an offset on, as many as make a batch; none if the first is not here. Older ones are forgotten."""
        while self._records and self._records[0].offset < offset:
            self._pop()
        batch: list[StoredRecord] = []
        size = 0
        if self.start == offset:
            while self._records and len(batch) < self._batch_records and size < self._batch_bytes:
                batch.append(self._pop())
                size += len(batch[-1].value)
        return batch

    def _pop(self) -> StoredRecord:
        record = self._records.popleft()
        self._bytes -= _size(record)
        return record

    def _forget(self) -> None:
        self._records.clear()
        self._bytes = 0


def _size(record: StoredRecord) -> int:
    return len(record.value) + len(record.key or b"")
