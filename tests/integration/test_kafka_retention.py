"""What a broker's own retention deletes before it is read: by real deletions of segments, live and over a restart."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from broker import Broker, BrokerUnavailable, running_broker
from configurations import checked
from folds import Recorders, following
from kafka.admin import ConfigResource
from kafka_logs import fresh, numbered, produce, settings_for
from log_stores import TIMING
from prometheus_client import generate_latest

from collector.commands.check.kafka_plan import kafka_lines, lost_lines, retention_lines
from collector.logs.consumer_lag import ConsumerLag
from collector.logs.kafka import KafkaLog, KafkaSettings, KafkaSource, LostRecords
from collector.logs.kafka.retention_room import retention_rooms
from collector.logs.kafka.topics import administrating, retention
from collector.logs.log import Record
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import RECORDS_LOST

pytestmark = pytest.mark.kafka
LONG = 3600.0
"""Seconds: nothing is deleted until `delete_all` shortens it, however slow the machine is."""
KEPT = {"retention.ms": "3600000"}
QUICK = {
    "log.retention.check.interval.ms": "200",
    "log.initial.task.delay.ms": "200",
    "log.segment.delete.delay.ms": "0",
}


@pytest.fixture(scope="module")
def deleting_broker() -> Iterator[Broker]:
    """A broker that looks every 200 ms for what retention lets it delete."""
    try:
        with running_broker(QUICK) as broker:
            yield broker
    except BrokerUnavailable as error:
        pytest.skip(str(error))


async def open_kept(broker: Broker, topic: str, lost: list[LostRecords], **changes: object) -> KafkaLog:
    settings = replace(settings_for(broker), **changes)
    logs = await KafkaLog.open(settings, {"spans": topic}, 1, configs={topic: KEPT}, timing=TIMING, on_lost=lost.append)
    return logs["spans"]


async def delete_all(settings: KafkaSettings, topic: str, before: int) -> None:
    """Let the broker delete, by the age of records, all before an offset; it keeps what comes then."""
    from kafka import KafkaConsumer
    from kafka.structs import TopicPartition

    where = TopicPartition(topic, 0)
    consumer = KafkaConsumer(bootstrap_servers=settings.bootstrap_servers)
    try:
        async with asyncio.timeout(60):
            await set_retention(settings, topic, 0.001)
            while (await asyncio.to_thread(consumer.beginning_offsets, [where]))[where] < before:
                await asyncio.sleep(0.1)
            await set_retention(settings, topic, LONG)
    finally:
        await asyncio.to_thread(consumer.close)


def alter_retention(settings: KafkaSettings, topic: str, seconds: float) -> None:
    with administrating(settings) as admin:
        admin.alter_configs([ConfigResource("topic", topic, {"retention.ms": str(int(seconds * 1000))})])


async def set_retention(settings: KafkaSettings, topic: str, seconds: float) -> None:
    """Returns when the broker goes by it."""
    await asyncio.to_thread(alter_retention, settings, topic, seconds)
    while await asyncio.to_thread(retention, settings, topic) != seconds:
        await asyncio.sleep(0.1)
    await asyncio.sleep(0.5)  # the broker says it a moment before its look for what to delete knows it


async def test_what_is_deleted_while_the_consumer_waits_is_reported(deleting_broker: Broker) -> None:
    """As in a judge's outage: the partition is paused, its records expire, and reading continues behind them."""
    lost: list[LostRecords] = []
    topic, group = fresh("spans"), fresh("g")
    log = await open_kept(deleting_broker, topic, lost, max_queued=(5, 1 << 20))
    got = Recorders()
    got.gate(0).clear()
    async with following(log, group, got.open_fold):
        await got.until(lambda: got.folds)
        await log.append(numbered(0, 40))
        await asyncio.sleep(0.5)  # some are fetched, and the fold waits
        await log.append(numbered(40, 100))
        await delete_all(settings_for(deleting_broker), topic, 100)
        got.gate(0).set()
        await log.append(numbered(100, 110))
        await got.until(lambda: got.values[-1:] == [b"109"])
    await log.close()
    delivered = {int(value) for value in got.values}
    assert delivered >= set(range(100, 110))
    missing = set(range(110)) - delivered
    assert missing, "something was deleted unread"
    assert {n for each in lost for n in range(each.offset, each.end_offset)} == missing
    assert {(each.consumer, each.log, each.topic, each.reason) for each in lost} == {
        (group, "spans", topic, "retention")
    }


