"""The thread that owns a consumer. It polls, pauses, commits and tells; it never works on a record and never waits."""

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
from operator import attrgetter
from typing import Any

from kafka.consumer import subscription_state
from kafka.consumer.group import KafkaConsumer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.errors import FencedInstanceIdError, KafkaError
from kafka.structs import TopicPartition

from collector.logs.kafka.beginning import Beginning, Found
from collector.logs.kafka.commits import to_kafka
from collector.logs.kafka.flow import Flow
from collector.logs.kafka.records import Decoding, OnPoison
from collector.logs.kafka.settings import KafkaSettings, connect, milliseconds, translate
from collector.logs.kafka.subscription import Assigned, Owner, Polled, Subscription
from collector.logs.kafka.watchdog import Watchdog
from collector.logs.kafka.workarounds import give_back_parked_records, keep_joining
from collector.logs.log import Committed, LogError, LogUnavailable, Stored, Unreadable

logger = logging.getLogger(__name__)

_RebalanceListener: Any = vars(subscription_state)["AsyncConsumerRebalanceListener"]  # untyped

POLL = 0.1
"""Seconds that a poll waits for records: how soon a commit is noticed."""

POLL_PAUSED = 0.02
"""The same while a partition is paused: how soon it goes on."""

RECORDS_PER_POLL = 2_000
"""What one poll gives at most, and so how much more than its bound may wait for a partition's fold."""

CLOSE_WITHIN = 5.0
"""Seconds that leaving the group may take."""


@dataclass(frozen=True, slots=True)
class _Commit:
    states: Mapping[int, tuple[int, Committed]]
    done: Callable[[LogError | None], None]


