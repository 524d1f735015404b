"""The lag of source topics, in which not every offset is a record, against a real broker."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from broker import Broker
from broker_security import grant, revoke
from folds import Recorders, following
from kafka import KafkaAdminClient, KafkaProducer
from kafka.structs import TopicPartition
from kafka_logs import fresh, produce, settings_for
from log_stores import TIMING
from test_kafka_security import scram, user_of

from collector.logs.kafka import KafkaSettings, KafkaSource
from collector.logs.kafka.topics import committed_by
from collector.service.receive import _measured
from collector.service.tasks import Tasks
from collector.telemetry.registry import Telemetry

pytestmark = pytest.mark.kafka


class Measured:
    """A source with a fold that can be held back, its lag, and what the process tells of it."""

    def __init__(self, settings: KafkaSettings, topics: Sequence[str]) -> None:
        self.settings, self.topics, self.group = settings, topics, fresh("g")
        self.telemetry, self.got = Telemetry(), Recorders()

    async def open(self, group: asyncio.TaskGroup) -> Any:
        self.tasks = Tasks(group, self.telemetry)
        source = await KafkaSource.open(self.settings, self.topics, timing=TIMING)
        return following(source, self.group, _measured(self.tasks, source, self.group, self.got.open_fold))

    def value(self, name: str, topic: str) -> float | None:
        labels = {"log": topic} if "retention" in name else {"log": topic, "consumer": self.group}
        return self.telemetry.registry.get_sample_value(f"evalstream_{name}", labels)

    async def until_lag(self, *records: int | None, within: float = 20) -> None:
        seen: list[float | None] = []
        try:
            async with asyncio.timeout(within):
                while seen != [*records]:
                    await asyncio.sleep(0.1)
                    await self.tasks.lag.sample()
                    seen = [self.value("consumer_lag_records", topic) for topic in self.topics]
        except TimeoutError:
            raise AssertionError(f"the lag is {seen}, not {records}") from None


def write_transactions(broker: Broker, topic: str) -> None:
    """One that is committed, with its mark, and one of five records that is aborted."""
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id=topic)
    producer.init_transactions()
    for count, end in ((1, producer.commit_transaction), (5, producer.abort_transaction)):
        producer.begin_transaction()
        for _ in range(count):
            producer.send(topic, b"x", partition=0)
        producer.flush()
        end()
    producer.close()


def make(broker: Broker, topics: Sequence[str]) -> None:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.create_topics({topic: {"num_partitions": 2, "replication_factor": 1} for topic in topics})
    admin.close()


async def test_the_lag_of_a_source_is_what_its_reader_has_not_read(kafka_broker: Broker) -> None:
    topics = [fresh("other"), fresh("source")]
    await asyncio.to_thread(make, kafka_broker, topics)
    measured = Measured(settings_for(kafka_broker), topics)
    async with asyncio.TaskGroup() as group, await measured.open(group):
        await asyncio.to_thread(write_transactions, kafka_broker, topics[1])
        await measured.got.until(lambda: measured.got.delivered)
        await measured.until_lag(0, 0)
        assert measured.value("log_retention_seconds", topics[1]) == 7 * 86_400
        committed = partial(committed_at, kafka_broker, measured.group)
        end = TopicPartition(topics[1], 0), 8
        async with asyncio.timeout(20):  # as seen at the broker, too: one record, five aborted, two marks
            while end not in (await asyncio.to_thread(committed)).items():
                await asyncio.sleep(0.1)
        for number in range(4):
            measured.got.gate(number).clear()
        await produce(kafka_broker, topics[1], [{"value": b"y", "timestamp_ms": 1_000_000_000_000} for _ in range(3)])
        await measured.until_lag(0, 3)
        assert (measured.value("oldest_needed_seconds", topics[1]) or 0) > 0
        assert measured.value("oldest_needed_seconds", topics[0]) == 0
        for number in range(4):
            measured.got.gate(number).set()
        await measured.until_lag(0, 0)
        assert measured.tasks.stalled_consumers() is None


def committed_at(broker: Broker, group: str) -> dict[TopicPartition, int]:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        return {where: state.offset for where, state in committed_by(admin, [group])[group].items()}
    finally:
        admin.close()


async def test_the_lag_of_a_source_is_told_without_the_right_to_see_its_retention(secured_broker: Broker) -> None:
    topic, user = fresh("source"), user_of(secured_broker, "x")
    await asyncio.to_thread(make, secured_broker, [topic])
    measured = Measured(scram(secured_broker, user, "x"), [topic])
    grant(secured_broker.bootstrap, user, "TOPIC", topic, "READ")
    grant(secured_broker.bootstrap, user, "GROUP", measured.group, "READ")
    async with asyncio.TaskGroup() as group, await measured.open(group):
        for number in range(2):
            measured.got.gate(number).clear()
        await produce(secured_broker, topic, [{"value": b"y"} for _ in range(30)])
        await measured.until_lag(30)
        assert measured.value("log_retention_seconds", topic) is None
        for number in range(2):
            measured.got.gate(number).set()
        await measured.until_lag(0)


async def test_a_right_to_see_the_retention_that_is_lost_has_a_line(
    secured_broker: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It had none: the alert on it was blind, and stderr did not say why."""
    monkeypatch.setattr("collector.logs.consumer_lag.RETENTION_EVERY", 0.0)
    topic, user = fresh("source"), user_of(secured_broker, "x")
    await asyncio.to_thread(make, secured_broker, [topic])
    measured = Measured(scram(secured_broker, user, "x"), [topic])
    grant(secured_broker.bootstrap, user, "TOPIC", topic, "READ", "DESCRIBE_CONFIGS")
    grant(secured_broker.bootstrap, user, "GROUP", measured.group, "READ")
    async with asyncio.TaskGroup() as group, await measured.open(group):
        await measured.until_lag(0)
        assert measured.value("log_retention_seconds", topic) == 7 * 86_400
        revoke(secured_broker.bootstrap, user, "TOPIC", topic, "DESCRIBE_CONFIGS")
        async with asyncio.timeout(20):
            while measured.value("log_retention_seconds", topic) is not None:
                await measured.tasks.lag.sample()
        await measured.tasks.lag.sample()
    (line,) = [line for line in caplog.messages if "retention" in line]
    assert f"DESCRIBE_CONFIGS of the topic {topic}: grant it" in line


