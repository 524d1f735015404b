"""Records on their way from an append to one consumer of the same process, which need not be read back."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from collector.logs.log import StoredRecord


class FreshRecords:
    """The newest records of one partition, as far as they were appended here and fit.

    There are gaps between them where another process has appended, too. Records that do not fit are forgotten: they are
    in the log, and a reader that is that far behind reads them there.
    """

    def __init__(self, batch_records: int, batch_bytes: int) -> None:
        """A batch is as large as one that is read; two of them fit, by the bytes of values and keys."""
        self._records: deque[StoredRecord] = deque()
        self._batch_records = batch_records
        self._batch_bytes = batch_bytes
        self._bytes = 0

    def add(self, records: Sequence[StoredRecord]) -> None:
        """Take what was appended."""
        self._records.extend(records)
        self._bytes += sum(map(_size, records))
        if self._bytes > 2 * self._batch_bytes:
            self._records.clear()
            self._bytes = 0

    def take_batch(self, start: int, end: int) -> tuple[list[StoredRecord], int]:
        """Those between two offsets that one batch may hold, and the offset up to which it may reach; older ones go.

        That is `end` if there are none, or it is behind the last of them if they fill a batch.
        """
        while self._records and self._records[0].offset < start:
            self._pop()
        batch: list[StoredRecord] = []
        size, behind = 0, min(end, start + self._batch_records)
        while self._records and size < self._batch_bytes and self._records[0].offset < behind:
            batch.append(self._pop())
            size += len(batch[-1].value)
        if size >= self._batch_bytes:
            behind = batch[-1].offset + 1
        return batch, behind if batch else end

    def _pop(self) -> StoredRecord:
        record = self._records.popleft()
        self._bytes -= _size(record)
        return record


def gaps_of(records: Sequence[StoredRecord], start: int, end: int) -> list[tuple[int, int]]:
    """The offsets from `start` to `end` that records of a partition leave out: ranges, each up to a bound."""
    gaps: list[tuple[int, int]] = []
    for record in records:
        if record.offset > start:
            gaps.append((start, record.offset))
        start = record.offset + 1
    return [*gaps, (start, end)] if start < end else gaps


def _size(record: StoredRecord) -> int:
    return len(record.value) + len(record.key or b"")
