"""A process that takes the place of one of its name reads every partition, however that one ended.

Brokers keep what was distributed for the name, and nobody of that name is told that he leads the group.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from configurations import checked
from folds import Recorders, following
from kafka import KafkaAdminClient, KafkaConsumer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka_logs import fresh, numbered, open_log, produce, settings_for
from log_stores import TIMING

from collector.evaluate.stage import GROUP
from collector.logs.kafka import KafkaSettings, KafkaSource, group_watch
from collector.service.app import others_evaluate
from collector.service.open_logs import open_logs
from collector.service.tasks import open_tasks
from collector.telemetry.registry import Telemetry

pytestmark = pytest.mark.kafka

NAME = "pod-0"
SESSION = 30.0
"""Longer than a test waits: no rebalance comes by itself."""


class KnowsNoTopic(CooperativeStickyAssignor):
    """Distributes what a leader does that has joined before it knew its topics."""

    def assign(self, cluster: Any, members: Any) -> Any:
        del cluster
        return super().assign(_NoTopics(), members)


class _NoTopics:
    def topics(self) -> set[str]:
        return set()

    def partitions_for_topic(self, _topic: str) -> None: ...


def join_and_end(broker: Any, topic: str, group: str, instance: str) -> None:
    """A process that ends after it has joined, and before it joins again for what it has learnt since."""
    consumer = KafkaConsumer(
        bootstrap_servers=broker.bootstrap,
        group_id=group,
        group_instance_id=instance,
        partition_assignment_strategy=[KnowsNoTopic()],
        session_timeout_ms=int(SESSION * 1000),
        enable_auto_commit=False,
    )
    with closing(consumer):  # with a name it leaves nothing by that
        consumer.subscribe([topic])
        consumer._coordinator.ensure_active_group(timeout_ms=20_000)
        assert not consumer.assignment()


async def test_what_a_process_did_not_distribute_before_it_ended_is_read(kafka_broker: Any) -> None:
    topic, group = fresh("turns"), fresh("evaluate")
    settings = {"group_instance_id": NAME, "session_timeout": SESSION}
    async with open_log(kafka_broker, topic=topic, partitions=2, **settings) as log:
        await log.append([*numbered(0, 3), *numbered(3, 5, partition=1)])
        await asyncio.to_thread(join_and_end, kafka_broker, topic, group, f"{NAME}-spans")
        got = Recorders()
        async with following(log, group, got.open_fold):
            await got.until(lambda: len(got.delivered) == 5, patience=15.0)


async def test_a_process_that_starts_again_is_not_another_one(kafka_broker: Any) -> None:
    """Its file counts, unless others evaluate: brokers know it for a while by its name."""
    prefix, kafka = fresh("own"), {"bootstrap_servers": [kafka_broker.bootstrap], "partitions": 2}
    log = {"kind": "kafka", "kafka": kafka | {"prefix": prefix, "group_instance_id": NAME}}
    named = checked({"exact": {"kind": "exact_match"}}, log=log)
    other = checked(
        {"exact": {"kind": "exact_match"}},
        log={"kind": "kafka", "kafka": log["kafka"] | {"group_instance_id": "pod-1"}},
    )
    assert not await others_evaluate(named)
    got = Recorders()
    async with open_logs(named.settings.log) as logs, following(logs.turns, GROUP, got.open_fold):
        await logs.turns.append(numbered(0, 1))
        await got.until(lambda: len(got.delivered) == 1, patience=20.0)
        assert not await others_evaluate(named)
        assert await others_evaluate(other)


@pytest.mark.parametrize("when", ["while-away", pytest.param("after-return", marks=pytest.mark.long)])
async def test_partitions_that_are_added_are_read(
    kafka_broker: Any, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = KafkaSettings.client_options

    def looks_often(self: KafkaSettings) -> Mapping[str, Any]:
        return {**options(self), "metadata_max_age_ms": 1_000}

    monkeypatch.setattr(KafkaSettings, "client_options", looks_often)
    topic, group = fresh("theirs"), fresh("g")
    admin = KafkaAdminClient(bootstrap_servers=kafka_broker.bootstrap)
    with closing(admin):
        await asyncio.to_thread(admin.create_topics, {topic: {"num_partitions": 1, "replication_factor": 1}})

        async def add() -> None:
            await asyncio.to_thread(admin.create_partitions, {topic: 3})
            await produce(kafka_broker, topic, [{"value": b"new", "partition": 2}])

        settings = settings_for(kafka_broker, group_instance_id=NAME, session_timeout=SESSION)
        source = await KafkaSource.open(settings, [topic], timing=replace(TIMING, patience=30.0))
        got = Recorders()
        async with following(source, group, got.open_fold):
            await got.until(lambda: len(got.folds) == 1)
        if when == "while-away":
            await add()
        again = Recorders()
        async with following(source, group, again.open_fold):
            await again.until(lambda: again.folds)
            if when == "after-return":
                await add()
            await again.until(lambda: b"new" in again.values, patience=15.0)


async def test_a_leader_knows_its_topics_before_it_distributes_them(
    kafka_broker: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    for _ in range(3):
        got = Recorders()
        async with open_log(kafka_broker) as log, following(log, fresh("g"), got.open_fold):
            await got.until(lambda got=got: got.folds)
    assert "No partition metadata" not in caplog.text


@pytest.mark.long
async def test_two_of_different_names_share_and_both_come_back(kafka_broker: Any) -> None:
    """Nothing moves, and nobody joins again and again."""
    topic, group = fresh("turns"), fresh("evaluate")
    async with (
        open_log(kafka_broker, topic=topic, partitions=4, group_instance_id="pod-0", session_timeout=SESSION) as one,
        open_log(kafka_broker, topic=topic, partitions=4, group_instance_id="pod-1", session_timeout=SESSION) as two,
    ):
        first, second = Recorders(), Recorders()
        async with following(one, group, first.open_fold):
            await first.until(lambda: len(first.folds) == 4)
            async with following(two, group, second.open_fold):
                await second.until(lambda: len(second.folds) == 2, patience=30.0)
            mine = set(second.folds)
            again = Recorders()
            async with following(two, group, again.open_fold):
                await again.until(lambda: set(again.folds) == mine)
                opened = len(first.history)
                await asyncio.sleep(6.0)  # it has asked who has the rest
                assert len(first.history) == opened
                assert len(again.history) == 2


async def test_a_group_that_waits_for_a_member_is_named(
    kafka_broker: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the log, and in the check of the consumers; a member that does not join again holds all others."""
    monkeypatch.setattr(group_watch, "LONG", 1.0)
    topic, group = fresh("turns"), fresh("evaluate")
    consumer = KafkaConsumer(
        bootstrap_servers=kafka_broker.bootstrap,
        group_id=group,
        client_id="idle",
        partition_assignment_strategy=[CooperativeStickyAssignor()],
    )
    async with open_log(kafka_broker, topic=topic) as log:
        with closing(consumer):
            consumer.subscribe([topic])
            await asyncio.to_thread(consumer._coordinator.ensure_active_group, 20_000)
            got = Recorders()
            async with open_tasks(Telemetry()) as tasks:
                tasks.follow("assemble", log, group, got.open_fold)
                async with asyncio.timeout(20):
                    while "could not be joined" not in caplog.text or tasks.stalled_consumers() is None:
                        await asyncio.sleep(0.05)
                assert f"the group of {group} could not be joined for" in (tasks.stalled_consumers() or "")
                assert "idle (no group_instance_id) on " in caplog.text
                assert not got.folds
                await asyncio.to_thread(consumer.close)
                await got.until(lambda: got.folds)
                async with asyncio.timeout(20):
                    while tasks.stalled_consumers() is not None:
                        await asyncio.sleep(0.05)
