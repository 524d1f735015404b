"""The records of a log that a group has read, those that are left, and those that are gone."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from collector.evaluate.transfer.transfer_records import is_transfer
from collector.logs.log import Committed, Log, StoredRecord
from collector.logs.whole_log import end_offsets, start_offsets


@dataclass(slots=True)
class LogContent:
    """A log: its records, and offsets in the middle that no record has."""

    name: str
    starts: dict[int, int] = field(default_factory=dict[int, int])
    ends: dict[int, int] = field(default_factory=dict[int, int])
    records: int = 0
    """Those that were seen, without ticks."""
    gaps: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])
    """Partition, first missing offset, end."""
    ticks_behind: dict[str, int] = field(default_factory=dict[str, int])
    """Ticks and handed-over state that a group has not read: nothing more is owed for them."""
    next: dict[int, int] = field(default_factory=dict[int, int])
    not_exported: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    """Offsets of decisions of the evaluate stage, of ticks and of void records: no exporter sends them, so they count
    neither as read nor as left."""

    def saw(self, record: StoredRecord, readers: Mapping[str, Mapping[int, Committed]]) -> None:
        """A record was read. `readers` is what the groups that read this log have committed."""
        partition, offset = record.partition, record.offset
        if record.is_tick or is_transfer(record):
            for group, committed in readers.items():
                state = committed.get(partition)
                if state is None or offset >= state.offset:
                    self.ticks_behind[group] = self.ticks_behind.get(group, 0) + 1
        expected = self.next.get(partition, self.starts.get(partition, 0))
        if partition in self.next and offset > expected:  # else retention has deleted meanwhile
            self.gaps.append((partition, expected, offset))
        self.next[partition] = offset + 1
        self.records += not record.is_tick

    def finish(self, partition: int) -> None:
        """All records of a partition were read."""
        expected, end = self.next.get(partition, self.starts[partition]), self.ends[partition]
        if partition in self.next and end > expected:
            self.gaps.append((partition, expected, end))


@dataclass(frozen=True, slots=True)
class Reading:
    """The records of a log that a group has read. Records that retention deleted unread are `lost`."""

    group: str
    log: str
    read: int
    behind: int
    lost: tuple[tuple[int, int, int], ...] = ()
    beyond: tuple[tuple[int, int, int], ...] = ()
    """Partition, its end, and the offset behind that end that the group has committed."""


async def content_of(log: Log) -> LogContent:
    """The offsets of a log, before its records are read."""
    content = LogContent(log.name)
    content.starts = dict(enumerate(await start_offsets(log)))
    content.ends = dict(enumerate(await end_offsets(log)))
    return content


def reading_of(group: str, content: LogContent, committed: Mapping[int, Committed]) -> Reading:
    """Records that a group has read, by its commits from before `content` was looked at, and its records were read."""
    read = behind = 0
    lost: list[tuple[int, int, int]] = []
    beyond: list[tuple[int, int, int]] = []
    for partition, end in content.ends.items():
        start, state = content.starts[partition], committed.get(partition)
        at = start if state is None else state.offset
        if at > end:
            beyond.append((partition, end, at))
        elif at < start:
            lost.append((partition, at, start))
        at = min(max(at, start), end)
        others = content.not_exported.get(partition, ())
        read += at - start - sum(offset < at for offset in others)
        behind += end - at - sum(at <= offset < end for offset in others)
    behind -= content.ticks_behind.get(group, 0)
    return Reading(group, content.name, read, behind, tuple(lost), tuple(beyond))
