"""The thread of a Kafka consumer. It polls, pauses, commits and reports; it never processes a record and never waits.

The event loop cannot poll itself: kafka-python blocks, and a fold that is busy for long must not stop the heartbeats,
or the group would give its partitions to others. kafka-python has no other thread for this consumer.
"""

import asyncio
import logging
import threading
import time
from bisect import insort
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from operator import attrgetter
from typing import Any

from kafka.consumer import subscription_state
from kafka.errors import FencedInstanceIdError
from kafka.structs import TopicPartition

from collector.backoff import FailureLog
from collector.logs.consumer_runner import DeliveryPace
from collector.logs.kafka import workarounds
from collector.logs.kafka.group_watch import GroupView, GroupWatch, ask_brokers
from collector.logs.kafka.membership import REFUSED_WAIT, GroupStart, Watchdog
from collector.logs.kafka.owned_partitions import CommitCommand, CommitSender, OwnedPartitions, PrefetchLimiter
from collector.logs.kafka.records import RecordDecoder
from collector.logs.kafka.settings import KafkaSettings, absent, milliseconds, translate
from collector.logs.kafka.start_offsets import PolledRecords
from collector.logs.kafka.subscription import GroupListener, Polled, Subscription
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

STOPS_WITHIN = 0.1
"""Seconds that a wait may go on after `stop`."""