async def test_what_is_deleted_between_two_processes_is_reported(deleting_broker: Broker) -> None:
    """Unread records, and those that were read and that the state still needed, have different reasons."""
    lost: list[LostRecords] = []
    topic, group = fresh("spans"), fresh("g")
    log = await open_kept(deleting_broker, topic, lost)
    got = Recorders()
    async with following(log, group, got.open_fold):
        await got.until(lambda: got.folds)
        await log.append(numbered(0, 20))
        await got.until(lambda: len(got.delivered) == 20)
        got.folds[0].low_watermark = 12
    await log.append(numbered(20, 50))
    await delete_all(settings_for(deleting_broker), topic, 50)
    again = Recorders()
    async with following(log, group, again.open_fold):
        await again.until(lambda: again.folds)
        await log.append(numbered(50, 51))
        await again.until(lambda: again.delivered)
    await log.close()
    assert [(each.offset, each.end_offset, each.reason) for each in lost] == [
        (12, 20, "retention_replay"),
        (20, 50, "retention"),
    ]


async def test_compaction_and_transactions_leave_gaps_that_are_no_loss(kafka_broker) -> None:
    lost: list[LostRecords] = []
    topic = fresh("source")
    settings = settings_for(kafka_broker)
    await KafkaLog.open(settings, {"made": topic}, 1)
    for n in range(5):  # a marker follows each commit, and takes an offset
        await produce_transaction(kafka_broker, topic, n)
    source = await KafkaSource.open(settings, [topic], timing=TIMING, on_lost=lost.append)
    got = Recorders()
    async with following(source, fresh("g"), got.open_fold):
        await got.until(lambda: len(got.delivered) == 5)
    assert [record.offset for record in got.delivered] == [0, 2, 4, 6, 8]
    assert not lost


async def produce_transaction(broker, topic: str, number: int) -> None:
    from kafka import KafkaProducer

    def write() -> None:
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id=topic)
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"%d" % number)
        producer.commit_transaction()
        producer.close()

    await asyncio.to_thread(write)


async def test_a_source_that_starts_at_the_end_does_not_skip_what_is_left(deleting_broker: Broker) -> None:
    """Its group has a position; that it has become too old is no reason to begin as a new group does."""
    lost: list[LostRecords] = []
    topic = fresh("source")
    log = await open_kept(deleting_broker, topic, lost)
    settings = replace(settings_for(deleting_broker), max_queued=(2, 1 << 20))
    source = await KafkaSource.open(settings, [topic], start="latest", timing=TIMING, on_lost=lost.append)
    got = Recorders()
    async with following(source, fresh("g"), got.open_fold):
        await got.until(lambda: got.folds)
        await log.append(numbered(0, 1))
        await got.until(lambda: got.delivered)
        got.gate(0).clear()
        for n in range(1, 9):
            await log.append([Record(b"k", b"%d" % n, partition=0)])
            await asyncio.sleep(0.1)
        await delete_all(settings, topic, 9)
        await produce(deleting_broker, topic, [{"value": b"%d" % n} for n in range(9, 12)])
        got.gate(0).set()
        await got.until(lambda: got.values[-1:] == [b"11"])
    await log.close()
    assert set(got.values) >= {b"9", b"10", b"11"}
    missing = set(range(12)) - {int(value) for value in got.values}
    assert missing
    assert {n for each in lost for n in range(each.offset, each.end_offset)} == missing


async def test_the_age_of_what_is_needed_is_shown_beside_the_retention(deleting_broker: Broker) -> None:
    topic = fresh("spans")
    log = await open_kept(deleting_broker, topic, [])
    assert await asyncio.to_thread(retention, settings_for(deleting_broker), topic) == LONG
    telemetry = Telemetry()
    lag = ConsumerLag(telemetry)
    got, value = Recorders(), telemetry.registry.get_sample_value
    async with following(log, "g", lag.measured("evaluate", log, got.open_fold)), asyncio.timeout(30.0):
        await log.append(numbered(0, 3))
        await got.until(lambda: len(got.delivered) == 3)
        got.folds[0].low_watermark = 1
        # the consumer takes the watermark when it next looks at its fold
        while (value("evalstream_oldest_needed_seconds", {"consumer": "evaluate", "log": "spans"}) or 0) < 0.15:
            await asyncio.sleep(0.1)
            await lag.sample()
    await log.close()
    assert value("evalstream_log_retention_seconds", {"log": "spans"}) == LONG