@pytest.mark.parametrize("described", [False, True])
async def test_a_source_that_may_not_be_read_any_more_has_no_lag(secured_broker: Broker, *, described: bool) -> None:
    """READ was taken away, and the lag stayed 0 while records came. Who may still see where the topic ends sees it."""
    topic, user = fresh("source"), user_of(secured_broker, "x")
    await asyncio.to_thread(make, secured_broker, [topic])
    measured = Measured(scram(secured_broker, user, "x"), [topic])
    grant(secured_broker.bootstrap, user, "TOPIC", topic, "READ", *["DESCRIBE"] * described)
    grant(secured_broker.bootstrap, user, "GROUP", measured.group, "READ")
    async with asyncio.TaskGroup() as group, await measured.open(group):
        await produce(secured_broker, topic, [{"value": b"y"} for _ in range(30)])
        await measured.got.until(lambda: measured.got.delivered)
        await measured.until_lag(0)
        revoke(secured_broker.bootstrap, user, "TOPIC", topic, "READ")
        await asyncio.sleep(1)
        await produce(secured_broker, topic, [{"value": b"y"} for _ in range(7)])
        await measured.until_lag(7 if described else None, within=60)
        grant(secured_broker.bootstrap, user, "TOPIC", topic, "READ")
        await measured.until_lag(0, within=60)


async def test_a_source_topic_that_is_deleted_has_no_lag(kafka_broker: Broker) -> None:
    topics = [fresh("other"), fresh("source")]
    await asyncio.to_thread(make, kafka_broker, topics)
    measured = Measured(settings_for(kafka_broker), topics)
    async with asyncio.TaskGroup() as group, await measured.open(group):
        await produce(kafka_broker, topics[1], [{"value": b"y"} for _ in range(3)])
        await measured.got.until(lambda: measured.got.delivered)
        await measured.until_lag(0, 0)
        admin = KafkaAdminClient(bootstrap_servers=kafka_broker.bootstrap)
        admin.delete_topics([topics[1]])
        admin.close()
        await measured.until_lag(0, None, within=90)
