"""The partitions that a consumer owns: where each begins, which records are lost, what is committed, and when the
partition is given up.

All of it happens in the thread that polls, and may block within limits; the listener hears of it in the event loop,
which also asks for commits. Polled records that wait for their fold are limited: partitions beyond that are paused.
A `BoundedGate` would make the thread wait, so that it left the group.

Kafka stores the low watermark as a group's offset, and the rest of a commit as JSON in the metadata. So
`topics.truncate` and tools that know only Kafka keep the records that a replay needs, and without readable metadata too
much is read rather than too little.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import orjson
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata, TopicPartition

from collector.logs.kafka.settings import KafkaSettings, translate
from collector.logs.kafka.subscription import Assigned, GroupListener, LostRecords, Subscription
from collector.logs.kafka.workarounds import position_after_reset, topic_id
from collector.logs.log import Committed, LogError, LogUnavailable, StoredRecord
from collector.telemetry.drop_reasons import LossReason

MAX_METADATA = 4000
"""Bytes of metadata; a broker accepts 4,096 by default."""


def to_kafka(state: Committed, topic_id: str | None = None) -> OffsetAndMetadata:
    """A state as offset and metadata. `topic_id` is that of the topic that was read, for topics of others.

    Raises:
        LogError: the metadata are too long; a fold may have 2,000 characters.
    """
    parts = {"p": state.offset, "n": state.metadata}
    metadata = orjson.dumps(parts if topic_id is None else parts | {"t": topic_id})
    if len(metadata) > MAX_METADATA:
        raise LogError(f"the metadata of a fold have {len(state.metadata)} characters; 2,000 of ASCII are the most")
    return OffsetAndMetadata(state.low_watermark, metadata.decode(), -1)


def from_kafka(committed: OffsetAndMetadata) -> Committed:
    """The committed state. A commit that is not ours has only an offset: all from there on is new."""
    offset: int = committed.offset
    try:
        stored = orjson.loads(committed.metadata or "")
        return Committed(offset, max(offset, int(stored["p"])), str(stored["n"]))
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        return Committed(offset, offset)


def topic_id_in(committed: OffsetAndMetadata) -> str | None:
    """The id of the topic that was read; None if it was not noted."""
    try:
        topic_id = orjson.loads(committed.metadata or "").get("t")
    except (orjson.JSONDecodeError, AttributeError):
        return None
    return topic_id if isinstance(topic_id, str) else None


PolledRecords = dict[TopicPartition, list[StoredRecord]]
"""The result of a poll."""

Starts = dict[TopicPartition, tuple[Committed | None, int]]
"""The committed position, and the offset of the first record that will be delivered."""


class StartOffsets:
    """Finds the start offsets of partitions. `timeout` (ms) is for each request to a broker.

    `lost` are ranges of offsets that the group needed and cannot read any more. `topic_ids` are the present ids of
    topics that may be replaced by others of the same name. `committed_for_present` are the partitions for which the
    group has committed with the present id.
    """

    def __init__(self, consumer: Any, timeout: int, topic_ids: Mapping[str, str] | None = None) -> None:
        self._consumer = consumer
        self._timeout = timeout
        self._topic_ids = topic_ids or {}
        self.lost: dict[TopicPartition, list[tuple[int, int, LossReason]]] = {}
        self.committed_for_present: set[TopicPartition] = set()

    def find(
        self, assigned: Sequence[TopicPartition], polled: PolledRecords, replaced: Mapping[TopicPartition, int] = {}
    ) -> Starts:
        """The start of each; unknown ones are omitted, and their records put back.

        `replaced` are partitions of re-created topics, each with the next offset of the old topic, 0 if unknown. They
        are void if the group has committed for the new topic.
        """
        commits = self._commits(assigned, replaced)
        every, timeout = list(commits), self._timeout
        ends: dict[TopicPartition, int] = self._consumer.end_offsets(every, timeout_ms=timeout) if every else {}
        firsts: dict[TopicPartition, int] = self._consumer.beginning_offsets(every, timeout_ms=timeout) if every else {}
        starts: Starts = {}
        for where in assigned:
            committed = commits.get(where)
            if committed is not None and committed.offset > ends[where]:
                logger.error(
                    "%s[%d] ends at %d, but %d was committed: records were lost, or the topic is another one of the"
                    " same name; reading it from its start", *where, ends[where], committed.offset,
                )  # fmt: skip
                self._begin_again(where, polled)
                committed = None
            if committed is not None and committed.low_watermark < firsts[where]:
                self._begin_again(where, polled)  # with what is left, even if new groups start at the end
                self.lost[where] = list(_lost(committed, firsts[where]))
            if where in self.lost and committed is None:  # a new topic: what was polled may begin in its middle
                polled.pop(where, None)
            start = committed.low_watermark if committed else self._next_offset(where, polled)
            if start is None:
                self.put_back(where, polled)
            else:
                starts[where] = committed, start
        return starts

    def put_back(self, where: TopicPartition, polled: PolledRecords) -> None:
        """Seek back, so that a later poll returns these records again."""
        records = polled.pop(where, None)
        if records:
            with suppress(ValueError):  # it was revoked again: its new owner reads them
                self._consumer.seek(where, records[0].offset)

    def _commits(
        self, assigned: Sequence[TopicPartition], replaced: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, Committed]:
        stored: dict[TopicPartition, OffsetAndMetadata | None] = {
            where: self._consumer.committed(where, metadata=True, timeout_ms=self._timeout) for where in assigned
        }
        commits: dict[TopicPartition, Committed] = {}
        for where, state in stored.items():
            known = None if state is None or state.offset < 0 else from_kafka(state)
            before, now = state and topic_id_in(state), self._topic_ids.get(where.topic)
            committed_for_present = before is not None and before == now
            if (where in replaced and not committed_for_present) or (None not in (before, now) and before != now):
                at = known.offset if known is not None else replaced.get(where, 0)
                self.lost[where] = [(at, at, LossReason.TOPIC_REPLACED)]
                self._consumer.seek_to_beginning(where)
            elif known is not None:
                if not (state and state.metadata):
                    logger.warning(
                        "%s[%d]: the position %d was set by others than evalstream: what lies before it is not read",
                        where.topic, where.partition, known.offset,
                    )  # fmt: skip
                commits[where] = known
                if committed_for_present:
                    self.committed_for_present.add(where)
        return commits

    def _next_offset(self, where: TopicPartition, polled: PolledRecords) -> int | None:
        records = polled.get(where)
        return records[0].offset if records else self._consumer.position(where, timeout_ms=self._timeout)

    def _begin_again(self, where: TopicPartition, polled: PolledRecords) -> None:
        polled.pop(where, None)
        self._consumer.seek_to_beginning(where)


def _lost(committed: Committed, first: int) -> Iterator[tuple[int, int, LossReason]]:
    """The gaps between the group's two offsets and the partition's oldest record."""
    if committed.low_watermark < committed.offset:
        yield committed.low_watermark, min(committed.offset, first), LossReason.RETENTION_REPLAY
    if committed.offset < first:
        yield committed.offset, first, LossReason.RETENTION


@dataclass(slots=True)
class _Waiting:
    items: int = 0
    bytes: int = 0
    paused: bool = False


class PrefetchLimiter:
    """Counts records and bytes by partition. The polling thread adds, the event loop subtracts.

    A partition is paused when it reaches either limit, and resumed below half of both: without the distance it would be
    paused and resumed at every poll.
    """

    def __init__(self, max_items: int, max_bytes: int) -> None:
        self._max_items = max_items
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._waiting: dict[int, _Waiting] = {}

    def open_partition(self, partition: int) -> None:
        """Start to count a partition, from zero."""
        with self._lock:
            self._waiting[partition] = _Waiting()

    def close_partition(self, partition: int) -> None:
        """Stop counting a partition."""
        with self._lock:
            self._waiting.pop(partition, None)

    def add(self, partition: int, items: int, size: int) -> None:
        """Add what was polled; subtract, with negative numbers, what was delivered."""
        with self._lock:
            waiting = self._waiting.get(partition)
            if waiting is not None:
                waiting.items += items
                waiting.bytes += size

    def paused_partitions(self) -> set[int]:
        """The partitions not to be read now."""
        with self._lock:
            for waiting in self._waiting.values():
                if waiting.paused:
                    waiting.paused = waiting.items > self._max_items // 2 or waiting.bytes > self._max_bytes // 2
                else:
                    waiting.paused = waiting.items >= self._max_items or waiting.bytes >= self._max_bytes
            return {partition for partition, waiting in self._waiting.items() if waiting.paused}


Done = Callable[[LogError | None], None]
"""Takes the outcome of a commit, in the event loop."""

CallInLoop = Callable[..., None]
"""Calls a function with arguments in the event loop, soon."""

Offsets = dict[TopicPartition, Any]
"""The positions to commit, as kafka-python takes them. The library is untyped."""


@dataclass(frozen=True, slots=True)
class CommitCommand:
    """States by partition, each with the epoch in which it was reached."""

    states: Mapping[int, tuple[int, Committed]]
    done: Done


class CommitSender:
    """Queues and sends a group's commits, and keeps those that no broker has answered."""

    def __init__(self, call: CallInLoop, group: str, settings: KafkaSettings | None = None) -> None:
        self._call = call
        self._translated = partial(translate, settings=settings, group=group)
        self._queued: deque[CommitCommand] = deque()
        self._unanswered: set[Done] = set()

    def add(self, command: CommitCommand) -> None:
        """Queue a commit; any thread may call this."""
        self._queued.append(command)

    def send_queued(self, consumer: Any, offsets_of: Callable[[CommitCommand], Offsets]) -> None:
        """Send what is queued. If nothing is left to commit, the command is done."""
        while self._queued:
            command = self._queued.popleft()
            if offsets := offsets_of(command):
                self.send(consumer, offsets, command.done)
            else:
                self._call(command.done, None)

    def send(self, consumer: Any, offsets: Offsets, done: Done) -> None:
        """Send one commit; does not wait for the answer."""

        def answered(_offsets: object, answer: object) -> None:
            self._unanswered.discard(done)
            self._call(done, self._translated(answer) if isinstance(answer, Exception) else None)

        self._unanswered.add(done)
        try:
            consumer.commit_async(offsets, callback=answered)
        except KafkaError as error:
            answered(offsets, error)

    def end(self) -> None:
        """Fail all commits that have no answer. Called in the event loop."""
        for done in [command.done for command in self._queued] + list(self._unanswered):
            done(LogUnavailable("the consumer has ended"))


