"""The start of a consumer: it reaches a broker and subscribes."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from kafka.consumer.group import KafkaConsumer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor

from collector.backoff import FailureLog
from collector.logs.kafka.connections import connect
from collector.logs.kafka.membership import Watchdog
from collector.logs.kafka.settings import KafkaSettings, milliseconds
from collector.logs.kafka.subscription import Subscription
from collector.logs.kafka.workarounds import known_partitions, wait_in_thread
from collector.logs.log import LogRefused, LogUnavailable

logger = logging.getLogger(__name__)

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
        """Subscribe, and wait for the topics."""
        consumer.subscribe(topics=self._topics.names, listener=listener)
        self._await_topics(consumer)

    def _await_topics(self, consumer: Any) -> None:
        """Wait until the partitions of the topics are known: a leader that joins earlier may distribute none."""
        give_up_at = time.monotonic() + TOPICS_WITHIN
        while known_partitions(consumer, self._topics.names) is None and time.monotonic() < give_up_at:
            if self._stopping.is_set():
                return
            wait_in_thread(consumer, 0.01)

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