class ConsumerThread:
    """One consumer in one thread. `start` it in the event loop of its listener; `stop` ends it."""

    def __init__(
        self, settings: KafkaSettings, subscription: Subscription, listener: GroupListener, flow: PrefetchLimiter
    ) -> None:
        self._settings = settings
        self._subscription = subscription
        self._topics = subscription.topics
        self._listener = listener
        self._flow = flow
        self._pace = DeliveryPace()
        self._records_per_poll = min(RECORDS_PER_POLL, settings.max_queued[0])
        self._decoding = RecordDecoder(settings.max_batch_bytes, self._topics.number_of)
        self._watchdog = Watchdog(
            f"reading for group {subscription.group}", settings.stall_timeout, subscription.on_stall
        )
        self._group_watch = GroupWatch(
            subscription.group, partial(ask_brokers, settings, subscription.group), instance=subscription.instance
        )
        self._consumer: Any = None
        self._send_heartbeat: Callable[[], None] | None = None
        self._call = partial(_call_in, asyncio.get_running_loop())
        self._commits = CommitSender(self._call)
        self._owned = OwnedPartitions(subscription, listener, flow, self._commits, self._call)
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
            self._commits.add(CommitCommand(states, done))

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
            if self._start():
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
        self._commits.end()
        if failure is not None:
            self._listener.failed(failure)

    def _start(self) -> bool:
        """Connect and subscribe; says whether there is a consumer, which there is not if `stop` was called before."""
        start = GroupStart(self._settings, self._subscription, self._stopping, self._watchdog, self._reading)
        consumer = self._consumer = start.connect()
        if consumer is None:
            return False
        workarounds.poll_in_one_thread(consumer)
        self._decoding.install(consumer)
        workarounds.report_out_of_range(consumer, self._owned.set_out_of_range)
        workarounds.wait_in_poll(consumer)
        self._send_heartbeat = workarounds.report_heartbeats(
            consumer, partial(self._call, self._listener.confirmed), self._is_fenced.set
        )
        start.subscribe(consumer, _Listener(self._owned, consumer))
        return True

    def _poll_until_stopped(self) -> None:
        while not self._stopping.is_set():
            self._watchdog.beat()
            self._commits.send_queued(self._consumer, self._owned.offsets_of)
            polled: PolledRecords = {}
            try:
                self._wait(self._pace.wait(time.monotonic()))
                self._raise_if_fenced()
                paused = self._apply_pauses()
                workarounds.keep_joining(self._consumer)
                if self._group_watch.should_rejoin(self._group_view):
                    workarounds.rejoin(self._consumer)
                workarounds.give_back_parked_records(self._consumer)
                polled = self._consumer.poll(
                    timeout_ms=milliseconds(self._longest_poll(paused=paused)), max_records=self._records_per_poll
                )
                self._owned.notice_replaced(self._consumer, polled)
                self._owned.report_assigned(self._consumer, polled, milliseconds(self._settings.request_timeout))
                self._owned.report_out_of_range(self._consumer, polled)
            except Exception as error:  # noqa: BLE001 - whatever it is, the next `poll` may succeed
                self._tolerate(error)
            else:
                self._failing_since = None
                self._note_hidden_topics()
            self._report_polled(polled)
        self._commits.send_queued(self._consumer, self._owned.offsets_of)

    def _note_hidden_topics(self) -> None:
        """A poll has not failed: all is well, unless brokers show this user a topic no more."""
        hidden = workarounds.hidden_topics(self._consumer, self._topics.names)
        refused = LogRefused(f"{absent(hidden)}: it is waited for") if hidden else None
        if refused is None:
            self._reading.succeeded()
        else:
            self._reading.failed(refused)
        self._subscription.on_refused(refused)

    def _raise_if_fenced(self) -> None:
        if self._is_fenced.is_set():
            raise FencedInstanceIdError

    def _group_view(self) -> GroupView:
        consumer = self._consumer
        return GroupView(
            joined=not workarounds.waits_for_group(consumer),
            generation=consumer.group_metadata().generation_id,
            partitions=workarounds.known_partitions(consumer, self._topics.names) or frozenset(),
            owned=frozenset(consumer.assignment()),
        )

    def _longest_poll(self, *, paused: bool) -> float:
        if workarounds.waits_for_group(self._consumer):
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
            self._subscription.on_refused(problem)
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
            workarounds.wait_in_thread(self._consumer, min(left, STOPS_WITHIN))

    def _apply_pauses(self) -> bool:
        """Pause and resume. Compared with the consumer each time: it unpauses what a rebalance assigns again."""
        wanted = {self._topics.where(number) for number in self._flow.paused_partitions()} & self._consumer.assignment()
        actual: set[TopicPartition] = self._consumer.paused()
        if wanted - actual:
            self._consumer.pause(*(wanted - actual))
        if actual - wanted:
            self._consumer.resume(*(actual - wanted))
        return bool(wanted)

    def _report_polled(self, polled: PolledRecords) -> None:
        records: dict[int, list[StoredRecord]] = {
            self._topics.number_of(where): batch for where, batch in polled.items()
        }
        for gap in self._decoding.drain_unreadable():
            self._subscription.on_unreadable(gap)
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

    def _close(self) -> None:
        if self._consumer is None:
            return
        try:
            self._consumer.close(autocommit=False, timeout_ms=milliseconds(CLOSE_WITHIN))
        except Exception as error:  # noqa: BLE001 - the thread ends all the same, and the first error is reported
            logger.warning("the consumer of group %s did not close cleanly (%s)", self._subscription.group, error)


def _call_in(loop: asyncio.AbstractEventLoop, function: Callable[..., object], *arguments: object) -> None:
    with suppress(RuntimeError):  # the loop is closed: nobody is left to call
        loop.call_soon_threadsafe(function, *arguments)


def _polled(number: int, records: list[StoredRecord]) -> Polled:
    last = records[-1]
    end = last.end_offset if isinstance(last, UnreadableRecords) else last.offset + 1
    return Polled(number, records, end, sum([len(record.value) for record in records]))


class _Listener(_RebalanceListener):
    """Called inside kafka-python; only asynchronous commits are possible there."""

    def __init__(self, owned: OwnedPartitions, consumer: Any) -> None:
        self._owned = owned
        self._consumer = consumer

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """They may still be committed."""
        await self._owned.revoke(self._consumer, revoked, commit=True)

    async def on_partitions_lost(self, lost: Iterable[TopicPartition]) -> None:
        """Another member owns them already."""
        await self._owned.revoke(self._consumer, lost, commit=False)

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """They are reported after the poll that they came with."""
        self._owned.add_assigned(assigned)
