"""The partitions that a consumer owns: which are new, where each begins, what is lost of them, and when each goes.

All of it happens in the thread that polls. The listener hears of it in the event loop.

Sends the commits of a consumer in the thread that polls; they are asked for in the event loop.

The limit on what was polled and waits for its fold: partitions beyond it are paused.

Not a `BoundedGate`: the thread that polls must never wait, or it would leave the group; it stops fetching instead. And
it counts from two threads.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kafka.errors import KafkaError
from kafka.structs import TopicPartition

from collector.logs.kafka.commits import to_kafka
from collector.logs.kafka.settings import translate
from collector.logs.kafka.start_offsets import PolledRecords, StartOffsets
from collector.logs.kafka.subscription import Assigned, GroupListener, LostRecords, Subscription
from collector.logs.kafka.workarounds import position_after_reset, topic_id
from collector.logs.log import Committed, LogError, LogUnavailable
from collector.telemetry.drop_reasons import LossReason


class _Waiting:
    __slots__ = ("bytes", "items", "paused")

    def __init__(self) -> None:
        self.items = 0
        self.bytes = 0
        self.paused = False


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
    """Queues and sends commits, and keeps those that no broker has answered."""

    def __init__(self, call: CallInLoop) -> None:
        self._call = call
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
            self._call(done, translate(answer) if isinstance(answer, Exception) else None)

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
        self._assigned: dict[TopicPartition, None] = {}  # not yet reported, in the order of assignment
        self._out_of_range: dict[TopicPartition, int] = {}  # what was to be read and is not there, until it is reported
        self._epochs: dict[int, int] = {}
        self._topic_ids: dict[int, str] = {}  # of the topics of others, as they were when the partition was assigned
        self._last_topic_ids: dict[int, str] = {}  # the same, also of what was revoked: brokers forget their commits
        self._replaced: dict[TopicPartition, int] = {}  # not yet reported, with the next offset of the topic before
        self._epoch = 0

    def add_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Take partitions that were assigned; `report_assigned` tells the listener."""
        self._assigned.update(dict.fromkeys(assigned))

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
                self._assigned[where] = None

    def _current_topic_ids(self, consumer: Any) -> dict[str, str]:
        """The ids of the topics of others, as far as brokers have them. Nobody replaces the logs' own."""
        if self.subscription.log is not None:
            return {}
        ids = {topic: topic_id(consumer, topic) for topic in self._topics.names}
        return {topic: known for topic, known in ids.items() if known is not None}

    def report_assigned(self, consumer: Any, polled: PolledRecords, timeout: int) -> None:
        """Report newly assigned partitions, each with its start offset, before their records.

        If that is unknown now, the consumer seeks back, and a later poll returns their records again. Each request to a
        broker may take `timeout` milliseconds.
        """
        assigned = list(self._assigned)
        if not assigned:
            return
        topic_ids = self._current_topic_ids(consumer)
        for where in assigned:
            last = self._last_topic_ids.get(self._topics.number_of(where)) or self.subscription.begun.known(where)
            if last is not None and topic_ids.get(where.topic, last) != last:
                self._replaced.setdefault(where, 0)
        offsets = StartOffsets(consumer, timeout, topic_ids)
        try:
            starts = offsets.find(assigned, polled, self._replaced)
        except Exception:
            for where in assigned:
                offsets.put_back(where, polled)
            raise  # the records of other partitions are reported all the same: no later poll returns them again
        for where, (committed, start) in starts.items():
            if self._assigned.pop(where, False) is None:  # else it was revoked again
                number = self._topics.number_of(where)
                if where.topic in topic_ids:
                    self._topic_ids[number] = self._last_topic_ids[number] = topic_ids[where.topic]
                self._report_assigned_one(number, committed, start)
                if self.subscription.log is None:
                    begun = committed if committed is not None else Committed(start, start)
                    self._begin(consumer, where, begun, noted=where in offsets.of_now)
                self._out_of_range.pop(where, None)
                self._replaced.pop(where, None)
                for offset, end, reason in offsets.lost.get(where, ()):
                    self._report_lost(where, offset, end, reason)

    def _begin(self, consumer: Any, where: TopicPartition, begun: Committed, *, noted: bool) -> None:
        """Commit where reading begins, with the topic's id; then have that id remembered.

        Without the commit a partition that had no record yet would begin at its end again after a restart, if new
        groups do. The other way round, a process killed in between would take a topic for read that it was not.
        """
        topic_id = self._topic_ids.get(self._topics.number_of(where))

        def remember(error: LogError | None) -> None:
            if error is None and topic_id is not None and self.subscription.begun.known(where) != topic_id:
                self.subscription.begun.begun(where, topic_id)

        if noted:
            self.call(remember, None)
        else:
            self.commits.send(consumer, {where: to_kafka(begun, topic_id)}, remember)

    def _report_assigned_one(self, number: int, committed: Committed | None, start: int) -> None:
        self._epoch += 1
        self._epochs[number] = self._epoch
        self.flow.open_partition(number)
        self.call(self.listener.assigned, Assigned(number, self._epoch, committed, start))

    def report_out_of_range(self, consumer: Any, polled: PolledRecords) -> None:
        """Report what retention has deleted while this consumer waited, now that it is known where reading continues.

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

        The positions that their folds have reached are committed here and now: afterwards the new owner has read the
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
            self._assigned.pop(where, None)
            self._out_of_range.pop(where, None)
            self.flow.close_partition(number)
        if offsets and commit:
            try:
                await consumer.commit_async(offsets)
            except KafkaError as error:
                logger.warning("the last offsets before a rebalance are not committed (%s)", translate(error))
        if numbers:
            self.call(self.listener.revoked, numbers)