async def test_check_shows_how_near_retention_is_and_what_it_has_deleted(deleting_broker: Broker) -> None:
    settings = settings_for(deleting_broker)
    prefix = fresh("room")
    topics = {name: f"{prefix}.{name}" for name in ("spans", "turns", "evaluations")}
    logs = await KafkaLog.open(
        settings,
        topics,
        1,
        configs={
            topics["spans"]: KEPT,
            topics["turns"]: {"retention.ms": "360000000"},
            topics["evaluations"]: {"retention.ms": "-1", "retention.bytes": "20000"},
        },
        timing=TIMING,
        on_lost=lambda _lost: None,
    )
    groups = {"spans": "assemble", "turns": "evaluate", "evaluations": "export.otlp"}
    for name, group in groups.items():
        got = Recorders()
        async with following(logs[name], f"{prefix}.{group}", got.open_fold):
            await logs[name].append(numbered(0, 20))
            await got.until(lambda got=got: len(got.delivered) == 20)
            got.folds[0].low_watermark = 12
    for name in groups:
        await logs[name].append([replace(each, value=os.urandom(500)) for each in numbered(20, 50)])
    await delete_all(settings, topics["spans"], 50)
    for log in logs.values():
        await log.close()

    config = checked(
        {"same": {"kind": "exact_match"}},
        log={
            "kind": "kafka",
            "kafka": {"bootstrap_servers": [deleting_broker.bootstrap], "prefix": prefix, "partitions": 1},
        },
        export={"otlp": {"endpoint": "http://127.0.0.1:1"}},
    )
    text = "\n".join(await asyncio.to_thread(lambda: list(retention_lines(config))))
    assert f"38 records that {prefix}.assemble needs are deleted already" in text
    assert f"{topics['turns']}: {prefix}.evaluate has used less than 25% of retention.ms (4 days)" in text
    assert re.search(r"export.otlp has used about \d+% of retention.bytes \(20,000\)", text)
    assert f"--entity-name {topics['evaluations']} --add-config retention.bytes=" in text, "four fifths are needed"
    later = time.time() + 0.8 * 360000
    rooms = await asyncio.to_thread(lambda: retention_rooms(settings, {topics["turns"]: [f"{prefix}.evaluate"]}, later))
    assert [(each.lost, each.age_share) for each in rooms] == [(0, 0.75)]


async def test_check_notes_evaluations_that_are_deleted_before_their_turns(deleting_broker: Broker) -> None:
    """It printed both retentions and said nothing."""
    settings = settings_for(deleting_broker)
    prefix = fresh("short")
    topics = {name: f"{prefix}.{name}" for name in ("turns", "evaluations")}
    logs = await KafkaLog.open(
        settings, topics, 1, configs=dict.fromkeys(topics.values(), KEPT), timing=TIMING, on_lost=lambda _lost: None
    )
    for log in logs.values():
        await log.close()
    kafka = {"bootstrap_servers": [deleting_broker.bootstrap], "prefix": prefix, "partitions": 1}
    config = checked({"same": {"kind": "exact_match"}}, log={"kind": "kafka", "kafka": kafka}, export={})
    for turns, evaluations, noted in ((3600, 3600, None), (3600, 60, "3600000"), (60, 3600, None), (-0.001, 60, "-1")):
        for topic, seconds in zip(topics.values(), (turns, evaluations), strict=True):
            await asyncio.to_thread(alter_retention, settings, topic, seconds)
        notes = [line for line in await asyncio.to_thread(lambda: list(kafka_lines(config))) if line.startswith("note")]
        if noted is None:
            assert notes == []
            continue
        (note,) = notes
        assert (
            f"{prefix}.evaluations: its retention.ms 60000 is shorter than that of {prefix}.turns, so after an" in note
        )
        assert note.endswith(f"raise it to {noted} (-1: no limit)")


def test_check_goes_on_without_a_broker_and_shows_what_the_service_has_counted() -> None:
    config = checked(
        {"same": {"kind": "exact_match"}},
        log={"kind": "kafka", "kafka": {"bootstrap_servers": ["127.0.0.1:1"]}},
        export={},
    )
    (line,) = retention_lines(config)
    assert line.startswith("retention  unknown at 127.0.0.1:1: ")
    telemetry = Telemetry()
    telemetry.counter(RECORDS_LOST, "evaluate", "turns", "retention").inc(354)
    telemetry.counter(RECORDS_LOST, "assemble", "spans", "retention")
    (line,) = lost_lines(generate_latest(telemetry.registry).decode())
    assert line.startswith("lost       354 records of turns that evaluate needed (retention) since the service started")
