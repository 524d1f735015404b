"""The Kafka log and source against a real broker: what the contract cannot say for all logs."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest
from folds import Recorders, following
from kafka import KafkaAdminClient, KafkaProducer
from kafka.structs import OffsetAndMetadata, TopicPartition
from kafka_logs import commits, fresh, numbered, open_log, produce, settings_for
from log_stores import TIMING

from collector.config.settings import KafkaLogSettings
from collector.logs.kafka import KafkaLog, KafkaSource
from collector.logs.kafka.topics import ensure_topics, set_commits
from collector.logs.log import Committed, InstanceInUse, LogError, LogUnavailable
from collector.service.open_logs import topic_configs

pytestmark = pytest.mark.kafka


def admin(broker) -> KafkaAdminClient:
    return KafkaAdminClient(bootstrap_servers=broker.bootstrap)


async def make_topic(broker, partitions: int = 1, **configs: str) -> str:
    topic = fresh("made")

    def make() -> None:
        client = admin(broker)
        wanted = {"num_partitions": partitions, "replication_factor": 1, "configs": configs}
        client.create_topics({topic: wanted}, wait_for_metadata=True)
        client.close()

    await asyncio.to_thread(make)
    return topic


async def test_topics_are_made_once_and_checked(kafka_broker) -> None:
    topic = fresh("topic")
    settings = settings_for(kafka_broker)
    configs = {topic: {"retention.ms": "123456789"}}
    for _ in range(2):
        await asyncio.to_thread(ensure_topics, settings, [topic], 3, configs=configs)
    with pytest.raises(LogError, match=f"{topic} has 3 partitions, not 4"):
        await asyncio.to_thread(ensure_topics, settings, [topic], 4)
    with pytest.raises(LogError, match=r"message\.timestamp\.type=LogAppendTime"):
        await asyncio.to_thread(ensure_topics, settings, [await make_topic(kafka_broker)], 1)
    by_hand = await make_topic(
        kafka_broker, **{"message.timestamp.type": "CreateTime", "max.message.bytes": "17825792"}
    )
    with pytest.raises(LogError, match=r"; if evalstream log copy was interrupted, run that again$"):
        await asyncio.to_thread(ensure_topics, settings, [by_hand], 1)
    with pytest.raises(LogError) as refused:
        await asyncio.to_thread(ensure_topics, settings, [by_hand, topic], 1)
    assert "log copy" not in str(refused.value), "a copy makes all else right"
    small = await make_topic(kafka_broker, **{"message.timestamp.type": "LogAppendTime", "max.message.bytes": "1000"})
    with pytest.raises(LogError, match=r"max\.message\.bytes=17825792"):
        await asyncio.to_thread(ensure_topics, settings, [small], 1)


async def test_topics_that_somebody_made_must_not_delete_what_is_needed(kafka_broker) -> None:
    """Each topic and each setting is named at once."""
    settings, fit = settings_for(kafka_broker), {"message.timestamp.type": "LogAppendTime"}
    fit |= {"max.message.bytes": "17825792"}
    labels = await make_topic(kafka_broker, **fit, **{"retention.ms": "604800000", "retention.bytes": "1000000"})
    compacted = await make_topic(
        kafka_broker, **{**fit, "cleanup.policy": "compact,delete", "max.message.bytes": "1000"}
    )
    history = await make_topic(kafka_broker, **fit, **{"retention.ms": "604800000"})
    configs = topic_configs(KafkaLogSettings(bootstrap_servers=["b:1"], prefix="p"), ("labels", "history"))
    own = {labels: configs["p.labels"], history: configs["p.history"]}

    def ensure(*topics: str) -> None:
        ensure_topics(settings, topics, 1, configs=own)

    with pytest.raises(LogError) as refused:
        await asyncio.to_thread(ensure, labels, compacted, history)
    assert str(refused.value) == (
        f"the topic {labels} needs the config retention.ms=-1, retention.bytes=-1; "
        f"the topic {compacted} needs the config max.message.bytes=17825792, cleanup.policy=delete"
    )
    await asyncio.to_thread(ensure, history)


async def test_the_low_watermark_is_the_offset_and_the_rest_is_metadata(kafka_broker) -> None:
    group = fresh("g")
    got = Recorders(lambda fold: setattr(fold, "metadata", 'a "note"'))
    async with open_log(kafka_broker) as log:
        await log.append(numbered(0, 9))
        async with following(log, group, got.open_fold):
            await got.until(lambda: len(got.delivered) == 9)
            got.folds[0].low_watermark = 4
    client = admin(kafka_broker)
    state = next(iter((await asyncio.to_thread(client.list_group_offsets, [group]))[group].values()))
    client.close()
    assert state.offset == 4
    assert json.loads(state.metadata) == {"p": 9, "n": 'a "note"'}


async def test_a_commit_that_is_not_ours_is_a_position(kafka_broker) -> None:
    group, topic = fresh("g"), fresh("spans")
    async with open_log(kafka_broker, topic=topic) as log:
        await log.append(numbered(0, 9))
        offsets = {TopicPartition(topic, 0): OffsetAndMetadata(6, "somebody else's")}
        await asyncio.to_thread(set_commits, settings_for(kafka_broker), group, offsets)
        got = Recorders()
        async with following(log, group, got.open_fold):
            await got.until(lambda: len(got.delivered) == 3)
        assert got.values == [b"6", b"7", b"8"]
        assert got.folds[0].committed == Committed(6, 6)


async def test_a_new_topic_of_the_same_name_is_read_from_its_start(kafka_broker) -> None:
    group, topic = fresh("g"), fresh("spans")
    got = Recorders()
    async with open_log(kafka_broker, topic=topic) as log:
        await log.append(numbered(0, 20))
        async with following(log, group, got.open_fold):
            await got.until(lambda: len(got.delivered) == 20)
    client = admin(kafka_broker)
    await asyncio.to_thread(client.delete_topics, [topic])
    async with asyncio.timeout(60):
        while topic in await asyncio.to_thread(client.list_topics):
            await asyncio.sleep(0.05)
    client.close()
    async with open_log(kafka_broker, topic=topic) as log:
        if await commits(kafka_broker, group):  # a broker may forget them with the topic
            assert (await commits(kafka_broker, group))[0].offset == 20
        await log.append(numbered(100, 105))
        again = Recorders()
        async with following(log, group, again.open_fold):
            await again.until(lambda: len(again.delivered) == 5)
        assert again.values == [b"%d" % n for n in range(100, 105)]
        assert not again.replayed


async def test_records_that_retention_took_are_not_waited_for(kafka_broker) -> None:
    group, topic = fresh("g"), fresh("spans")
    async with open_log(kafka_broker, topic=topic) as log:
        await log.append(numbered(0, 20))
        got = Recorders()
        async with following(log, group, got.open_fold):
            await got.until(lambda: len(got.delivered) == 20)
            got.folds[0].low_watermark = 2
        client = admin(kafka_broker)
        await asyncio.to_thread(client.delete_records, {TopicPartition(topic, 0): 10})
        client.close()
        again = Recorders()
        async with following(log, group, again.open_fold):
            await again.until(lambda: len(again.replayed) == 10)
            await log.append(numbered(20, 21))
            await again.until(lambda: again.delivered)
        assert [r.offset for r in again.replayed] == list(range(10, 20))


async def test_a_broker_that_comes_back_is_waited_for(own_broker) -> None:
    async with open_log(own_broker, delivery_timeout=2.0, request_timeout=1.0) as log:
        got = Recorders()
        async with following(log, fresh("g"), got.open_fold) as task:
            await log.append(numbered(0, 5))
            await got.until(lambda: len(got.delivered) == 5)
            await asyncio.to_thread(own_broker.kill)
            with pytest.raises(LogUnavailable):
                await log.append(numbered(5, 6))
            await asyncio.to_thread(own_broker.start)
            async with asyncio.timeout(60):
                while True:
                    try:
                        await log.append(numbered(6, 7))
                        break
                    except LogUnavailable:
                        await asyncio.sleep(0.2)
            await got.until(lambda: b"6" in got.values)
            assert not task.done()
    assert set(got.values) >= {b"0", b"1", b"2", b"3", b"4", b"6"}


async def test_without_a_broker_there_is_one_clear_sentence() -> None:
    class Nobody:
        bootstrap = "127.0.0.1:9"

    with pytest.raises(LogUnavailable, match=r"no Kafka broker answers at 127\.0\.0\.1:9"):
        await KafkaLog.open(settings_for(Nobody), {"spans": "spans"}, 1)


async def test_a_restart_with_an_instance_id_moves_no_partitions(kafka_broker) -> None:
    topic, group = fresh("static"), fresh("g")
    timing = replace(TIMING, patience=30.0)
    other, mine = Recorders(), Recorders()
    async with (
        open_log(
            kafka_broker, topic=topic, partitions=4, timing=timing, group_instance_id="pod-1", session_timeout=10.0
        ) as two,
        open_log(
            kafka_broker, topic=topic, partitions=4, timing=timing, group_instance_id="pod-0", session_timeout=10.0
        ) as one,
        following(two, group, other.open_fold),
    ):
        async with following(one, group, mine.open_fold):
            await mine.until(lambda: len([f for f in mine.history if not f.closed]) == 2)
            await other.until(lambda: len([f for f in other.history if not f.closed]) == 2)
        kept = {fold.partition for fold in other.history if not fold.closed}
        opened = len(other.history)
        again = Recorders()
        async with following(one, group, again.open_fold):
            await again.until(lambda: len(again.folds) == 2)
            assert {f.partition for f in other.history if not f.closed} == kept
            assert len(other.history) == opened


async def test_a_second_process_with_the_same_instance_id_stops_the_first(kafka_broker) -> None:
    """The session is long: one that ends on a busy machine makes the first process join again, and fence the second."""
    topic, group = fresh("static"), fresh("g")
    one, two = Recorders(), Recorders()
    async with (
        open_log(kafka_broker, topic=topic, group_instance_id="pod-0", session_timeout=30.0) as first,
        open_log(kafka_broker, topic=topic, group_instance_id="pod-0", session_timeout=30.0) as second,
    ):
        follows = asyncio.create_task(first.follow(group, one.open_fold))
        await one.until(lambda: one.folds)
        async with following(second, group, two.open_fold):
            with pytest.raises(InstanceInUse, match="has taken the group_instance_id 'pod-0'"):
                await asyncio.wait_for(follows, 60)


async def test_reading_past_the_end_and_before_the_start(kafka_broker) -> None:
    topic = fresh("spans")
    async with open_log(kafka_broker, topic=topic, timing=replace(TIMING, patience=30.0)) as log:
        await log.append(numbered(0, 10))
        client = admin(kafka_broker)
        await asyncio.to_thread(client.delete_records, {TopicPartition(topic, 0): 4})
        client.close()
        assert [r.offset async for b in log.read(0, 0) for r in b] == list(range(4, 10))
        assert [r.offset async for b in log.read(0, 8) for r in b] == [8, 9]
        assert [b async for b in log.read(0, 10)] == []
        assert [b async for b in log.read(0, 99)] == []
        reads = await asyncio.gather(*(_positions(log) for _ in range(8)))
        assert reads == [list(range(4, 10))] * 8


async def _positions(log: KafkaLog) -> list[int]:
    return [r.offset async for b in log.read(0, 0) for r in b]


async def test_a_source_gives_foreign_topics(kafka_broker) -> None:
    forever = {"retention.ms": "-1"}  # these records are of 1970, and a broker deletes what is old when it comes by
    topics = [await make_topic(kafka_broker, 2, **forever), await make_topic(kafka_broker, 1, **forever)]
    await produce(kafka_broker, topics[0], [{"value": b"a", "partition": 1, "timestamp_ms": 5000}])
    await produce(kafka_broker, topics[0], [{"value": b"b", "partition": 1, "timestamp_ms": 3000}])
    await produce(kafka_broker, topics[1], [{"key": b"gone", "value": None, "timestamp_ms": 1000}])
    source = await KafkaSource.open(settings_for(kafka_broker), topics, timing=TIMING)
    group, got = fresh("g"), Recorders()
    async with following(source, group, got.open_fold):
        await got.until(lambda: len(got.delivered) == 3)
        assert len(got.folds) == 3
    found = {(source.where(r.partition)[0], r.key, r.value, r.timestamp) for r in got.delivered}
    assert found == {(topics[0], None, b"a", 5.0), (topics[0], None, b"b", 5.0), (topics[1], b"gone", b"", 1.0)}
    again = Recorders()
    async with following(source, group, again.open_fold):
        await produce(kafka_broker, topics[0], [{"value": b"c", "partition": 0, "headers": [("x", b"1")]}])
        await again.until(lambda: again.delivered)
    assert [(r.value, r.headers) for r in again.delivered] == [(b"c", (("x", b"1"),))]


async def test_a_source_can_start_at_the_end_and_then_loses_nothing(kafka_broker) -> None:
    topic = await make_topic(kafka_broker)
    await produce(kafka_broker, topic, [{"value": b"old"}])
    source = await KafkaSource.open(settings_for(kafka_broker), [topic], start="latest", timing=TIMING)
    group, got = fresh("g"), Recorders()
    async with following(source, group, got.open_fold):
        await got.until(lambda: got.folds)
    await produce(kafka_broker, topic, [{"value": b"while away"}])
    async with following(source, group, got.open_fold):
        await got.until(lambda: got.delivered)
    assert got.values == [b"while away"]


async def test_what_came_is_not_skipped_when_what_was_committed_is_gone(kafka_broker) -> None:
    """A group that starts at the end, and the oldest record that its state needs has been deleted."""
    topic = await make_topic(kafka_broker)
    await produce(kafka_broker, topic, [{"value": b"%d" % n} for n in range(4)])
    source = await KafkaSource.open(settings_for(kafka_broker), [topic], start="latest", timing=TIMING)
    group, got = fresh("g"), Recorders(lambda fold: setattr(fold, "low_watermark", 4))
    async with following(source, group, got.open_fold):
        await got.until(lambda: got.folds)
        await produce(kafka_broker, topic, [{"value": b"%d" % n} for n in range(4, 8)])
        await got.until(lambda: len(got.delivered) == 4)
    assert (await commits(kafka_broker, group))[0] == Committed(4, 8)
    await produce(kafka_broker, topic, [{"value": b"while away"}])
    client = admin(kafka_broker)
    await asyncio.to_thread(client.delete_records, {TopicPartition(topic, 0): 6})
    client.close()
    again = Recorders()
    async with following(source, group, again.open_fold):
        await again.until(lambda: again.delivered)
    assert [record.value for record in again.replayed] == [b"6", b"7"]
    assert again.values == [b"while away"]


async def test_a_source_leaves_out_aborted_transactions(kafka_broker) -> None:
    topic = await make_topic(kafka_broker)

    def transactions() -> None:
        producer = KafkaProducer(bootstrap_servers=kafka_broker.bootstrap, transactional_id=fresh("tx"))
        producer.init_transactions()
        for n, end in enumerate([producer.commit_transaction, producer.abort_transaction, producer.commit_transaction]):
            producer.begin_transaction()
            producer.send(topic, b"%d" % n)
            producer.flush()
            end()
        producer.close()

    await asyncio.to_thread(transactions)
    source = await KafkaSource.open(settings_for(kafka_broker), [topic], timing=TIMING)
    got = Recorders()
    async with following(source, fresh("g"), got.open_fold):
        await got.until(lambda: len(got.delivered) == 2)
    assert got.values == [b"0", b"2"]


async def test_works_on_uvloop_as_well(kafka_broker) -> None:
    uvloop = pytest.importorskip("uvloop")

    async def round_trip() -> list[bytes]:
        got = Recorders()
        async with open_log(kafka_broker) as log, following(log, fresh("g"), got.open_fold):
            await log.append(numbered(0, 3))
            await got.until(lambda: len(got.delivered) == 3)
        return got.values

    assert await asyncio.to_thread(uvloop.run, round_trip()) == [b"0", b"1", b"2"]