logger = logging.getLogger(__name__)


@dataclass(eq=False, repr=False)
class OwnedPartitions:
    """The partitions of one consumer, with the epoch in which each was assigned."""

    subscription: Subscription
    listener: GroupListener
    flow: PrefetchLimiter
    commits: CommitSender
    call: CallInLoop

    def __post_init__(self) -> None:
        self._topics = self.subscription.topics
        self.unreported: dict[TopicPartition, None] = {}  # not yet reported, in the order of assignment
        self._out_of_range: dict[TopicPartition, int] = {}  # expected records that are gone, until they are reported
        self._epochs: dict[int, int] = {}
        self._topic_ids: dict[int, str] = {}  # of the topics of others, as they were when the partition was assigned
        self._last_topic_ids: dict[int, str] = {}  # kept when revoked: brokers forget a deleted topic's commits
        self._replaced: dict[TopicPartition, int] = {}  # not yet reported, with the next offset of the old topic
        self._positions: dict[int, tuple[int, int | None]] = {}  # by partition, with the epoch: see `moved`
        self._epoch = 0

    def add_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Take partitions that were assigned; `report_assigned` tells the listener."""
        self.unreported.update(dict.fromkeys(assigned))

    def set_out_of_range(self, where: TopicPartition, offset: int) -> None:
        """Note an offset that was to be read and that no broker has."""
        self._out_of_range.setdefault(where, offset)

    def offsets_of(self, command: CommitCommand) -> Offsets:
        """The positions to commit: none for partitions that are not owned in the state's epoch any more."""
        return {
            self._topics.where(number): to_kafka(state, self._topic_ids.get(number))
            for number, (epoch, state) in command.states.items()
            if self._epochs.get(number) == epoch
        }

    def notice_replaced(self, consumer: Any, polled: PolledRecords) -> None:
        """Begin again with the partitions of a topic that was deleted, and made again, while it was read.

        Offsets alone do not tell: the new topic may have more records than were read of the old one.
        """
        now = self._current_topic_ids(consumer)
        for number in list(self._epochs) if now else ():
            where = self._topics.where(number)
            current = now.get(where.topic)
            if current is not None and self._topic_ids.setdefault(number, current) != current:
                records = polled.pop(where, None)
                self._replaced[where] = records[0].offset if records else position_after_reset(consumer, where) or 0
                del self._epochs[number], self._topic_ids[number]
                self._out_of_range.pop(where, None)
                self.flow.close_partition(number)
                self.call(self.listener.revoked, [number])
                self.unreported[where] = None

    def moved(self, consumer: Any) -> dict[int, int]:
        """The next offsets of source topics that have changed since the last call: aborted transactions and the marks
        of committed ones are passed over without a record.
        """
        if self.subscription.log is not None:
            return {}
        where, before = self._topics.where, self._positions
        now = {number: (epoch, position_after_reset(consumer, where(number))) for number, epoch in self._epochs.items()}
        self._positions = now
        return {number: at for number, (_, at) in now.items() if at is not None and now[number] != before.get(number)}

    def _current_topic_ids(self, consumer: Any) -> dict[str, str]:
        """The ids of the topics of others, as far as brokers have them. The logs' own topics are never replaced."""
        if self.subscription.log is not None:
            return {}
        return {topic: known for topic in self._topics.names if (known := topic_id(consumer, topic)) is not None}

    def report_assigned(self, consumer: Any, polled: PolledRecords, timeout: int) -> None:
        """Report newly assigned partitions, each with its start offset, before their records.

        If that is unknown now, the consumer seeks back, and a later poll returns their records again. Each request to a
        broker may take `timeout` milliseconds.
        """
        assigned = list(self.unreported)
        if not assigned:
            return
        topic_ids = self._current_topic_ids(consumer)
        for where in assigned:
            last = self._last_topic_ids.get(self._topics.number_of(where)) or self.subscription.begun.noted_id(where)
            if last is not None and topic_ids.get(where.topic, last) != last:
                self._replaced.setdefault(where, 0)
        offsets = StartOffsets(consumer, timeout, topic_ids)
        try:
            starts = offsets.find(assigned, polled, self._replaced)
        except Exception:
            for where in assigned:
                offsets.put_back(where, polled)
            raise  # the records of other partitions are still reported: no later poll returns them again
        for where, (committed, start) in starts.items():
            if self.unreported.pop(where, False) is None:  # else it was revoked again
                number = self._topics.number_of(where)
                if where.topic in topic_ids:
                    self._topic_ids[number] = self._last_topic_ids[number] = topic_ids[where.topic]
                self._epoch = self._epochs[number] = self._epoch + 1
                self.flow.open_partition(number)
                self.call(self.listener.assigned, Assigned(number, self._epoch, committed, start))
                if self.subscription.log is None:
                    begun = committed if committed is not None else Committed(start, start)
                    self._begin(consumer, where, begun, noted=where in offsets.committed_for_present)
                self._out_of_range.pop(where, None)
                self._replaced.pop(where, None)
                for offset, end, reason in offsets.lost.get(where, ()):
                    self._report_lost(where, offset, end, reason)

    def _begin(self, consumer: Any, where: TopicPartition, begun: Committed, *, noted: bool) -> None:
        """Commit where reading begins, with the topic's id; then have that id remembered.

        Without the commit a partition that had no record yet would begin at its end again after a restart, if new
        groups do. In the other order, a process killed in between would take an unread topic for a read one.
        """
        topic_id = self._topic_ids.get(self._topics.number_of(where))

        def remember(error: LogError | None) -> None:
            if error is None and topic_id is not None and self.subscription.begun.noted_id(where) != topic_id:
                self.subscription.begun.begun(where, topic_id)

        if noted:
            self.call(remember, None)
        else:
            self.commits.send(consumer, {where: to_kafka(begun, topic_id)}, remember)

    def report_out_of_range(self, consumer: Any, polled: PolledRecords) -> None:
        """Report the records that retention deleted while this consumer waited, now that the next offset is known.

        Not every difference between two offsets is a loss: compaction and the marks of transactions leave some. An
        offset that the broker has declared out of range is one.
        """
        for where, offset in list(self._out_of_range.items()):
            if self._topics.number_of(where) not in self._epochs:
                continue  # newly assigned: its start offset says more; or revoked
            records = polled.get(where)
            start = records[0].offset if records else position_after_reset(consumer, where)
            if start is not None:
                del self._out_of_range[where]
                self._report_lost(where, offset, start, LossReason.RETENTION)

    def _report_lost(self, where: TopicPartition, offset: int, end: int, reason: LossReason) -> None:
        if end > offset or reason == LossReason.TOPIC_REPLACED:
            name = self.subscription.consumer or self.subscription.group
            log = self.subscription.log or where.topic
            self.subscription.on_lost(LostRecords(name, log, where.topic, where.partition, offset, end, reason))
        else:
            logger.error(
                "%s[%d] ends before %d, the next offset to read: records were lost, or the topic is another one of the"
                " same name; reading it from its start", where.topic, where.partition, offset,
            )  # fmt: skip

    async def revoke(self, consumer: Any, revoked: Iterable[TopicPartition], *, commit: bool) -> None:
        """Give partitions up, and report it. Nothing may block here.

        The positions that their folds have reached are committed at once: later, the new owner has read the old
        commit.
        """
        numbers = [self._topics.number_of(where) for where in revoked]
        offsets: Offsets = {}
        for number in numbers:
            where = self._topics.where(number)
            state = self.listener.pending(number) if self._epochs.pop(number, None) is not None else None
            if state is not None:
                offsets[where] = to_kafka(state, self._topic_ids.get(number))
            self._topic_ids.pop(number, None)
            self._replaced.pop(where, None)
            self.unreported.pop(where, None)
            self._out_of_range.pop(where, None)
            self.flow.close_partition(number)
        if offsets and commit:
            try:
                await consumer.commit_async(offsets)
            except KafkaError as error:
                logger.warning("the last offsets before a rebalance are not committed (%s)", translate(error))
        if numbers:
            self.call(self.listener.revoked, numbers)