class Polling:
    """One consumer in one thread. `start` it in the event loop that its owner lives in; `stop` ends it."""

    def __init__(
        self,
        settings: KafkaSettings,
        subscription: Subscription,
        owner: Owner,
        *,
        flow: Flow,
        on_poison: OnPoison,
        on_stall: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._subscription = subscription
        self._topics = subscription.topics
        self._owner = owner
        self._flow = flow
        self._on_poison = on_poison
        self._records_per_poll = min(RECORDS_PER_POLL, settings.max_queued[0])
        self._decoding = Decoding(settings.max_batch_bytes, self._topics.number_of)
        self._watchdog = Watchdog(f"reading for group {subscription.group}", settings.stall_timeout, on_stall)
        self._consumer: Any = None
        self._loop = asyncio.get_running_loop()
        self._commands: deque[_Commit] = deque()
        self._unanswered: set[Callable[[LogError | None], None]] = set()
        self._fresh: dict[TopicPartition, None] = {}  # in the order in which they came
        self._epochs: dict[int, int] = {}
        self._epoch = 0
        self._failing_since: float | None = None
        self._stopping = threading.Event()
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

        What this process does not own in that epoch any more is left out.
        """
        if self._ended.is_set():
            done(LogUnavailable("the consumer has ended"))
        else:
            self._commands.append(_Commit(states, done))

    def _run(self) -> None:
        failure: LogError | None = None
        try:
            self._watchdog.start()
            self._consumer = self._connect()
            if self._consumer is not None:
                self._poll_until_stopped()
        except Exception as error:  # the owner must learn of whatever ended the thread
            failure = translate(error)
            logger.debug("reading has ended", exc_info=True)
        finally:
            self._close()
            self._watchdog.stop()
            self._tell(self._end, failure)

    def _end(self, failure: LogError | None) -> None:
        self._ended.set()
        for done in [command.done for command in self._commands] + list(self._unanswered):
            done(LogUnavailable("the consumer has ended"))
        if failure is not None:
            self._owner.failed(failure)

    def _connect(self) -> Any:
        """A consumer that has reached a broker; None if told to stop before."""
        give_up_at = time.monotonic() + self._subscription.patience
        while not self._stopping.is_set():
            self._watchdog.beat()
            try:
                consumer: Any = connect(KafkaConsumer, self._settings, self._options())
            except LogUnavailable:
                if time.monotonic() >= give_up_at:
                    raise
                self._stopping.wait(0.5)
            else:
                self._decoding.install(consumer)
                consumer.subscribe(topics=self._topics.names, listener=_Listener(self))
                return consumer
        return None

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
            found: Found = {}
            try:
                paused = self._regulate()
                keep_joining(self._consumer)
                give_back_parked_records(self._consumer)
                found = self._consumer.poll(
                    timeout_ms=milliseconds(POLL_PAUSED if paused else POLL),
                    max_records=self._records_per_poll,
                )
                self._welcome(found)
            except Exception as error:  # noqa: BLE001 - whatever it is, the next `poll` may succeed
                self._bear(error)
            else:
                self._failing_since = None
            self._pass_on(found)
        self._commit_commanded()

    def _bear(self, error: Exception) -> None:
        """Errors out of `poll` pass, mostly; kafka-python keeps trying by itself."""
        problem = translate(error)
        if isinstance(error, FencedInstanceIdError):
            raise LogError(f"another process uses the group_instance_id {self._subscription.instance!r}") from error
        if not isinstance(problem, LogUnavailable):
            raise problem from error
        skipped = self._decoding.skip_failed(self._consumer, error)
        now = time.monotonic()
        if self._failing_since is None:
            self._failing_since = now
            logger.warning("the group %s cannot read now (%s); trying again", self._subscription.group, problem)
        if now - self._failing_since > self._subscription.patience and not skipped:
            raise problem from error
        self._stopping.wait(0.1)

    def _regulate(self) -> bool:
        """Pause and resume; newly assigned partitions come unpaused whatever they were before."""
        wanted = {self._topics.where(number) for number in self._flow.paused()} & self._consumer.assignment()
        actual: set[TopicPartition] = self._consumer.paused()
        if wanted - actual:
            self._consumer.pause(*(wanted - actual))
        if actual - wanted:
            self._consumer.resume(*(actual - wanted))
        return bool(wanted)

    def _welcome(self, found: Found) -> None:
        """Find out where newly assigned partitions begin, and tell of them before their records.

        If that cannot be found out now, their records wait for the next time.
        """
        fresh = list(self._fresh)
        if not fresh:
            return
        beginning = Beginning(self._consumer, milliseconds(self._settings.request_timeout))
        try:
            begun = beginning.find(fresh, found)
        except Exception:
            for where in fresh:
                beginning.put_back(where, found)
            raise  # what was found of other partitions is theirs all the same: no later poll gives it again
        for where, (committed, start) in begun.items():
            if self._fresh.pop(where, False) is None:  # else it has gone again
                self._welcome_one(self._topics.number_of(where), committed, start)

    def _welcome_one(self, number: int, committed: Committed | None, start: int) -> None:
        self._epoch += 1
        self._epochs[number] = self._epoch
        self._flow.open(number)
        self._tell(self._owner.assigned, Assigned(number, self._epoch, committed, start))

    def _pass_on(self, found: Found) -> None:
        records: dict[int, list[Stored]] = {self._topics.number_of(where): each for where, each in found.items()}
        for poison in self._decoding.drain_poison():
            self._on_poison(poison)
            number = self._topics.number_of(TopicPartition(poison.topic, poison.partition))
            at = self._decoding.times.get(number) or time.time()
            unreadable = Unreadable(number, poison.position, at, None, b"", end=poison.end, reason=poison.error)
            insort(records.setdefault(number, []), unreadable, key=attrgetter("position"))
        polled = [_polled(number, each) for number, each in records.items()]
        if polled:
            for each in polled:
                self._flow.add(each.partition, len(each.records), each.size)
            self._tell(self._owner.polled, polled)

    def _commit_commanded(self) -> None:
        while self._commands:
            command = self._commands.popleft()
            offsets = {
                self._topics.where(number): to_kafka(state)
                for number, (epoch, state) in command.states.items()
                if self._epochs.get(number) == epoch
            }
            if offsets:
                self._send_commit(offsets, command.done)
            else:
                self._tell(command.done, None)

    def _send_commit(self, offsets: dict[TopicPartition, Any], done: Callable[[LogError | None], None]) -> None:
        def answered(_offsets: object, answer: object) -> None:
            self._unanswered.discard(done)
            self._tell(done, translate(answer) if isinstance(answer, Exception) else None)

        self._unanswered.add(done)
        try:
            self._consumer.commit_async(offsets, callback=answered)
        except KafkaError as error:
            answered(offsets, error)

    async def give_up(self, revoked: Iterable[TopicPartition], *, commit: bool) -> None:
        """Partitions go. In kafka-python's own thread: nothing may block here."""
        numbers = [self._topics.number_of(where) for where in revoked]
        offsets: dict[TopicPartition, Any] = {}
        for number in numbers:
            state = self._owner.pending(number) if self._epochs.pop(number, None) is not None else None
            if state is not None:
                offsets[self._topics.where(number)] = to_kafka(state)
            self._fresh.pop(self._topics.where(number), None)
            self._flow.close(number)
        if offsets and commit:
            try:
                await self._consumer.commit_async(offsets)
            except KafkaError as error:
                logger.warning("the last positions before a rebalance are not committed (%s)", translate(error))
        if numbers:
            self._tell(self._owner.revoked, numbers)

    def take_over(self, assigned: Iterable[TopicPartition]) -> None:
        """Partitions come. In kafka-python's own thread."""
        self._fresh.update(dict.fromkeys(assigned))

    def _close(self) -> None:
        if self._consumer is None:
            return
        try:
            self._consumer.close(autocommit=False, timeout_ms=milliseconds(CLOSE_WITHIN))
        except Exception as error:  # noqa: BLE001 - the thread ends all the same, and its owner is told of the first error
            logger.warning("the consumer of group %s did not close in order (%s)", self._subscription.group, error)

    def _tell(self, what: Callable[..., object], *arguments: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody is left to be told
            self._loop.call_soon_threadsafe(what, *arguments)


def _polled(number: int, records: list[Stored]) -> Polled:
    last = records[-1]
    end = last.end if isinstance(last, Unreadable) else last.position + 1
    return Polled(number, records, end, sum([len(record.value) for record in records]))


class _Listener(_RebalanceListener):
    """Called in kafka-python's own thread; only asynchronous commits are possible there."""

    def __init__(self, polling: Polling) -> None:
        self._polling = polling

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """They go, and may still be committed."""
        await self._polling.give_up(revoked, commit=True)

    async def on_partitions_lost(self, lost: Iterable[TopicPartition]) -> None:
        """They are somebody else's already."""
        await self._polling.give_up(lost, commit=False)

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """They come."""
        self._polling.take_over(assigned)
