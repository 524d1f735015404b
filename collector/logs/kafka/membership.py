"""A process's membership of a consumer group: until when nobody else can own its partitions.

A broker removes a member that it has not heard of for `session_timeout`. So a member is certain of its partitions for
that long after it sent a heartbeat that was answered, by a clock that also counts while the process stands still.

A watchdog ends the process when a loop hangs. kafka-python 3.0.12 can wait indefinitely inside `poll`, where no timeout
of ours applies and no thread can be stopped: only a restart helps. When a release returns from every `poll` within its
timeout, the watchdog can go.

The start of a consumer: it reaches a broker and subscribes.
"""

import logging
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kafka.consumer.group import KafkaConsumer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor

from collector.backoff import FailureLog
from collector.logs.consumer_runner import since_boot
from collector.logs.journal.stall_watchdog import exit_stalled
from collector.logs.kafka.connections import connect
from collector.logs.kafka.settings import KafkaSettings, milliseconds
from collector.logs.kafka.subscription import Subscription
from collector.logs.kafka.workarounds import known_partitions, wait_in_thread
from collector.logs.log import Broadcast, LogRefused, LogUnavailable


class Membership:
    """Of one consumer, in its event loop. `ask` sends a heartbeat now, if a broker is there to take it."""

    def __init__(
        self, group: str, session_timeout: float, ask: Callable[[], None], clock: Callable[[], float] = since_boot
    ) -> None:
        self._session_timeout = session_timeout
        self._ask = ask
        self._clock = clock
        self._confirmed_at = -math.inf
        self._closing = 0
        self._changed = Broadcast()
        self._uncertain = FailureLog(f"confirming that this process is a member of group {group}")

    def confirmed(self, sent_at: float) -> None:
        """A heartbeat was answered that was sent at this time of the clock."""
        self._confirmed_at = max(self._confirmed_at, sent_at)
        self._uncertain.succeeded()
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
            if -math.inf < self._confirmed_at < self._clock() - self._session_timeout:
                self._uncertain.failed("it stood still for longer than its session, or no broker answers")
            self._ask()
            await self._changed.wait()


logger = logging.getLogger(__name__)

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


TOPICS_WITHIN = 5.0
"""Seconds that joining waits for what brokers say of the topics."""

REFUSED_WAIT = 2.0
"""Seconds between two attempts of a consumer that a broker refuses: each is a failed login in somebody's log."""


@dataclass(eq=False, repr=False)
class GroupStart:
    """Starts one consumer in the thread that polls. `stopping` ends every wait."""

    settings: KafkaSettings
    subscription: Subscription
    stopping: threading.Event
    watchdog: Watchdog
    reading: FailureLog

    def __post_init__(self) -> None:
        self._topics = self.subscription.topics

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
            except LogRefused as error:
                self.reading.failed(error)
                self.subscription.on_refused(error)
                self.stopping.wait(REFUSED_WAIT)
            except LogUnavailable:
                if time.monotonic() >= give_up_at:
                    raise
                self.stopping.wait(0.5)
        return None

    def subscribe(self, consumer: Any, listener: Any) -> None:
        """Subscribe, and wait for the topics."""
        consumer.subscribe(topics=self._topics.names, listener=listener)
        self._await_topics(consumer)

    def _await_topics(self, consumer: Any) -> None:
        """Wait until the partitions of the topics are known: a leader that joins earlier may distribute none."""
        give_up_at = time.monotonic() + TOPICS_WITHIN
        while known_partitions(consumer, self._topics.names) is None and time.monotonic() < give_up_at:
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
