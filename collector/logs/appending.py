"""Appending: the partition of each record, the limit on its size, and an append that waits for its log."""

from collections.abc import Awaitable, Callable, Sequence

from collector.backoff import Backoff
from collector.logs.log import Log, LogError, LogUnavailable, Record, RecordTooLarge, partition_of

OVERHEAD = 64
"""Bytes that a record is assumed to cost beside its key, value and headers."""


def size_of(record: Record) -> int:
    """Bytes of a record, roughly: what limits are compared with."""
    size = OVERHEAD + len(record.value) + (len(record.key) if record.key else 0)
    if record.headers:
        size += sum(len(name) + len(value) for name, value in record.headers)
    return size


class Partitioner:
    """Splits records by partition: their own, else that of their key, else another one at each append."""

    def __init__(self, log: str, partitions: int, max_record_bytes: int) -> None:
        self._log = log
        self._partitions = partitions
        self._max_record_bytes = max_record_bytes
        self._next = 0

    def split(self, records: Sequence[Record]) -> tuple[dict[int, list[Record]], int]:
        """The records by partition, each partition's in order, and their size in bytes.

        Raises:
            RecordTooLarge: one of them is.
            LogError: one names a partition that does not exist.
        """
        by_partition: dict[int, list[Record]] = {}
        total = 0
        self._next = (self._next + 1) % self._partitions
        for record in records:
            size = size_of(record)
            if size > self._max_record_bytes:
                raise RecordTooLarge(
                    f"a record of {size} bytes is larger than the log {self._log!r} accepts ({self._max_record_bytes})"
                )
            total += size
            by_partition.setdefault(self._partition(record), []).append(record)
        return by_partition, total

    def _partition(self, record: Record) -> int:
        if record.partition is not None:
            if not 0 <= record.partition < self._partitions:
                raise LogError(
                    f"the log {self._log!r} has no partition {record.partition}: if partitions were added to its "
                    "topic, add as many to all topics of the prefix and start again; the start says which keys to set"
                )
            return record.partition
        return self._next if record.key is None else partition_of(record.key, self._partitions)


RETRY = Backoff(cap=1.0)
"""How the appends of a stage are retried: without end, since it cannot continue without them."""


async def append_until_durable(
    log: Log,
    records: Sequence[Record],
    backoff: Backoff = RETRY,
    append: Callable[[Sequence[Record]], Awaitable[None]] | None = None,
) -> None:
    """Append records; retries while the log cannot be written, so that its caller waits: the back-pressure.

    `append` is how, unless as they are.

    An append that was not acknowledged may have been made all the same: then the records are in the log twice. Turns
    that arrive twice are recognized by the stage that consumes them.

    Raises:
        RecordTooLarge: a record can never be appended; nothing was.
    """
    write = append or log.append
    await backoff.repeat(lambda: write(records), LogUnavailable, action=f"writing to {log.name}")
