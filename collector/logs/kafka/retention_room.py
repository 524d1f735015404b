"""How near a topic's retention is to what a group still needs, by age and by size. Blocks."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka.protocol.consumer import OffsetSpec
from kafka.structs import TopicPartition

from collector.logs.kafka.settings import KafkaSettings, milliseconds
from collector.logs.kafka.topics import RETENTION, administrating, committed_by, described, offsets_at, readable_configs

_BYTES = "retention.bytes"
_SHARES = (0.25, 0.5, 0.75, 0.9)
"""Shares of the age at which a topic deletes that are told apart: each costs a question."""


@dataclass(frozen=True, slots=True)
class RetentionRoom:
    """The records that a group needs of a topic, beside those that the topic keeps.

    `lost` records are needed and deleted. `age_share` is the part of `age` (s) that the oldest needed record has
    reached at least, `bytes_share` the part of `bytes` that the needed records of a partition take; None without such a
    limit, and where the broker does not let us read it (`readable`).
    """

    topic: str
    group: str
    lost: int
    age: float | None
    age_share: float | None
    bytes: int | None
    bytes_share: float | None
    readable: bool = True


@dataclass(frozen=True, slots=True)
class _Topic:
    """The present state of a topic; the offsets and sizes by partition."""

    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    sizes: Mapping[TopicPartition, int]
    age: float | None
    bytes: int | None
    aged: Mapping[float, Mapping[TopicPartition, int]]
    """By share of the age, the first offset of a partition whose record is younger."""
    readable: bool


def retention_rooms(
    settings: KafkaSettings, groups: Mapping[str, Sequence[str]], now: float | None = None
) -> list[RetentionRoom]:
    """The room of each group that has committed, by topic; topics that do not exist are left out.

    Raises:
        LogUnavailable: no broker answers.
        LogError: the brokers refuse us.
    """
    now = time.time() if now is None else now
    with administrating(settings) as admin:
        there = described(admin, list(groups))
        known = {list_group["group_id"] for list_group in admin.list_groups()} & {
            name for group in groups.values() for name in group
        }
        committed = committed_by(admin, sorted(known))
        rooms: list[RetentionRoom] = []
        for topic, names in groups.items():
            if topic not in there:
                continue
            partitions = [TopicPartition(topic, number) for number in range(len(there[topic]["partitions"]))]
            state = _topic(admin, topic, partitions, now)
            for name in names:
                needed = {at: place.offset for at, place in committed.get(name, {}).items() if at in state.starts}
                if needed:
                    rooms.append(_room(topic, name, state, needed))
        return rooms


def _topic(admin: Any, topic: str, partitions: Sequence[TopicPartition], now: float) -> _Topic:
    values = {name: int(value) for name, value in readable_configs(admin, [topic], RETENTION, _BYTES)[topic].items()}
    age = None if values.get(RETENTION, -1) < 0 else values[RETENTION] / 1000
    size = values.get(_BYTES, -1)
    ends = offsets_at(admin, partitions, OffsetSpec.LATEST)
    aged: dict[float, Mapping[TopicPartition, int]] = {}
    for share in _SHARES if age is not None else ():
        young = offsets_at(admin, partitions, milliseconds(max(0.0, now - share * (age or 0.0))))
        aged[share] = {where: offset if offset >= 0 else ends[where] for where, offset in young.items()}
    return _Topic(
        starts=offsets_at(admin, partitions, OffsetSpec.EARLIEST),
        ends=ends,
        sizes=_sizes(admin, topic) if size >= 0 else {},
        age=age,
        bytes=None if size < 0 else size,
        aged=aged,
        readable=RETENTION in values,
    )


def _sizes(admin: Any, topic: str) -> dict[TopicPartition, int]:
    """The bytes of each partition, of the largest replica."""
    sizes: dict[TopicPartition, int] = {}
    for broker in admin.describe_log_dirs([topic]):
        for folder in broker["log_dirs"]:
            for stored in folder["topics"]:
                for partition in stored["partitions"]:
                    where = TopicPartition(topic, partition["partition_index"])
                    sizes[where] = max(sizes.get(where, 0), partition["partition_size"])
    return sizes


def _room(topic: str, group: str, state: _Topic, needed: Mapping[TopicPartition, int]) -> RetentionRoom:
    reached = [
        share
        for share, young in state.aged.items()
        if any(offset < min(young[where], state.ends[where]) for where, offset in needed.items())
    ]
    used = [_needed_bytes(where, offset, state) / state.bytes for where, offset in needed.items() if state.bytes]
    return RetentionRoom(
        topic=topic,
        group=group,
        lost=sum(max(0, state.starts[where] - offset) for where, offset in needed.items()),
        age=state.age,
        age_share=None if state.age is None else max(reached, default=0.0),
        bytes=state.bytes,
        bytes_share=None if state.bytes is None else max(used, default=0.0),
        readable=state.readable,
    )


def _needed_bytes(where: TopicPartition, offset: int, state: _Topic) -> float:
    """About how many bytes of a partition are needed."""
    records = state.ends[where] - state.starts[where]
    share = (state.ends[where] - max(offset, state.starts[where])) / records if records > 0 else 0.0
    return share * state.sizes.get(where, 0)
