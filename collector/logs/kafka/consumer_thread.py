"""The thread of a Kafka consumer: it subscribes, polls, pauses, commits and reports. It never processes a record.

The event loop cannot poll itself: kafka-python blocks, and a fold that is busy for long must not stop the heartbeats,
or the group would give its partitions to others. kafka-python has no other thread for this consumer.

A broker removes a member that it has not heard of for `session_timeout`. So a member is certain of its partitions for
that long after it sent a heartbeat that was answered, by a clock that also counts while the process stands still.

A watchdog ends the process when a loop hangs. kafka-python 3.0.12 can wait indefinitely inside `poll`, where no timeout
of ours applies and no thread can be stopped: only a restart helps. When a release returns from every `poll` within its
timeout, the watchdog can go.
"""

import asyncio
import logging
import math
import threading
import time
from bisect import insort
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any

from kafka.consumer import subscription_state
from kafka.consumer.group import KafkaConsumer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.errors import FencedInstanceIdError
from kafka.structs import TopicPartition

from collector.backoff import FailureLog
from collector.logs.consumer_runner import DeliveryPace, since_boot
from collector.logs.journal.stall_watchdog import exit_stalled
from collector.logs.kafka import owned_partitions, workarounds
from collector.logs.kafka.connections import connect
from collector.logs.kafka.group_members import ask_brokers
from collector.logs.kafka.group_watch import GroupView, GroupWatch
from collector.logs.kafka.records import RecordDecoder
from collector.logs.kafka.settings import KafkaSettings, absent, milliseconds, named_topics, translate
from collector.logs.kafka.subscription import GroupListener, Polled, Subscription
from collector.logs.kafka.workarounds import known_partitions, wait_in_thread
from collector.logs.log import (
    Broadcast,
    Committed,
    LogError,
    LogRefused,
    LogUnavailable,
    NotPermitted,
    StoredRecord,
    UnreadableRecords,
)


class Membership:
    """A consumer's membership, in its event loop. `ask` sends a heartbeat now, if a broker can take it."""

    def __init__(
        self, session_timeout: float, ask: Callable[[], None], clock: Callable[[], float] = since_boot
    ) -> None:
        self._session_timeout = session_timeout
        self._ask = ask
        self._clock = clock
        self._confirmed_at = -math.inf
        self._closing = 0
        self._changed = Broadcast()

    def confirmed(self, sent_at: float) -> None:
        """A heartbeat was answered that was sent at this time of the clock."""
        self._confirmed_at = max(self._confirmed_at, sent_at)
        self._changed.notify()

    def revoked(self) -> None:
        """Partitions were revoked: nothing is certain until their folds are closed."""
        self._closing += 1

    def closed(self) -> None:
        """The folds of partitions that were revoked are closed."""
        self._closing -= 1
        self._changed.notify()

    async def confirm(self, *, newly: bool = False) -> None:
        """Wait until this process is certain of its partitions: with `newly`, by a heartbeat from now on."""
        since = self._clock() if newly else -math.inf
        while self._closing or self._confirmed_at < max(since, self._clock() - self._session_timeout):
            self._ask()
            await self._changed.wait()


CHECKS = 6
"""Checks within the limit. Beats are counted, not timed, so that a suspended machine is not a stall."""


class Watchdog:
    """Calls `on_stall` once when `beat` was not called for about `limit` seconds."""

    def __init__(self, what: str, limit: float, on_stall: Callable[[], None] = exit_stalled) -> None:
        self._what = what
        self._limit = limit
        self._on_stall = on_stall
        self._beats = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name=f"watchdog of {what}", daemon=True)

    def start(self) -> None:
        """Start watching."""
        self._thread.start()

    def beat(self) -> None:
        """Report that the loop runs."""
        self._beats += 1

    def stop(self) -> None:
        """Stop watching."""
        self._stopped.set()

    def _watch(self) -> None:
        seen, missed = -1, 0
        while not self._stopped.wait(self._limit / CHECKS):
            missed = missed + 1 if self._beats == seen else 0
            seen = self._beats
            if missed >= CHECKS:
                logger.critical("%s has not moved for %g s", self._what, self._limit)
                self._on_stall()
                return


