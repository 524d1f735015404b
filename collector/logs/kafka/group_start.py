"""The start of a consumer: it reaches a broker, takes over the positions of a former group, and subscribes."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from kafka.consumer.group import KafkaConsumer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.structs import TopicPartition

from collector.backoff import FailureLog
from collector.logs.kafka.connections import connect
from collector.logs.kafka.former_groups import take_over
from collector.logs.kafka.membership import Watchdog
from collector.logs.kafka.settings import KafkaSettings, milliseconds, translate
from collector.logs.kafka.subscription import Subscription
from collector.logs.kafka.workarounds import known_partitions, wait_in_thread
from collector.logs.log import LogRefused, LogUnavailable

logger = logging.getLogger(__name__)

FORMER_WAIT = 1.0
"""Seconds between two looks at a former group."""

TOPICS_WITHIN = 5.0
"""Seconds that joining waits for what brokers say of the topics."""

REFUSED_WAIT = 2.0
"""Seconds between two attempts of a consumer that a broker refuses: each is a failed login in somebody's log."""


class GroupStart:
    """Starts one consumer in the thread that polls. `stopping` ends every wait."""

    def __init__(
        self,
        settings: KafkaSettings,
        subscription: Subscription,
        stopping: threading.Event,
        watchdog: Watchdog,
        reading: FailureLog,
        on_refused: Callable[[LogRefused | None], None],
    ) -> None:
        self._settings = settings
        self._subscription = subscription
        self._topics = subscription.topics
        self._stopping = stopping
        self._watchdog = watchdog
        self._reading = reading
        self._on_refused = on_refused

    def connect(self) -> Any:
        """A consumer that has reached a broker; None if the start was stopped before.

        Raises:
            LogUnavailable: no broker answers for the subscription's patience.
        """
        give_up_at = time.monotonic() + self._subscription.patience
        while not self._stopping.is_set():
            self._watchdog.beat()
            try:
                return connect(KafkaConsumer, self._settings, self._options())
            except LogRefused as error:
                self._reading.failed(error)
                self._on_refused(error)
                self._stopping.wait(REFUSED_WAIT)
            except LogUnavailable:
                if time.monotonic() >= give_up_at:
                    raise
                self._stopping.wait(0.5)
        return None

    def subscribe(self, consumer: Any, listener: Any) -> None:
        """Subscribe, once the group has the positions of its former name."""
        self._await_positions(consumer)
        consumer.subscribe(topics=self._topics.names, listener=listener)
        self._await_topics(consumer)

    def _await_topics(self, consumer: Any) -> None:
        """Wait until the partitions of the topics are known: a leader that joins earlier may distribute none."""
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
