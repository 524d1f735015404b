"""What kafka-python 3.0 does to those who trust it, and what our log does about it. One test for each trap."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import time
from contextlib import closing
from dataclasses import replace

import kafka
import pytest
from folds import Recorders, following
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource
from kafka.consumer.group import KafkaConsumer
from kafka.errors import KafkaTimeoutError
from kafka.record import util as record_util
from kafka_logs import commits, fresh, numbered, open_log, produce, settings_for
from log_stores import TIMING

from collector.backoff import Backoff
from collector.dead_letters import DeadLetterSettings, DeadLetterWriter, letters_in, record_of
from collector.logs.kafka import (
    KafkaLog,
    KafkaSource,
    UnreadableRange,
    consumer_thread as polling,
    records as codecs,
    topics,
)
from collector.logs.kafka.connections import connect
from collector.logs.kafka.consumer_thread import ConsumerThread
from collector.logs.kafka.topics import inspect
from collector.logs.log import LogError, LogUnavailable, Record
from collector.logs.memory import MemoryLog
from collector.telemetry.registry import Telemetry

NEVER = 3600.0


class NotUtf8(str):
    """A header's key as a hostile producer writes it."""

    __slots__ = ()

    def encode(self, *_: object) -> bytes:
        return b"\xff\xfe"


async def test_trap_1_without_the_c_checksum_nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_util, "crc32c_c", None)
    nowhere = replace(settings_for(type("Broker", (), {"bootstrap": "127.0.0.1:1"})))
    with pytest.raises(LogError, match="crc32c"):
        await KafkaLog.open(nowhere, {"spans": "spans"}, 1)
    with pytest.raises(LogError, match="crc32c"):
        await KafkaSource.open(nowhere, ["spans"])


