"""The decoding of fetched batches into records. Nothing that is fetched can stop a partition.

kafka-python 3.0.12 raises an error of decoding once and then never returns from `poll`, and it decompresses without a
limit: a batch of a few hundred kilobytes can hold gigabytes. So decoding is ours: it turns whatever cannot be read into
an `UnreadableRange` and continues after it. When a release of the library skips what it cannot decode and takes a
limit, this module and `decompression` can go.
"""

import io
import logging
import zlib
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import Any

import lz4.frame
import snappy
import zstandard
from kafka.errors import CorruptRecordError, UnsupportedCodecError
from kafka.structs import TopicPartition

from collector.logs.kafka.workarounds import FetchedRecords, replace_decoding
from collector.logs.log import TICK, Headers, StoredRecord

_snappy: Any = snappy  # untyped
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = 16
_ANY_GZIP = zlib.MAX_WBITS | 16
_VARINT_MORE = 0x80
_MAX_MEMBERS = 1_000
"""Members of a gzip stream. Producers write one; twenty bytes make an empty one, which costs as much as thousands."""
_SLICE = 64 * 1024
"""Compressed bytes that are decompressed at a time: at the end of every member, zlib copies what is left of them."""


class DecompressedTooLarge(Exception):
    """A batch is larger than the limit when decompressed."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"a batch is larger than {limit} bytes when decompressed")


def decompress(codec: int, data: bytes, limit: int) -> bytes:
    """Decompress a batch's records with Kafka's codec number, to at most `limit` bytes.

    Raises:
        DecompressedTooLarge: there is more.
        Exception: the codec's own, for broken data.
    """
    if codec not in _CODECS:
        raise UnsupportedCodecError(f"codec {codec} is unknown")
    return _CODECS[codec](data, limit)


def _gunzip(data: bytes, limit: int) -> bytes:
    parts: list[bytes] = []
    size = members = 0
    member = None
    for start in range(0, len(data), _SLICE):
        rest = data[start : start + _SLICE]
        while rest:
            if member is None or member.eof:  # a gzip file may have several members
                members += 1
                if members > _MAX_MEMBERS:
                    raise ValueError(f"the gzip data has more than {_MAX_MEMBERS} members")
                member = zlib.decompressobj(_ANY_GZIP)
            parts.append(member.decompress(rest, limit - size + 1))
            size += len(parts[-1])
            _check(size, limit, limit)
            rest = member.unused_data
    if member is not None and not member.eof:
        raise EOFError("the gzip data is cut off")
    return b"".join(parts)


def _unsnappy(data: bytes, limit: int) -> bytes:
    if not data.startswith(_XERIAL_MAGIC):
        _check(_snappy_length(data), limit, limit)
        return _snappy.uncompress(data)
    blocks: list[bytes] = []
    left = limit
    at = _XERIAL_HEADER
    while at < len(data):
        end = at + 4 + int.from_bytes(data[at : at + 4], "big")
        block = data[at + 4 : end]
        _check(_snappy_length(block), left, limit)
        blocks.append(_snappy.uncompress(block))
        left -= len(blocks[-1])
        at = end
    return b"".join(blocks)


def _snappy_length(data: bytes) -> int:
    """The length that a block declares, as a varint; decompression fails if it is wrong."""
    length = 0
    for index, byte in enumerate(data[:5]):
        length |= (byte & ~_VARINT_MORE) << 7 * index
        if not byte & _VARINT_MORE:
            return length
    raise ValueError("the snappy data has no length")


def _unlz4(data: bytes, limit: int) -> bytes:
    frame: Any = lz4.frame.LZ4FrameDecompressor()
    result: bytes = frame.decompress(data, max_length=limit + 1)
    _check(len(result), limit, limit)
    if not frame.eof:
        raise EOFError("the lz4 data is cut off")
    return result


def _unzstd(data: bytes, limit: int) -> bytes:
    decompressor = zstandard.ZstdDecompressor(max_window_size=max(limit, 8 << 20))
    with decompressor.stream_reader(io.BytesIO(data), read_across_frames=True) as reader:
        result = reader.read(limit + 1)
    _check(len(result), limit, limit)
    return result


def _check(size: int, left: int, limit: int) -> None:
    if size > left:
        raise DecompressedTooLarge(limit)


_CODECS: dict[int, Callable[[bytes, int], bytes]] = {1: _gunzip, 2: _unsnappy, 3: _unlz4, 4: _unzstd}


logger = logging.getLogger(__name__)

DENSEST = 1032
"""The highest compression ratio of gzip, snappy and lz4."""

MAGIC = 2
"""The format of batches since Kafka 0.11; older ones are decompressed by the library."""


@dataclass(frozen=True, slots=True)
class UnreadableRange:
    """Part of a partition that cannot be read: offsets from `offset` up to `end_offset`. `error` has no content."""

    topic: str
    partition: int
    offset: int
    end_offset: int
    error: str


OnUnreadable = Callable[[UnreadableRange], None]
"""Called with each unreadable range, in a thread of the log: must be quick and must not raise."""


def log_unreadable(unreadable: UnreadableRange) -> None:
    """Log one line for each."""
    logger.error(
        "%s[%d]: records %d to %d cannot be read (%s)",
        unreadable.topic, unreadable.partition, unreadable.offset, unreadable.end_offset - 1, unreadable.error,
    )  # fmt: skip


class RecordDecoder:
    """Decodes what one consumer fetches, and collects the ranges that it could not read.

    `times` has the last offset of each partition and its latest timestamp, so that time never decreases. If records are
    read again, as after a rebalance, they get the same timestamps as before: a replay must see the same times.
    `answered` has the topics of which a broker has answered a fetch.
    """

    def __init__(self, max_batch_bytes: int, number_of: Callable[[TopicPartition], int]) -> None:
        self.max_batch_bytes = max_batch_bytes
        self.number_of = number_of
        self.unreadable: list[UnreadableRange] = []
        self.times: dict[int, tuple[int, float]] = {}
        self.answered = set[str]()

    def install(self, consumer: Any) -> None:
        """Decode what this consumer fetches."""
        replace_decoding(consumer, partial(_Records, self))

    def drain_unreadable(self) -> list[UnreadableRange]:
        """The unreadable ranges since the last call, in order."""
        ranges, self.unreadable = self.unreadable, []
        return ranges

    def add_unreadable(self, where: TopicPartition, position: int, end: int, error: Exception) -> None:
        """Collect what could not be read."""
        detail = str(error) if isinstance(error, (CorruptRecordError, DecompressedTooLarge)) else ""
        text = f"{type(error).__name__}: {detail}" if detail else type(error).__name__
        self.unreadable.append(UnreadableRange(where.topic, where.partition, position, end, text))


class _Records(FetchedRecords):
    """The records of one partition out of one fetch. Its iterator yields `StoredRecord` and never raises."""

    records_read: int
    bytes_read: int

    def __init__(
        self, decoding: RecordDecoder, fetch_offset: int, where: TopicPartition, *args: Any, **kwargs: Any
    ) -> None:
        self._decoding = decoding
        self._where = where
        self._number = decoding.number_of(where)
        decoding.answered.add(where.topic)
        super().__init__(fetch_offset, where, *args, **kwargs)  # pyright: ignore[reportUnknownMemberType] - untyped

    def _maybe_skip_record(self, record: Any) -> bool:
        return record.offset < self.fetch_offset

    def _unpack_records(self, *fetched: Any) -> Generator[StoredRecord]:
        records = fetched[1]
        while True:
            try:
                batch = records.next_batch()
            except Exception as error:  # noqa: BLE001 - nothing that was fetched may stop the partition
                self._decoding.add_unreadable(self._where, self.next_fetch_offset, self.next_fetch_offset + 1, error)
                self.next_fetch_offset += 1
                break
            if batch is None:
                break
            yield from self._unpack_batch(batch)
        self.drain()

    def _unpack_batch(self, batch: Any) -> Generator[StoredRecord]:
        decoded: list[StoredRecord] = []
        failure: Exception | None = None
        try:
            self._decode(batch, decoded)
        except Exception as error:  # noqa: BLE001 - nothing that was fetched may stop the partition
            failure = error
        self.records_read += len(decoded)
        self.bytes_read += batch.size_in_bytes
        for record in decoded:
            self.next_fetch_offset = record.offset + 1
            yield record
        end: int = batch.next_offset if batch.magic >= MAGIC else max(self.next_fetch_offset, batch.base_offset + 1)
        if failure is not None:
            first: int = (
                max(batch.base_offset, self.next_fetch_offset) if batch.magic >= MAGIC else self.next_fetch_offset
            )
            self._decoding.add_unreadable(self._where, first, max(end, first + 1), failure)
        self.next_fetch_offset = max(end, self.next_fetch_offset)

    def _decode(self, batch: Any, decoded: list[StoredRecord]) -> None:
        if not batch.validate_crc():
            raise CorruptRecordError("the checksum is wrong")
        if batch.magic >= MAGIC:
            self.leader_epoch = batch.leader_epoch
            if self._aborted(batch) or batch.is_control_batch:
                return
            self._decompress(batch)
        elif batch.compression_type and batch.size_in_bytes * DENSEST > self._decoding.max_batch_bytes:
            # An old format, which only the library decompresses.
            raise DecompressedTooLarge(self._decoding.max_batch_bytes)
        last, time = self._decoding.times.get(self._number, (-1, 0.0))
        time = 0.0 if batch.base_offset <= last else time
        for record in batch:
            time = max(time, (record.timestamp or 0) / 1000)
            headers = record.headers
            decoded.append(
                StoredRecord(
                    self._number,
                    record.offset,
                    time,
                    record.key,
                    record.value or b"",
                    _headers(headers) if headers else (),
                )
            )
            last = record.offset
        self._decoding.times[self._number] = last, time

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
