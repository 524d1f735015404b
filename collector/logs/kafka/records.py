"""From fetched batches to records. Nothing that is fetched can stop a partition.

kafka-python 3.0 raises an error of decoding once and then never returns from `poll`, and it decompresses without a
bound. So decoding is ours: it turns whatever cannot be read into a `Poison` and goes on behind it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import Any

from kafka.errors import CorruptRecordError
from kafka.structs import TopicPartition

from collector.logs.kafka.decompression import TooMuch, decompress
from collector.logs.kafka.workarounds import FetchedRecords, replace_decoding, skip_failed_record
from collector.logs.log import TICK, Headers, Stored

logger = logging.getLogger(__name__)

DENSEST = 1032
"""Nothing that gzip, snappy or lz4 pack gets smaller than by this factor."""

MAGIC = 2
"""The format of batches since Kafka 0.11; older ones are decompressed by the library."""


@dataclass(frozen=True, slots=True)
class Poison:
    """A stretch of a partition that cannot be read: positions from `position` up to `end`. `error` has no content."""

    topic: str
    partition: int
    position: int
    end: int
    error: str


OnPoison = Callable[[Poison], None]
"""Is told of a poison, in a thread of the log: must be quick and must not raise."""


def log_poison(poison: Poison) -> None:
    """One line for each."""
    logger.error(
        "%s[%d]: records %d to %d cannot be read (%s)",
        poison.topic, poison.partition, poison.position, poison.end - 1, poison.error,
    )  # fmt: skip


class Decoding:
    """What the decoding of one consumer knows: its limit, which number a partition goes by, and the poison it met.

    `times` keeps the latest timestamp of each partition, so that time never falls.
    """

    def __init__(self, max_batch_bytes: int, number_of: Callable[[TopicPartition], int]) -> None:
        self.max_batch_bytes = max_batch_bytes
        self.number_of = number_of
        self.poison: list[Poison] = []
        self.times: dict[int, float] = {}

    def install(self, consumer: Any) -> None:
        """Decode what this consumer fetches."""
        replace_decoding(consumer, partial(_Records, self))

    def drain_poison(self) -> list[Poison]:
        """The poison met since the last call, in order."""
        met, self.poison = self.poison, []
        return met

    def skip_failed(self, consumer: Any, error: Exception) -> bool:
        """After an error out of `poll`: go on behind the record it is about, if it is about one.

        As far as we know none is: what is decoded here raises nothing.
        """
        failed = skip_failed_record(consumer)
        if failed is None:
            return False
        where, position = failed
        self.add_poison(where, position, position + 1, error)
        return True

    def add_poison(self, where: TopicPartition, position: int, end: int, error: Exception) -> None:
        """Note what could not be read."""
        said = str(error) if isinstance(error, (CorruptRecordError, TooMuch)) else ""
        text = f"{type(error).__name__}: {said}" if said else type(error).__name__
        self.poison.append(Poison(where.topic, where.partition, position, end, text))


class _Records(FetchedRecords):
    """The records of one partition out of one fetch. Its iterator gives `Stored` and never raises."""

    records_read: int
    bytes_read: int

    def __init__(self, decoding: Decoding, fetch_offset: int, where: TopicPartition, *args: Any, **kwargs: Any) -> None:
        self._decoding = decoding
        self._where = where
        self._number = decoding.number_of(where)
        super().__init__(fetch_offset, where, *args, **kwargs)  # pyright: ignore[reportUnknownMemberType] - untyped

    def _maybe_skip_record(self, record: Any) -> bool:
        return record.position < self.fetch_offset

    def _unpack_records(self, *fetched: Any) -> Generator[Stored]:
        records = fetched[1]
        while True:
            try:
                batch = records.next_batch()
            except Exception as error:  # noqa: BLE001 - nothing that was fetched may stop the partition
                self._decoding.add_poison(self._where, self.next_fetch_offset, self.next_fetch_offset + 1, error)
                self.next_fetch_offset += 1
                break
            if batch is None:
                break
            yield from self._unpack_batch(batch)
        self.drain()

    def _unpack_batch(self, batch: Any) -> Generator[Stored]:
        found: list[Stored] = []
        failure: Exception | None = None
        try:
            self._decode(batch, found)
        except Exception as error:  # noqa: BLE001 - nothing that was fetched may stop the partition
            failure = error
        self.records_read += len(found)
        self.bytes_read += batch.size_in_bytes
        for record in found:
            self.next_fetch_offset = record.position + 1
            yield record
        end: int = batch.next_offset if batch.magic >= MAGIC else max(self.next_fetch_offset, batch.base_offset + 1)
        if failure is not None:
            first: int = (
                max(batch.base_offset, self.next_fetch_offset) if batch.magic >= MAGIC else self.next_fetch_offset
            )
            self._decoding.add_poison(self._where, first, max(end, first + 1), failure)
        self.next_fetch_offset = max(end, self.next_fetch_offset)

    def _decode(self, batch: Any, found: list[Stored]) -> None:
        if not batch.validate_crc():
            raise CorruptRecordError("the checksum is wrong")
        if batch.magic >= MAGIC:
            self.leader_epoch = batch.leader_epoch
            if self._aborted(batch) or batch.is_control_batch:
                return
            self._decompress(batch)
        elif batch.compression_type and batch.size_in_bytes * DENSEST > self._decoding.max_batch_bytes:
            raise TooMuch(self._decoding.max_batch_bytes)  # an old format, which only the library decompresses
        time = self._decoding.times.get(self._number, 0.0)
        for record in batch:
            time = max(time, (record.timestamp or 0) / 1000)
            headers = record.headers
            found.append(
                Stored(
                    self._number,
                    record.offset,
                    time,
                    record.key,
                    record.value or b"",
                    _headers(headers) if headers else (),
                )
            )
        self._decoding.times[self._number] = time

    def _decompress(self, batch: Any) -> None:
        if batch.compression_type:
            packed = bytes(memoryview(batch._buffer)[batch._pos :])  # noqa: SLF001 - see the module
            batch._buffer = bytearray(decompress(batch.compression_type, packed, self._decoding.max_batch_bytes))  # noqa: SLF001
            batch._pos = 0  # noqa: SLF001
            batch._decompressed = True  # noqa: SLF001

    def _aborted(self, batch: Any) -> bool:
        """Whether the batch belongs to a transaction that was aborted; the bookkeeping is the library's."""
        if self.isolation_level != 1 or not batch.has_producer_id():
            return False
        self._consume_aborted_transactions_up_to(batch.last_offset)
        if self._contains_abort_marker(batch):
            self.aborted_producer_ids.discard(batch.producer_id)
            return False
        return bool(self._is_batch_aborted(batch))


def _headers(headers: list[tuple[str, bytes | None]]) -> Headers:
    """Kafka's headers may be null; ours are not."""
    read = tuple([(name, value or b"") for name, value in headers])
    return TICK if read == TICK else read