class ReadingFailures:
    """The failures of a group's reading, by topic; with the name "" of all of it. Each has log lines of its own."""

    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription
        self._logs: dict[str, FailureLog] = {}
        self._failed: dict[str, tuple[float, LogError]] = {}

    def failed(self, problem: LogError, topics: Collection[str] = ()) -> None:
        """An attempt failed: for some topics, or for all."""
        for topic in topics or [""]:
            action = f"reading {topic} for group {self._subscription.group}".replace("  ", " ")
            self._logs.setdefault(topic, FailureLog(action)).failed(problem)
            before = self._failed.get(topic, (0.0, problem))[1]  # an outage is no end of a refusal
            self._failed[topic] = time.monotonic(), before if isinstance(before, LogRefused) else problem
        self._report()

    def end(self, answered: Callable[[str, float], bool]) -> None:
        """End the failures of what brokers have answered for, given its name and when it failed (s, monotonic).

        A poll that returns nothing is no answer: it returns nothing without a connection, too.
        """
        for topic in [topic for topic, (at, _) in self._failed.items() if answered(topic, at)]:
            del self._failed[topic]
            self._logs[topic].succeeded()
        self._report()

    def _report(self) -> None:
        refused = [problem for _, problem in self._failed.values() if isinstance(problem, LogRefused)]
        self._subscription.on_refused(refused[0] if refused else None)


TOPICS_WITHIN = 5.0
"""Seconds that joining waits for what brokers say of the topics."""

REFUSED_WAIT = 2.0
"""Seconds between two attempts of a consumer that a broker refuses: each is a failed login in the broker's log."""


@dataclass(eq=False, repr=False)
class GroupStart:
    """Starts one consumer in the thread that polls. `stopping` ends every wait."""

    settings: KafkaSettings
    subscription: Subscription
    stopping: threading.Event
    watchdog: Watchdog
    reading: ReadingFailures

    def connect(self) -> Any:
        """A consumer that has reached a broker; None if the start was stopped before.

        Raises:
            LogUnavailable: no broker answers for the subscription's patience.
        """
        give_up_at = time.monotonic() + self.subscription.patience
        while not self.stopping.is_set():
            self.watchdog.beat()
            try:
                return connect(KafkaConsumer, self.settings, self._options())
            except LogUnavailable as error:
                self.reading.failed(error)
                refused = isinstance(error, LogRefused)
                if not refused and time.monotonic() >= give_up_at:
                    raise
                self.stopping.wait(REFUSED_WAIT if refused else 0.5)
        return None

    def subscribe(self, consumer: Any, listener: Any) -> None:
        """Subscribe, and wait for the topics."""
        consumer.subscribe(topics=self.subscription.topics.names, listener=listener)
        # until partitions are known: a leader that joins before that may assign none
        give_up_at = time.monotonic() + TOPICS_WITHIN
        while known_partitions(consumer, self.subscription.topics.names) is None and time.monotonic() < give_up_at:
            if self.stopping.is_set():
                return
            wait_in_thread(consumer, 0.01)

    def _options(self) -> dict[str, Any]:
        settings, subscription = self.settings, self.subscription
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


logger = logging.getLogger(__name__)

_RebalanceListener: Any = vars(subscription_state)["AsyncConsumerRebalanceListener"]  # untyped

HIDDEN_AFTER = 5.0
"""A topic is reported as missing after the brokers' answers have lacked it for this many seconds, and the brokers after
there was no connection for so long: after a lost connection no topic is known for a moment."""
POLL = 0.5
"""Seconds that a poll waits for records, and so the longest time until a commit is sent."""

POLL_PAUSED = 0.02
"""The same while a partition is paused, and so the longest time until it is resumed."""

POLL_WITHOUT_GROUP = 1.0
"""The same while brokers give this consumer nothing, and take no commit: see `waits_for_group`."""

RECORDS_PER_POLL = 2_000
"""The most records of one poll, by which a partition's waiting records may exceed their limit."""

CLOSE_WITHIN = 5.0
"""Seconds that leaving the group may take."""

STOPS_WITHIN = 0.1
"""Seconds that a wait may go on after `stop`."""