@pytest.mark.kafka
@pytest.mark.parametrize("poisoned", ["checksum", "header", "codec", "last of all"])
async def test_trap_2_what_cannot_be_decoded_is_passed_over(
    kafka_broker, poisoned: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, group, met = fresh("poison"), fresh("g"), list[UnreadableRange]()
    async with open_log(kafka_broker, topic=topic, on_unreadable=met.append, compression=None) as log:
        await log.append(numbered(0, 10))
        headers = [(NotUtf8("x"), b"1")] if poisoned in {"header", "last of all"} else None
        packing = "gzip" if poisoned == "codec" else None
        bad = [{"value": b"poison %d" % n, "headers": headers, "partition": 0} for n in range(5)]
        await produce(kafka_broker, topic, bad, compression_type=packing)
        if poisoned != "last of all":
            await log.append(numbered(10, 20))
        if poisoned == "checksum":
            if not hasattr(kafka_broker, "segment"):
                pytest.skip("the broker's files are somewhere else")
            segment = kafka_broker.segment(topic)
            segment.write_bytes(segment.read_bytes().replace(b"poison 3", b"poisen 3"))
        if poisoned == "codec":
            monkeypatch.delitem(codecs._CODECS, 1)
        wanted = 10 if poisoned == "last of all" else 20
        got = Recorders()
        async with following(log, group, got.open_fold):
            await got.until(lambda: len(got.delivered) == wanted and met)
        assert got.values == [b"%d" % n for n in range(wanted)]
        assert [(p.topic, p.partition, p.offset, p.end_offset) for p in met] == [(topic, 0, 10, 15)]
        assert (await commits(kafka_broker, group))[0].offset == (15 if poisoned == "last of all" else 25)
        assert b"poison" not in met[0].error.encode()
        met.clear()
        again = Recorders()
        async with following(log, group, again.open_fold):
            await log.append(numbered(20, 21))
            await again.until(lambda: again.delivered)
        assert again.values == [b"20"]
        assert not met, "poison is behind the position now"
        assert [r.value async for b in log.read(0, 0) for r in b] == [*got.values, b"20"]


@pytest.mark.kafka
async def test_trap_3_what_was_done_is_committed_before_partitions_go(kafka_broker) -> None:
    topic, group = fresh("moves"), fresh("g")
    timing = replace(TIMING, commit_interval=NEVER, patience=30.0)
    async with (
        open_log(kafka_broker, topic=topic, partitions=4, timing=timing) as one,
        open_log(kafka_broker, topic=topic, partitions=4, timing=timing) as two,
    ):
        await one.append([record for p in range(4) for record in numbered(0, 25, p)])
        first, second = Recorders(), Recorders()
        async with following(one, group, first.open_fold):
            await first.until(lambda: len(first.delivered) == 100)
            async with following(two, group, second.open_fold):
                await second.until(lambda: len(second.folds) == 2)
                await first.until(lambda: sum(fold.closed for fold in first.history) == 2)
                moved = set(second.folds)
                assert moved == {fold.partition for fold in first.history if fold.closed}
                await one.append([record for p in range(4) for record in numbered(25, 30, p)])
                await second.until(lambda: len(second.delivered) == 10)
                assert {r.partition for r in second.delivered} == moved
    assert not [r for r in second.delivered if int(r.value) < 25], "nothing of it is delivered again"


@pytest.mark.kafka
async def test_trap_4_what_is_on_its_way_is_bounded_and_the_loop_goes_on(own_broker) -> None:
    async with open_log(own_broker, max_in_flight=(100, 1 << 20), compression=None) as log:
        await log.append(numbered(0, 1))
        own_broker.pause()
        appends = [asyncio.create_task(log.append([Record(b"k", b"x" * 1000)] * 10)) for _ in range(200)]
        longest = 0.0
        for _ in range(50):
            start = time.perf_counter()
            await asyncio.sleep(0.01)
            longest = max(longest, time.perf_counter() - start)
            assert log._shared.producer.in_flight.items <= 100
        assert longest < 0.5
        assert not any(append.done() for append in appends)
        own_broker.go_on()
        await asyncio.gather(*appends)
        assert await log.end_offset(0) == 2001


@pytest.mark.kafka
async def test_trap_5_a_poll_that_never_returns_ends_the_process(kafka_broker, monkeypatch: pytest.MonkeyPatch) -> None:
    hang, stalled = threading.Event(), threading.Event()
    poll = KafkaConsumer.poll

    def hanging(self, *args, **kwargs):
        hang.wait(60) if not stalled.is_set() and got.delivered else None
        return poll(self, *args, **kwargs)

    def on_stall() -> None:
        stalled.set()
        hang.set()

    monkeypatch.setattr(KafkaConsumer, "poll", hanging)
    got = Recorders()
    async with open_log(kafka_broker, on_stall=on_stall, stall_timeout=0.6) as log:
        await log.append(numbered(0, 1))
        async with following(log, fresh("g"), got.open_fold):
            await got.until(lambda: got.delivered)
            assert await asyncio.to_thread(stalled.wait, 60)


@pytest.mark.kafka
async def test_what_cannot_be_decoded_goes_to_the_dead_letters_before_it_is_committed(kafka_broker) -> None:
    topic, group, telemetry = fresh("poison"), fresh("g"), Telemetry()
    kept = MemoryLog("dead_letters", partitions=1)
    dead = DeadLetterWriter(
        "receive", topic, kept, telemetry, DeadLetterSettings(keep_values=True), backoff=Backoff(first=0.05)
    )
    append, failures = kept.append, 3

    async def sometimes(records) -> None:
        nonlocal failures
        if failures:
            failures -= 1
            assert group not in await committed_groups()
            raise LogUnavailable("not now")
        await append(records)

    async def committed_groups() -> set[str]:
        return {group for each in (await commits(kafka_broker, group)).values() if each.offset > 2}

    kept.append = sometimes
    async with open_log(kafka_broker, topic=topic, compression=None) as log:
        await log.append(numbered(0, 2))
        bad = [{"value": b"poison %d" % n, "headers": [(NotUtf8("x"), b"1")], "partition": 0} for n in range(5)]
        await produce(kafka_broker, topic, bad)
        await log.append(numbered(2, 4))
        got = Recorders()
        async with following(log, group, dead.wrap(got.open_fold)):
            await got.until(lambda: len(got.delivered) == 4)
            async with asyncio.timeout(60):
                while not (letters := [each async for each in letters_in(kept)]):
                    await asyncio.sleep(0.02)
    [letter] = letters
    assert got.values == [b"0", b"1", b"2", b"3"]
    assert (letter.position, letter.kind, letter.value) == (2, "UnreadableBatch", None)
    assert letter.reason.startswith("records 2 to 6 cannot be read: ")
    assert record_of(letter) is None
    assert (await commits(kafka_broker, group))[0].offset == 9
    drops = {"stage": "receive", "reason": "unreadable_batch"}
    assert telemetry.registry.get_sample_value("evalstream_drops_total", drops) == 5


def test_trap_5_the_process_says_where_it_stands_and_exits() -> None:
    program = """
import threading, time
from collector.logs.kafka.consumer_thread import Watchdog
def poll_that_never_returns(): threading.Event().wait()
watchdog = Watchdog("the loop", 0.3)
watchdog.start()
watchdog.beat()
poll_that_never_returns()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 70
    assert "the loop has not moved for 0.3 s" in done.stderr
    assert "poll_that_never_returns" in done.stderr


@pytest.mark.kafka
@pytest.mark.parametrize("codec", ["gzip", "lz4", "snappy", "zstd"])
async def test_trap_6_a_bomb_is_not_unpacked(kafka_broker, codec: str) -> None:
    topic, met = fresh("bomb"), list[UnreadableRange]()
    size = 24 << 20 if codec != "snappy" else 8 << 20
    async with open_log(kafka_broker, topic=topic, on_unreadable=met.append, max_batch_bytes=4 << 20) as log:
        await log.append(numbered(0, 3))
        bomb = [{"value": bytes(size), "partition": 0}]
        await produce(kafka_broker, topic, bomb, compression_type=codec, max_request_size=64 << 20)
        await log.append(numbered(3, 6))
        got = Recorders()
        async with following(log, fresh("g"), got.open_fold):
            await got.until(lambda: len(got.delivered) == 6)
        assert [(p.offset, p.end_offset) for p in met] == [(3, 4)]
        assert "4194304 bytes when decompressed" in met[0].error


@pytest.mark.kafka
async def test_trap_7_partitions_stay_paused_through_rebalances(kafka_broker) -> None:
    topic, group = fresh("pause"), fresh("g")
    timing = replace(TIMING, patience=30.0)
    async with (
        open_log(kafka_broker, topic=topic, partitions=2, timing=timing, max_queued=(50, 1 << 20)) as one,
        open_log(kafka_broker, topic=topic, partitions=2, timing=timing) as two,
    ):
        await one.append([record for p in range(2) for record in numbered(0, 2000, p)])
        flows = []
        made = ConsumerThread.__init__

        def watched(self, *args, **kwargs):
            flows.append(kwargs["flow"])
            made(self, *args, **kwargs)

        first, second = Recorders(), Recorders()
        for partition in range(2):
            first.gate(partition).clear()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ConsumerThread, "__init__", watched)
            async with following(one, group, first.open_fold):
                await first.until(lambda: len(first.folds) == 2)
                for _ in range(2):
                    async with following(two, group, second.open_fold):
                        await second.until(lambda: second.folds)
                        await _stays_bounded(flows[0])
                    await first.until(lambda: len([f for f in first.history if not f.closed]) == 2)
                    await _stays_bounded(flows[0])
                for partition in range(2):
                    first.gate(partition).set()
                await first.until(lambda: len({(r.partition, r.value) for r in all_of(first, second)}) == 4000)
    for fold in [*first.history, *second.history]:
        assert [r.offset for r in fold.delivered] == sorted(r.offset for r in fold.delivered)


def all_of(*recorders: Recorders):
    return [record for each in recorders for record in each.delivered]


async def _stays_bounded(flow) -> None:
    for _ in range(20):
        await asyncio.sleep(0.02)
        assert all(waiting.items <= 100 for waiting in flow._waiting.values()), "its bound and one poll"


@pytest.mark.kafka
async def test_trap_8_rebalances_are_cooperative_and_the_client_is_new_enough(kafka_broker) -> None:
    assert tuple(map(int, kafka.__version__.split(".")[:3])) >= (3, 0, 12)
    group = fresh("g")
    async with open_log(kafka_broker) as log:
        got = Recorders()
        async with following(log, group, got.open_fold):
            await got.until(lambda: got.folds)
            described = await asyncio.to_thread(_describe, kafka_broker, group)
    assert described["protocol_data"] == "cooperative-sticky"


def _describe(broker, group: str):
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        return admin.describe_groups([group])[group]
    finally:
        admin.close()


@pytest.mark.kafka
async def test_trap_9_after_a_stall_the_group_is_joined_again_and_nothing_is_lost(
    kafka_broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    group, stall = fresh("g"), threading.Event()
    regulate = ConsumerThread._apply_pauses

    def stalling(self) -> bool:
        if stall.is_set():
            stall.clear()
            time.sleep(3.5)
        return regulate(self)

    monkeypatch.setattr(ConsumerThread, "_apply_pauses", stalling)
    timing = replace(TIMING, commit_interval=NEVER)
    async with open_log(kafka_broker, max_poll_interval=1.5, session_timeout=1.5, timing=timing) as log:
        got = Recorders()
        await log.append(numbered(0, 10))
        async with following(log, group, got.open_fold):
            await got.until(lambda: len(got.delivered) == 10)
            stall.set()
            await got.until(lambda: len(got.history) == 2)
            assert got.history[0].closed
            assert got.history[1].committed is None, "who lost a partition commits nothing"
            await log.append(numbered(10, 15))
            await got.until(lambda: len(got.history[1].delivered) == 15)
        assert (await commits(kafka_broker, group))[0].offset == 15


@pytest.mark.kafka
async def test_trap_10_one_thread_owns_the_consumer(kafka_broker, monkeypatch: pytest.MonkeyPatch) -> None:
    called: set[tuple[str, str]] = set()

    def was_called(name: str) -> bool:
        return any(method == name for method, _ in called)

    for name in ("poll", "pause", "resume", "seek", "commit_async", "committed", "end_offsets", "subscribe", "close"):
        _watch(monkeypatch, name, called)
    group = fresh("g")
    async with open_log(kafka_broker, partitions=2, max_queued=(20, 1 << 20)) as log:
        await log.append([record for p in range(2) for record in numbered(0, 500, p)])
        got = Recorders()
        got.gate(0).clear()
        async with following(log, group, got.open_fold):
            await got.until(lambda: len(got.delivered) == 500 and was_called("pause"))
            got.gate(0).set()
            await got.until(lambda: len(got.delivered) == 1000 and was_called("resume") and was_called("commit_async"))
            assert not [each for each in threading.enumerate() if each.name.startswith("kafka-io")]
    of_group = {(name, thread) for name, thread in called if not thread.startswith("kafka-reader")}
    assert {name for name, _ in of_group} >= {"poll", "pause", "resume", "commit_async", "committed", "close"}
    for name, thread in of_group:
        assert thread == f"kafka {group}", (name, thread)


def _watch(patch: pytest.MonkeyPatch, name: str, called: set[tuple[str, str]]) -> None:
    original = getattr(KafkaConsumer, name)

    def watched(self, *args, **kwargs):
        called.add((name, threading.current_thread().name))
        return original(self, *args, **kwargs)

    patch.setattr(KafkaConsumer, name, watched)


@pytest.mark.kafka
async def test_trap_11_a_join_that_outlasts_a_poll_is_seen_through(
    kafka_broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not documented: a leader that joins again because partitions appeared forgot its join, for ever."""
    monkeypatch.setattr(polling, "POLL", 0.001)
    monkeypatch.setattr(polling, "POLL_WITHOUT_GROUP", 0.001)
    for _ in range(5):
        got = Recorders()
        async with open_log(kafka_broker) as log, following(log, fresh("g"), got.open_fold):
            await log.append(numbered(0, 1))
            await got.until(lambda got=got: got.delivered, patience=10)


@pytest.mark.kafka
async def test_trap_12_reading_never_makes_a_topic(own_broker) -> None:
    """Not documented: the option against it reaches nobody."""
    own_broker.stop()
    properties = own_broker.folder / "server.properties"
    properties.write_text(properties.read_text().replace("topics.enable=false", "topics.enable=true"))
    own_broker.start()
    missing = fresh("missing")
    with pytest.raises(LogError, match=f"no topic {missing}"):
        await KafkaSource.open(settings_for(own_broker), [missing])

    def subscribe() -> list[str]:
        settings = settings_for(own_broker)
        with closing(connect(KafkaConsumer, settings, {**settings.fetch_options(), "group_id": "g"})) as consumer:
            consumer.subscribe([missing])
            consumer.poll(timeout_ms=1500)
        # Another one is asked: who subscribed to what is not there may get an error for an answer.
        with closing(connect(KafkaConsumer, settings, settings.fetch_options())) as consumer:
            return sorted(consumer.topics())

    assert missing not in await asyncio.to_thread(subscribe)


@pytest.mark.kafka
async def test_trap_13_a_resumed_partition_goes_on_while_the_others_are_idle(kafka_broker) -> None:
    """Not documented: what was put aside for a paused partition was found only when another one had records."""
    async with open_log(kafka_broker, partitions=2, max_queued=(20, 1 << 20)) as log:
        await log.append([record for p in range(2) for record in numbered(0, 500, p)])
        got = Recorders()
        got.gate(0).clear()
        async with following(log, fresh("g"), got.open_fold):
            await got.until(lambda: len(got.folds[1].delivered) == 500 if 1 in got.folds else False)
            got.gate(0).set()
            await got.until(lambda: len(got.folds[0].delivered) == 500)


@pytest.mark.kafka
async def test_trap_14_a_producer_that_gave_up_is_replaced(kafka_broker) -> None:
    """Not documented: after one record that a broker does not take, a producer fails everything for ever."""
    topic = fresh("small")
    async with open_log(kafka_broker, topic=topic, compression=None) as log:
        await log.append(numbered(0, 1))
        await asyncio.to_thread(_make_small, kafka_broker, topic)
        with pytest.raises(LogUnavailable, match="MessageSizeTooLarge"):
            await log.append([Record(b"k", b"x" * 50_000)])
        await log.append(numbered(1, 2))
        assert [r.value async for b in log.read(0, 0) for r in b] == [b"0", b"1"]


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.timeout(400)
async def test_trap_15_waiting_for_a_broker_that_stands_still_costs_no_memory(own_broker) -> None:
    """Not documented: a poll span while a heartbeat was due, and what it waited with stayed until the broker answered."""
    got = Recorders()
    async with open_log(own_broker, session_timeout=6.0) as log, following(log, fresh("g"), got.open_fold):
        await log.append(numbered(0, 1))
        await got.until(lambda: got.delivered)
        own_broker.pause()
        try:
            await asyncio.sleep(20.0)  # the session ends after 6
            left = sum(
                issubclass(type(each), KafkaTimeoutError) for each in gc.get_objects()
            )  # a dead weak proxy has no other type
        finally:
            own_broker.go_on()
        assert left < 1_000, "a spinning poll leaves 10,000"
        await log.append(numbered(1, 2))
        await got.until(lambda: numbered(1, 2)[0].value in got.values, patience=120.0)  # the first may come again


@pytest.mark.kafka
async def test_trap_16_what_a_new_cluster_has_committed_can_be_asked_at_once(own_broker) -> None:
    """Not documented: the admin client gives up while the cluster makes its topic of commits for the first question."""
    settings = settings_for(own_broker)
    assert await asyncio.to_thread(topics.commits, settings, "t", "g") == {}
    assert (await asyncio.to_thread(inspect, settings, [], ["g"])).members == {"g": []}


def _make_small(broker, topic: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.alter_configs([ConfigResource("topic", topic, {"max.message.bytes": "20000"})])
    admin.close()


@pytest.mark.kafka
async def test_trap_17_a_producer_is_woken_once_for_all_that_is_handed_over(
    kafka_broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_log(kafka_broker, partitions=3) as log:
        every_partition = [record for p in range(3) for record in numbered(0, 1, p)]
        await log.append(every_partition)
        woken: list[int] = []
        producer = log._shared.producer._producer
        wake = type(producer._sender).wakeup
        monkeypatch.setattr(type(producer._sender), "wakeup", lambda sender: (woken.append(1), wake(sender)))
        for n in range(3):
            producer.send(log._topic, b"n", partition=n).get(10)
        assert len(woken) == 3, "the library wakes it for each"
        woken.clear()
        await log.append(every_partition)
        assert len(woken) == 1
