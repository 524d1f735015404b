"""Which partition a record goes to, and whether it may be appended at all."""

from __future__ import annotations

from collections.abc import Sequence

from collector.logs.log import LogError, Record, RecordTooLarge, partition_of

OVERHEAD = 64
"""Bytes that a record is taken to cost beside its key, value and headers."""


def size_of(record: Record) -> int:
    """Bytes that a record takes, roughly: what limits are compared with."""
    size = OVERHEAD + len(record.value) + (len(record.key) if record.key else 0)
    if record.headers:
        size += sum(len(name) + len(value) for name, value in record.headers)
    return size


class Placing:
    """Places records: by their own partition, else by key, else where the last record without a key did not go."""

    def __init__(self, log: str, partitions: int, max_record_bytes: int) -> None:
        self._log = log
        self._partitions = partitions
        self._max_record_bytes = max_record_bytes
        self._turn = 0

    def place(self, records: Sequence[Record]) -> tuple[dict[int, list[Record]], int]:
        """The records by partition, each partition's in order, and their size in bytes.

        Raises:
            RecordTooLarge: one of them is.
            LogError: one names a partition that does not exist.
        """
        placed: dict[int, list[Record]] = {}
        total = 0
        self._turn = (self._turn + 1) % self._partitions
        for record in records:
            size = size_of(record)
            if size > self._max_record_bytes:
                raise RecordTooLarge(
                    f"a record of {size} bytes is larger than the log {self._log!r} takes ({self._max_record_bytes})"
                )
            total += size
            placed.setdefault(self._partition(record), []).append(record)
        return placed, total

    def _partition(self, record: Record) -> int:
        if record.partition is not None:
            if not 0 <= record.partition < self._partitions:
                raise LogError(f"the log {self._log!r} has no partition {record.partition}")
            return record.partition
        return self._turn if record.key is None else partition_of(record.key, self._partitions)
