"""The thread of a Kafka consumer. It polls, pauses, commits and reports; it never processes a record and never waits.

The event loop cannot poll itself: kafka-python blocks, and a fold that is busy for long must not stop the heartbeats,
or the group would give its partitions to others. kafka-python has no other thread for this consumer.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from bisect import insort
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any

from kafka.consumer import subscription_state
from kafka.consumer.group import KafkaConsumer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.errors import FencedInstanceIdError, KafkaError
from kafka.structs import TopicPartition

from collector.backoff import FailureLog
from collector.logs.delivery_pace import DeliveryPace
from collector.logs.kafka.commits import to_kafka
from collector.logs.kafka.connections import connect
from collector.logs.kafka.former_groups import take_over
from collector.logs.kafka.group_watch import GroupView, GroupWatch, ask_brokers
from collector.logs.kafka.losses import LossReason, LostRecords, OnLost
from collector.logs.kafka.membership import Watchdog
from collector.logs.kafka.prefetch import PrefetchLimiter
from collector.logs.kafka.records import OnUnreadable, RecordDecoder
from collector.logs.kafka.settings import KafkaSettings, milliseconds, translate
from collector.logs.kafka.start_offsets import PolledRecords, StartOffsets
from collector.logs.kafka.subscription import Assigned, GroupListener, Polled, Subscription
from collector.logs.kafka.workarounds import (
    give_back_parked_records,
    is_leader,
    keep_joining,
    known_partitions,
    poll_in_one_thread,
    position_after_reset,
    rejoin,
    report_heartbeats,
    report_out_of_range,
    topic_id,
    wait_in_poll,
    wait_in_thread,
    waits_for_group,
)
from collector.logs.log import Committed, LogError, LogRefused, LogUnavailable, StoredRecord, UnreadableRecords

logger = logging.getLogger(__name__)

_RebalanceListener: Any = vars(subscription_state)["AsyncConsumerRebalanceListener"]  # untyped

POLL = 0.25
"""Seconds that a poll waits for records, and so the longest time until a commit is sent."""

POLL_PAUSED = 0.02
"""The same while a partition is paused, and so the longest time until it is resumed."""

POLL_WITHOUT_GROUP = 1.0
"""The same while brokers give this consumer nothing, and take no commit: see `waits_for_group`."""

RECORDS_PER_POLL = 2_000
"""The most that one poll returns, and so how much more than its limit may wait for a partition's fold."""

CLOSE_WITHIN = 5.0
"""Seconds that leaving the group may take."""

FORMER_WAIT = 1.0
"""Seconds between two looks at a former group."""

TOPICS_WITHIN = 5.0
"""Seconds that joining waits for what brokers say of the topics."""

STOPS_WITHIN = 0.1
"""Seconds that a wait may go on after `stop`."""

REFUSED_WAIT = 2.0
"""Seconds between two attempts of a consumer that a broker refuses: each is a failed login in somebody's log."""


@dataclass(frozen=True, slots=True)
class _CommitCommand:
    states: Mapping[int, tuple[int, Committed]]
    done: Callable[[LogError | None], None]