@dataclass(eq=False, repr=False)
class ConsumerThread:
    """One consumer in one thread. `start` it in the event loop of its listener; `stop` ends it."""

    settings: KafkaSettings
    subscription: Subscription
    listener: GroupListener
    flow: owned_partitions.PrefetchLimiter

    def __post_init__(self) -> None:
        settings, subscription = self.settings, self.subscription
        self._topics = subscription.topics
        self._pace = DeliveryPace()
        self._records_per_poll = min(RECORDS_PER_POLL, settings.max_queued[0])
        self._decoding = RecordDecoder(settings.max_batch_bytes, self._topics.number_of)
        group, instance, wait = subscription.group, subscription.instance, subscription.wait
        self._watchdog = Watchdog(f"reading for group {group}", settings.stall_timeout, subscription.on_stall)
        self._group_watch = GroupWatch(group, partial(ask_brokers, settings, group), instance=instance, wait=wait)
        self._consumer: Any = None
        self._send_heartbeat: Callable[[], None] | None = None
        self._call = partial(_call_in, asyncio.get_running_loop())
        self._commits = owned_partitions.CommitSender(self._call, group, settings)
        self.owned = owned_partitions.OwnedPartitions(subscription, self.listener, self.flow, self._commits, self._call)
        self._failing_since: float | None = None
        self._hidden_since: float | None = None
        self._silent_since: float | None = None
        self._reading = ReadingFailures(subscription)
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
            self._commits.add(owned_partitions.CommitCommand(states, done))

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
            failure = translate(error, self.settings)
            logger.debug("the consumer thread has ended", exc_info=True)
        finally:
            self._close()
            self._watchdog.stop()
            self._call(self._report_end, failure)

    def _report_end(self, failure: LogError | None) -> None:
        self._ended.set()
        self._commits.end()
        if failure is not None:
            self.listener.failed(failure)

    def _start(self) -> bool:
        """Connect and subscribe; says whether there is a consumer, which there is not if `stop` was called before."""
        start = GroupStart(self.settings, self.subscription, self._stopping, self._watchdog, self._reading)
        consumer = self._consumer = start.connect()
        if consumer is None:
            return False
        workarounds.poll_in_one_thread(consumer)
        self._decoding.install(consumer)
        workarounds.report_out_of_range(consumer, self.owned.set_out_of_range)
        workarounds.wait_in_poll(consumer)
        self._send_heartbeat = workarounds.report_heartbeats(
            consumer, partial(self._call, self.listener.confirmed), self._is_fenced.set
        )
        start.subscribe(consumer, _Listener(self.owned, consumer))
        return True

    def _poll_until_stopped(self) -> None:
        while not self._stopping.is_set():
            self._watchdog.beat()
            self._commits.send_queued(self._consumer, self.owned.offsets_of)
            polled: owned_partitions.PolledRecords = {}
            try:
                self._wait(self._pace.wait(time.monotonic()))
                if self._is_fenced.is_set():
                    raise FencedInstanceIdError  # noqa: TRY301 - as `poll` would
                longest = POLL_PAUSED if self._apply_pauses() else POLL
                workarounds.keep_joining(self._consumer)
                reached = self._silent_since is None and self._failing_since is None
                if self._group_watch.should_rejoin(self._group_view, reached=reached):
                    workarounds.rejoin(self._consumer)
                workarounds.give_back_parked_records(self._consumer)
                longest = POLL_WITHOUT_GROUP if workarounds.waits_for_group(self._consumer) else longest
                polled = self._consumer.poll(timeout_ms=milliseconds(longest), max_records=self._records_per_poll)
                self.owned.notice_replaced(self._consumer, polled)
                self.owned.report_assigned(self._consumer, polled, milliseconds(self.settings.request_timeout))
                self.owned.report_out_of_range(self._consumer, polled)
            except Exception as error:  # noqa: BLE001 - whatever it is, the next `poll` may succeed
                self._tolerate(error)
            else:
                self._failing_since = None
                self._note_answers()
            self._report_polled(polled)
        self._commits.send_queued(self._consumer, self.owned.offsets_of)

    def _note_answers(self) -> None:
        """A poll succeeded: what brokers have answered for is well, unless they now hide a topic from this user.

        Without a connection a poll succeeds, too.
        """
        hidden, now = workarounds.hidden_topics(self._consumer, self._topics.names), time.monotonic()
        answered_at = workarounds.last_answer(self._consumer)
        self._silent_since = None if answered_at else self._silent_since or now
        if self._silent_since is not None and now - self._silent_since >= HIDDEN_AFTER:
            self._fail(LogUnavailable(f"no Kafka broker answers at {', '.join(self.settings.bootstrap_servers)}"))
        self._hidden_since = (self._hidden_since or now) if hidden else None
        if self._hidden_since is not None and now - self._hidden_since >= HIDDEN_AFTER:  # else the last report stays
            self._fail(NotPermitted(f"{absent(hidden)}: it is waited for"), hidden)
        if not workarounds.waits_for_group(self._consumer):
            unread = {where.topic for where in self._consumer.assignment()} - self._decoding.answered
            self._reading.end(lambda topic, at: topic not in {*hidden, *unread} and answered_at > at)

    def _fail(self, problem: LogError, topics: Collection[str] = ()) -> None:
        self._decoding.answered.difference_update(topics)
        self._reading.failed(problem, topics)

    def _group_view(self) -> GroupView:
        consumer = self._consumer
        return GroupView(
            joined=not workarounds.waits_for_group(consumer),
            generation=consumer.group_metadata().generation_id,
            partitions=workarounds.known_partitions(consumer, self._topics.names) or frozenset(),
            owned=frozenset(consumer.assignment()),
        )

    def _tolerate(self, error: Exception) -> None:
        """Let an error of `poll` pass, up to the patience: most go away, and kafka-python retries by itself."""
        problem = translate(error, self.settings, group=self.subscription.group)
        if not isinstance(problem, LogUnavailable):
            raise problem from error
        if isinstance(problem, LogRefused):  # an operator has to grant the right, and we wait for that
            self._fail(problem, [topic for topic in self._topics.names if {topic} & named_topics(error)])
            self._wait(REFUSED_WAIT)
            return
        now = time.monotonic()
        self._failing_since = self._failing_since or now
        self._reading.failed(problem)
        if now - self._failing_since > self.subscription.patience:
            raise problem from error
        self._wait(0.1)

    def _wait(self, seconds: float) -> None:
        """Wait so long, or until `stop`; heartbeats go out meanwhile."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not self._stopping.is_set():
            workarounds.wait_in_thread(self._consumer, min(left, STOPS_WITHIN))

    def _apply_pauses(self) -> bool:
        """Pause and resume. Asks the consumer each time what is paused: a rebalance may have unpaused it."""
        wanted = {self._topics.where(number) for number in self.flow.paused_partitions()} & self._consumer.assignment()
        actual: set[TopicPartition] = self._consumer.paused()
        if wanted - actual:
            self._consumer.pause(*(wanted - actual))
        if actual - wanted:
            self._consumer.resume(*(actual - wanted))
        return bool(wanted)

    def _report_polled(self, polled: owned_partitions.PolledRecords) -> None:
        records = {self._topics.number_of(where): batch for where, batch in polled.items()}
        for gap in self._decoding.drain_unreadable():
            self.subscription.on_unreadable(gap)
            number = self._topics.number_of(TopicPartition(gap.topic, gap.partition))
            at = self._decoding.times.get(number, (0, 0.0))[1] or time.time()
            unreadable = UnreadableRecords(
                number, gap.offset, at, None, b"", end_offset=gap.end_offset, reason=gap.error
            )
            insort(records.setdefault(number, []), unreadable, key=attrgetter("offset"))
        moved = self.owned.moved(self._consumer)
        batches = [
            _polled(number, records.get(number, ()), moved.get(number, 0)) for number in records.keys() | moved.keys()
        ]
        if batches:
            self._pace.add(
                sum(len(batch.records) for batch in batches), sum(batch.size for batch in batches), time.monotonic()
            )
            for batch in batches:
                self.flow.add(batch.partition, len(batch.records), batch.size)
            self._call(self.listener.polled, batches)

    def _close(self) -> None:
        if self._consumer is None:
            return
        try:
            self._consumer.close(autocommit=False, timeout_ms=milliseconds(CLOSE_WITHIN))
        except Exception as error:  # noqa: BLE001 - the thread ends anyway, and the first error is reported
            logger.warning("the consumer of group %s did not close cleanly (%s)", self.subscription.group, error)


def _call_in(loop: asyncio.AbstractEventLoop, function: Callable[..., object], *arguments: object) -> None:
    with suppress(RuntimeError):  # the loop is closed: there is no caller left
        loop.call_soon_threadsafe(function, *arguments)


def _polled(number: int, records: Sequence[StoredRecord], end: int) -> Polled:
    end = max([end, *(getattr(last, "end_offset", last.offset + 1) for last in records[-1:])])
    return Polled(number, records, end, sum([len(record.value) for record in records]))


class _Listener(_RebalanceListener):
    """Called inside kafka-python; only asynchronous commits are possible there."""

    def __init__(self, owned: owned_partitions.OwnedPartitions, consumer: Any) -> None:
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