class ConsumerThread:
    """One consumer in one thread. `start` it in the event loop of its listener; `stop` ends it."""

    def __init__(
        self,
        settings: KafkaSettings,
        subscription: Subscription,
        listener: GroupListener,
        *,
        flow: PrefetchLimiter,
        on_unreadable: OnUnreadable,
        on_lost: OnLost,
        on_stall: Callable[[], None],
        on_refused: Callable[[LogRefused | None], None] = lambda _: None,
    ) -> None:
        """`on_refused` is called in the thread: with the reason while brokers refuse us, with None when they do not."""
        self._on_refused = on_refused
        self._settings = settings
        self._subscription = subscription
        self._topics = subscription.topics
        self._listener = listener
        self._flow = flow
        self._pace = DeliveryPace()
        self._on_unreadable = on_unreadable
        self._on_lost = on_lost
        self._records_per_poll = min(RECORDS_PER_POLL, settings.max_queued[0])
        self._decoding = RecordDecoder(settings.max_batch_bytes, self._topics.number_of)
        self._watchdog = Watchdog(f"reading for group {subscription.group}", settings.stall_timeout, on_stall)
        self._group_watch = GroupWatch(
            subscription.group,
            partial(ask_brokers, settings, subscription.group),
            named=subscription.instance is not None,
        )
        self._consumer: Any = None
        self._send_heartbeat: Callable[[], None] | None = None
        self._loop = asyncio.get_running_loop()
        self._commands: deque[_CommitCommand] = deque()
        self._unanswered: set[Callable[[LogError | None], None]] = set()
        self._assigned: dict[TopicPartition, None] = {}  # not yet reported, in the order of assignment
        self._out_of_range: dict[TopicPartition, int] = {}  # what was to be read and is not there, until it is reported
        self._epochs: dict[int, int] = {}
        self._topic_ids: dict[int, str] = {}  # of the topics of others, as they were when the partition was assigned
        self._last_topic_ids: dict[int, str] = {}  # the same, also of what was revoked: brokers forget their commits
        self._replaced: dict[TopicPartition, int] = {}  # not yet reported, with the next offset of the topic before
        self._epoch = 0
        self._failing_since: float | None = None
        self._reading = FailureLog(f"reading for group {subscription.group}")
        self._stopping = threading.Event()
        self._is_fenced = threading.Event()
        self._ended = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name=f"kafka {subscription.group}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    async def stop(self) -> None:
        """Commit what is pending, leave the group, end the thread."""
        self._stopping.set()
        await self._ended.wait()

    def commit(self, states: Mapping[int, tuple[int, Committed]], done: Callable[[LogError | None], None]) -> None:
        """Commit states, each with the epoch it was reached in; `done` is called in the event loop.

        Partitions that this process does not own in that epoch any more are skipped: their new owner commits them.
        """
        if self._ended.is_set():
            done(LogUnavailable("the consumer has ended"))
        else:
            self._commands.append(_CommitCommand(states, done))

    @property
    def long_wait(self) -> float | None:
        """For how many seconds the group could not be joined, once that is long."""
        return self._group_watch.long_wait

    def ask_membership(self) -> None:
        """Send a heartbeat now, if there is a connection; the first one goes out in any case."""
        if self._send_heartbeat is not None:
            self._send_heartbeat()

    def _run(self) -> None:
        failure: LogError | None = None
        try:
            self._watchdog.start()
            self._consumer = self._connect()
            if self._consumer is not None:
                self._poll_until_stopped()
        except Exception as error:  # the listener must learn whatever ended the thread
            failure = translate(error)
            logger.debug("the consumer thread has ended", exc_info=True)
        finally:
            self._close()
            self._watchdog.stop()
            self._call(self._report_end, failure)

    def _report_end(self, failure: LogError | None) -> None:
        self._ended.set()
        for done in [command.done for command in self._commands] + list(self._unanswered):
            done(LogUnavailable("the consumer has ended"))
        if failure is not None:
            self._listener.failed(failure)

    def _connect(self) -> Any:
        """A consumer that has reached a broker; None if `stop` was called before."""
        give_up_at = time.monotonic() + self._subscription.patience
        while not self._stopping.is_set():
            self._watchdog.beat()
            try:
                consumer: Any = connect(KafkaConsumer, self._settings, self._options())
            except LogRefused as error:
                self._reading.failed(error)
                self._on_refused(error)
                self._stopping.wait(REFUSED_WAIT)
            except LogUnavailable:
                if time.monotonic() >= give_up_at:
                    raise
                self._stopping.wait(0.5)
            else:
                poll_in_one_thread(consumer)
                self._decoding.install(consumer)
                report_out_of_range(consumer, self._set_out_of_range)
                wait_in_poll(consumer)
                self._send_heartbeat = report_heartbeats(
                    consumer, partial(self._call, self._listener.confirmed), self._is_fenced.set
                )
                self._await_positions(consumer)
                consumer.subscribe(topics=self._topics.names, listener=_Listener(self))
                self._await_topics(consumer)
                return consumer
        return None

    def _await_topics(self, consumer: Any) -> None:
        """Wait until the partitions of the topics are known: who joins before that may distribute none of them."""
        give_up_at = time.monotonic() + TOPICS_WITHIN
        while known_partitions(consumer, self._topics.names) is None and time.monotonic() < give_up_at:
            if self._stopping.is_set():
                return
            wait_in_thread(consumer, 0.01)

    def _await_positions(self, consumer: Any) -> None:
        """Wait until the group has the positions of its former name, if it had another and has none itself."""
        subscription, waiting = self._subscription, False
        if subscription.former is None:
            return
        while not self._stopping.is_set():
            self._watchdog.beat()
            try:
                if self._has_positions(consumer) or take_over(
                    self._settings, subscription.group, subscription.former, self._topics.names, subscription.instance
                ):
                    return
            except Exception as error:  # noqa: BLE001 - whatever it is, nothing may be read before this is known
                self._reading.failed(translate(error))
            else:
                if not waiting:
                    waiting = True
                    logger.warning(
                        "group %s waits until the processes of an earlier version, which read as %s, have stopped",
                        subscription.group, subscription.former,
                    )  # fmt: skip
            self._stopping.wait(FORMER_WAIT)

    def _has_positions(self, consumer: Any) -> bool:
        """Whether the group has committed for one of the first partitions, which all have after their first second."""
        timeout = milliseconds(self._settings.request_timeout)
        firsts = [TopicPartition(topic, 0) for topic in self._topics.names]
        return any(consumer.committed(where, timeout_ms=timeout) is not None for where in firsts)

    def _options(self) -> dict[str, Any]:
        settings, subscription = self._settings, self._subscription
        return {
            **settings.fetch_options(),
            "group_id": subscription.group,
            "group_instance_id": subscription.instance,
            "partition_assignment_strategy": [CooperativeStickyAssignor()],
            "auto_offset_reset": subscription.start,
            "isolation_level": "read_committed" if subscription.committed_only else "read_uncommitted",
            "session_timeout_ms": milliseconds(settings.session_timeout),
            "heartbeat_interval_ms": milliseconds(min(3.0, settings.session_timeout / 3)),
            "max_poll_interval_ms": milliseconds(settings.max_poll_interval),
        }

    def _poll_until_stopped(self) -> None:
        while not self._stopping.is_set():
            self._watchdog.beat()
            self._commit_commanded()
            polled: PolledRecords = {}
            try:
                self._wait(self._pace.wait(time.monotonic()))
                self._raise_if_fenced()
                paused = self._apply_pauses()
                keep_joining(self._consumer)
                if self._group_watch.should_rejoin(self._group_view):
                    rejoin(self._consumer)
                give_back_parked_records(self._consumer)
                polled = self._consumer.poll(
                    timeout_ms=milliseconds(self._longest_poll(paused=paused)),
                    max_records=self._records_per_poll,
                )
                self._notice_replaced(polled)
                self._report_assigned(polled)
                self._report_out_of_range(polled)
            except Exception as error:  # noqa: BLE001 - whatever it is, the next `poll` may succeed
                self._tolerate(error)
            else:
                self._failing_since = None
                self._reading.succeeded()
                self._on_refused(None)
            self._report_polled(polled)
        self._commit_commanded()

    def _raise_if_fenced(self) -> None:
        if self._is_fenced.is_set():
            raise FencedInstanceIdError

    def _group_view(self) -> GroupView:
        consumer = self._consumer
        return GroupView(
            joined=not waits_for_group(consumer),
            leads=is_leader(consumer),
            generation=consumer.group_metadata().generation_id,
            partitions=known_partitions(consumer, self._topics.names) or frozenset(),
            owned=frozenset(consumer.assignment()),
        )

    def _longest_poll(self, *, paused: bool) -> float:
        if waits_for_group(self._consumer):
            return POLL_WITHOUT_GROUP
        return POLL_PAUSED if paused else POLL

    def _tolerate(self, error: Exception) -> None:
        """Let an error of `poll` pass, up to the patience: most go away, and kafka-python retries by itself."""
        problem = translate(error)
        if isinstance(error, FencedInstanceIdError):
            raise LogError(f"another process uses the group_instance_id {self._subscription.instance!r}") from error
        if not isinstance(problem, LogUnavailable):
            raise problem from error
        if isinstance(problem, LogRefused):  # somebody has to grant what is missing, and we wait for that
            self._reading.failed(problem)
            self._on_refused(problem)
            self._wait(REFUSED_WAIT)
            return
        skipped = self._decoding.skip_failed(self._consumer, error)
        now = time.monotonic()
        if self._failing_since is None:
            self._failing_since = now
        self._reading.failed(problem)
        if now - self._failing_since > self._subscription.patience and not skipped:
            raise problem from error
        self._wait(0.1)

    def _wait(self, seconds: float) -> None:
        """Wait so long, or until `stop`; heartbeats go out meanwhile."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not self._stopping.is_set():
            wait_in_thread(self._consumer, min(left, STOPS_WITHIN))

    def _apply_pauses(self) -> bool:
        """Pause and resume. Compared with the consumer each time: it unpauses what a rebalance assigns again."""
        wanted = {self._topics.where(number) for number in self._flow.paused_partitions()} & self._consumer.assignment()
        actual: set[TopicPartition] = self._consumer.paused()
        if wanted - actual:
            self._consumer.pause(*(wanted - actual))
        if actual - wanted:
            self._consumer.resume(*(actual - wanted))
        return bool(wanted)

    def _notice_replaced(self, polled: PolledRecords) -> None:
        """Begin again with the partitions of a topic that was deleted, and made again, while it was read.

        Offsets alone do not tell: the new topic may have more records than were read of the old one.
        """
        now = self._current_topic_ids()
        for number in list(self._epochs) if now else ():
            where = self._topics.where(number)
            current = now.get(where.topic)
            if current is not None and self._topic_ids.setdefault(number, current) != current:
                records = polled.pop(where, None)
                self._replaced[where] = (
                    records[0].offset if records else position_after_reset(self._consumer, where) or 0
                )
                del self._epochs[number], self._topic_ids[number]
                self._out_of_range.pop(where, None)
                self._flow.close_partition(number)
                self._call(self._listener.revoked, [number])
                self._assigned[where] = None

    def _current_topic_ids(self) -> dict[str, str]:
        """The ids of the topics of others, as far as brokers have them. Nobody replaces the logs' own."""
        if self._subscription.log is not None:
            return {}
        ids = {topic: topic_id(self._consumer, topic) for topic in self._topics.names}
        return {topic: each for topic, each in ids.items() if each is not None}

    def _report_assigned(self, polled: PolledRecords) -> None:
        """Report newly assigned partitions, each with its start offset, before their records.

        If that is unknown now, the consumer seeks back, and a later poll returns their records again.
        """
        assigned = list(self._assigned)
        if not assigned:
            return
        topic_ids = self._current_topic_ids()
        for where in assigned:
            last = self._last_topic_ids.get(self._topics.number_of(where)) or self._subscription.begun.known(where)
            if last is not None and topic_ids.get(where.topic, last) != last:
                self._replaced.setdefault(where, 0)
        offsets = StartOffsets(self._consumer, milliseconds(self._settings.request_timeout), topic_ids)
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
                if self._subscription.log is None:
                    begun = committed if committed is not None else Committed(start, start)
                    self._begin(where, begun, topic_ids.get(where.topic), noted=where in offsets.of_now)
                self._out_of_range.pop(where, None)
                self._replaced.pop(where, None)
                for offset, end, reason in offsets.lost.get(where, ()):
                    self._report_lost(where, offset, end, reason)

    def _begin(self, where: TopicPartition, begun: Committed, topic_id: str | None, *, noted: bool) -> None:
        """Commit where reading begins, with the topic's id; then have that id remembered.

        Without the commit a partition that had no record yet would begin at its end again after a restart, if new
        groups do. The other way round, a process killed in between would take a topic for read that it was not.
        """

        def remember(error: LogError | None) -> None:
            if error is None and topic_id is not None and self._subscription.begun.known(where) != topic_id:
                self._subscription.begun.begun(where, topic_id)

        if noted:
            self._call(remember, None)
        else:
            self._send_commit({where: to_kafka(begun, topic_id)}, remember)

    def _report_assigned_one(self, number: int, committed: Committed | None, start: int) -> None:
        self._epoch += 1
        self._epochs[number] = self._epoch
        self._flow.open_partition(number)
        self._call(self._listener.assigned, Assigned(number, self._epoch, committed, start))

    def _set_out_of_range(self, where: TopicPartition, offset: int) -> None:
        self._out_of_range.setdefault(where, offset)

    def _report_out_of_range(self, polled: PolledRecords) -> None:
        """Report what retention has deleted while this consumer waited, now that it is known where reading continues.

        Not every difference between two offsets is a loss: compaction and the marks of transactions leave some. What
        the broker has declared out of range is one.
        """
        for where, offset in list(self._out_of_range.items()):
            if self._topics.number_of(where) not in self._epochs:
                continue  # newly assigned: its start offset says more; or revoked
            records = polled.get(where)
            start = records[0].offset if records else position_after_reset(self._consumer, where)
            if start is not None:
                del self._out_of_range[where]
                self._report_lost(where, offset, start, "retention")

    def _report_lost(self, where: TopicPartition, offset: int, end: int, reason: LossReason) -> None:
        if end > offset or reason == "topic_replaced":
            name = self._subscription.consumer or self._subscription.group
            log = self._subscription.log or where.topic
            self._on_lost(LostRecords(name, log, where.topic, where.partition, offset, end, reason))
        else:
            logger.error(
                "%s[%d] ends before %d, the next offset to read: records were lost, or the topic is another one of the"
                " same name; reading it from its start", where.topic, where.partition, offset,
            )  # fmt: skip

    def _report_polled(self, polled: PolledRecords) -> None:
        records: dict[int, list[StoredRecord]] = {self._topics.number_of(where): each for where, each in polled.items()}
        for gap in self._decoding.drain_unreadable():
            self._on_unreadable(gap)
            number = self._topics.number_of(TopicPartition(gap.topic, gap.partition))
            at = self._decoding.times.get(number) or time.time()
            unreadable = UnreadableRecords(
                number, gap.offset, at, None, b"", end_offset=gap.end_offset, reason=gap.error
            )
            insort(records.setdefault(number, []), unreadable, key=attrgetter("offset"))
        batches = [_polled(number, record) for number, record in records.items()]
        if batches:
            self._pace.add(
                sum(len(batch.records) for batch in batches), sum(batch.size for batch in batches), time.monotonic()
            )
            for batch in batches:
                self._flow.add(batch.partition, len(batch.records), batch.size)
            self._call(self._listener.polled, batches)

    def _commit_commanded(self) -> None:
        while self._commands:
            command = self._commands.popleft()
            offsets = {
                self._topics.where(number): to_kafka(state, self._topic_ids.get(number))
                for number, (epoch, state) in command.states.items()
                if self._epochs.get(number) == epoch
            }
            if offsets:
                self._send_commit(offsets, command.done)
            else:
                self._call(command.done, None)

    def _send_commit(self, offsets: dict[TopicPartition, Any], done: Callable[[LogError | None], None]) -> None:
        def answered(_offsets: object, answer: object) -> None:
            self._unanswered.discard(done)
            self._call(done, translate(answer) if isinstance(answer, Exception) else None)

        self._unanswered.add(done)
        try:
            self._consumer.commit_async(offsets, callback=answered)
        except KafkaError as error:
            answered(offsets, error)

    async def on_revoked(self, revoked: Iterable[TopicPartition], *, commit: bool) -> None:
        """Partitions were revoked. In kafka-python's own thread: nothing may block here.

        What their folds have reached is committed here and now: afterwards the new owner has read the commit.
        """
        numbers = [self._topics.number_of(where) for where in revoked]
        offsets: dict[TopicPartition, Any] = {}
        for number in numbers:
            state = self._listener.pending(number) if self._epochs.pop(number, None) is not None else None
            if state is not None:
                offsets[self._topics.where(number)] = to_kafka(state, self._topic_ids.get(number))
            self._topic_ids.pop(number, None)
            self._replaced.pop(self._topics.where(number), None)
            self._assigned.pop(self._topics.where(number), None)
            self._out_of_range.pop(self._topics.where(number), None)
            self._flow.close_partition(number)
        if offsets and commit:
            try:
                await self._consumer.commit_async(offsets)
            except KafkaError as error:
                logger.warning("the last offsets before a rebalance are not committed (%s)", translate(error))
        if numbers:
            self._call(self._listener.revoked, numbers)

    def on_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Partitions were assigned. In kafka-python's own thread."""
        self._assigned.update(dict.fromkeys(assigned))

    def _close(self) -> None:
        if self._consumer is None:
            return
        try:
            self._consumer.close(autocommit=False, timeout_ms=milliseconds(CLOSE_WITHIN))
        except Exception as error:  # noqa: BLE001 - the thread ends all the same, and the first error is reported
            logger.warning("the consumer of group %s did not close cleanly (%s)", self._subscription.group, error)

    def _call(self, function: Callable[..., object], *arguments: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody is left to call
            self._loop.call_soon_threadsafe(function, *arguments)


def _polled(number: int, records: list[StoredRecord]) -> Polled:
    last = records[-1]
    end = last.end_offset if isinstance(last, UnreadableRecords) else last.offset + 1
    return Polled(number, records, end, sum([len(record.value) for record in records]))


class _Listener(_RebalanceListener):
    """Called in kafka-python's own thread; only asynchronous commits are possible there."""

    def __init__(self, thread: ConsumerThread) -> None:
        self._thread = thread

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """They may still be committed."""
        await self._thread.on_revoked(revoked, commit=True)

    async def on_partitions_lost(self, lost: Iterable[TopicPartition]) -> None:
        """Another member owns them already."""
        await self._thread.on_revoked(lost, commit=False)

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """See `ConsumerThread.on_assigned`."""
        self._thread.on_assigned(assigned)
