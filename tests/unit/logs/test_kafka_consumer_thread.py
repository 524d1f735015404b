"""The thread that polls, with a consumer that needs no broker."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest
from folds import Recorders
from kafka.errors import (
    FencedInstanceIdError,
    GroupAuthorizationFailedError,
    KafkaTimeoutError,
    TopicAuthorizationFailedError,
)
from kafka.structs import TopicPartition

from collector.logs.consumer_runner import AT_ONCE, INTERVAL, ConsumerTiming
from collector.logs.kafka import consumer_thread, owned_partitions, workarounds
from collector.logs.kafka.consumer_thread import ConsumerThread
from collector.logs.kafka.group_consumer import GroupConsumer
from collector.logs.kafka.group_watch import GroupWatch
from collector.logs.kafka.owned_partitions import PrefetchLimiter
from collector.logs.kafka.records import RecordDecoder
from collector.logs.kafka.settings import KafkaSettings
from collector.logs.kafka.subscription import Assigned, PartitionNumbering, Polled, Subscription
from collector.logs.log import Committed, InstanceInUse, LogError, StoredRecord

OLD, NEW = TopicPartition("turns", 0), TopicPartition("turns", 1)
POLLS = 3


class Consumer:
    """Owns `OLD` from the first poll on and `NEW` from the second, with a record of each partition per poll."""

    def __init__(self, trouble: Exception | None = None) -> None:
        self.polls = 0
        self._trouble = trouble
        self._listener: Any = None
        self._at: dict[TopicPartition, int] = {}

    _subscription = SimpleNamespace(assignment=frozenset())

    def subscribe(self, *, topics: Sequence[str], listener: Any) -> None:
        del topics
        self._listener = listener

    def assignment(self) -> set[TopicPartition]:
        return set(self._at)

    def paused(self) -> set[TopicPartition]:
        return set()

    def poll(self, **_: Any) -> dict[TopicPartition, list[StoredRecord]]:
        self.polls += 1
        comes = {1: OLD, 2: NEW}.get(self.polls)
        if comes is not None:
            self._at[comes] = 0
            asyncio.run(self._listener.on_partitions_assigned([comes]))
        if self.polls > POLLS:
            return {}
        found = {where: [StoredRecord(where.partition, at, 1.0, None, b"x")] for where, at in self._at.items()}
        self._at = {where: at + 1 for where, at in self._at.items()}
        return found

    def committed(self, where: TopicPartition, **_: Any) -> None:
        if where == NEW and self._trouble is not None:
            trouble, self._trouble = self._trouble, None
            raise trouble

    def seek(self, where: TopicPartition, position: int) -> None:
        self._at[where] = position

    def close(self, **_: Any) -> None: ...


class SteadyConsumer(Consumer):
    """Owns `OLD`, of which each poll brings a record."""

    def poll(self, **_: Any) -> dict[TopicPartition, list[StoredRecord]]:
        self.polls += 1
        if self.polls == 1:
            self._at[OLD] = 0
            asyncio.run(self._listener.on_partitions_assigned([OLD]))
        self._at[OLD] += 1
        return {OLD: [StoredRecord(0, self._at[OLD] - 1, 1.0, None, b"x")]}


class Owner:
    def __init__(self) -> None:
        self.taken: dict[int, list[int]] = {}

    def assigned(self, assigned: Assigned) -> None:
        self.taken[assigned.partition] = []

    def revoked(self, partitions: Sequence[int]) -> None: ...

    def polled(self, polled: Sequence[Polled]) -> None:
        for each in polled:
            self.taken[each.partition] += [record.offset for record in each.records]

    def confirmed(self, sent_at: float) -> None: ...

    def failed(self, error: LogError) -> None:
        raise error

    def pending(self, partition: int) -> Committed | None: ...


def thread_that_polls(monkeypatch: pytest.MonkeyPatch, consumer: Consumer, owner: Owner) -> ConsumerThread:
    monkeypatch.setattr(consumer_thread, "connect", lambda *_: consumer)
    monkeypatch.setattr(workarounds, "keep_joining", lambda _: None)
    monkeypatch.setattr(workarounds, "give_back_parked_records", lambda _: None)
    monkeypatch.setattr(workarounds, "wait_in_poll", lambda _: None)
    monkeypatch.setattr(workarounds, "poll_in_one_thread", lambda _: None)
    monkeypatch.setattr(workarounds, "wait_in_thread", lambda _, seconds: time.sleep(seconds))
    monkeypatch.setattr(workarounds, "waits_for_group", lambda _: False)
    monkeypatch.setattr(workarounds, "hidden_topics", lambda *_: [])
    monkeypatch.setattr(workarounds, "report_out_of_range", lambda *_: None)
    monkeypatch.setattr(owned_partitions, "topic_id", lambda *_: None)
    for module in (workarounds, consumer_thread):
        monkeypatch.setattr(module, "known_partitions", lambda *_: frozenset([OLD, NEW]))
    monkeypatch.setattr(GroupWatch, "should_rejoin", lambda *_, **__: False)
    monkeypatch.setattr(workarounds, "report_heartbeats", lambda *_: lambda: None)
    monkeypatch.setattr(RecordDecoder, "install", lambda *_: None)
    monkeypatch.setattr(workarounds, "last_answer", lambda _: time.monotonic())
    return ConsumerThread(
        KafkaSettings(bootstrap_servers=["nowhere:1"]),
        Subscription(group="evaluate", topics=PartitionNumbering(["turns"]), instance=None, on_stall=lambda: None),
        owner,
        PrefetchLimiter(1000, 1 << 20),
    )


@pytest.mark.parametrize("trouble", [KafkaTimeoutError("no coordinator"), OSError("no route")])
async def test_no_record_is_lost_when_a_partition_comes_and_nobody_says_where_it_begins(monkeypatch, trouble):
    consumer, owner = Consumer(trouble), Owner()
    thread = thread_that_polls(monkeypatch, consumer, owner)
    thread.start()
    async with asyncio.timeout(60):
        while consumer.polls <= POLLS:
            await asyncio.sleep(0.001)
        await thread.stop()
    assert owner.taken == {0: [0, 1, 2], 1: [0]}, "of what came with the new partition, too"


async def test_polls_that_bring_little_are_spaced(monkeypatch):
    consumer, owner = SteadyConsumer(), Owner()
    thread = thread_that_polls(monkeypatch, consumer, owner)
    started = time.monotonic()
    thread.start()
    async with asyncio.timeout(60):
        while consumer.polls < AT_ONCE + 3:
            await asyncio.sleep(0.001)
        took = time.monotonic() - started
        await thread.stop()
    assert took > 3 * INTERVAL
    assert owner.taken == {0: list(range(consumer.polls))}


def failing_thread(monkeypatch: pytest.MonkeyPatch, *topics: str) -> tuple[ConsumerThread, list[str | None]]:
    """A thread that reads topics, and what it has said of refusals, each change once."""
    thread, said = thread_that_polls(monkeypatch, Consumer(), Owner()), list[str | None]()

    def note(error: LogError | None) -> None:
        text = None if error is None else str(error)
        if text != (said[-1] if said else None):
            said.append(text)

    subscription = Subscription(
        group="g", topics=PartitionNumbering(topics), instance=None, on_stall=lambda: None, on_refused=note
    )
    monkeypatch.setattr(thread, "subscription", subscription)
    monkeypatch.setattr(thread, "_topics", subscription.topics)
    monkeypatch.setattr(thread, "_reading", consumer_thread.ReadingFailures(subscription))
    monkeypatch.setattr(thread, "_wait", lambda _: None)
    assigned = {TopicPartition(topic, 0) for topic in topics}
    monkeypatch.setattr(thread, "_consumer", SimpleNamespace(assignment=lambda: assigned))
    thread._decoding.answered.update(topics)
    return thread, said


async def test_a_topic_that_is_unknown_for_a_moment_is_not_called_missing(monkeypatch):
    """After a lost connection a process was not ready: `there is no topic, or this user may not see it`."""
    thread, said = failing_thread(monkeypatch, "turns")
    for now, hidden in ((100.0, ["turns"]), (103.0, []), (106.0, ["turns"]), (111.5, ["turns"]), (112.0, [])):
        monkeypatch.setattr(workarounds, "hidden_topics", lambda *_, hidden=hidden: hidden)
        monkeypatch.setattr(workarounds, "last_answer", lambda _, now=now: now)
        monkeypatch.setattr(consumer_thread, "time", SimpleNamespace(monotonic=lambda now=now: now))
        thread._note_answers()
    assert [text is not None for text in said] == [True], "while it is unknown for a moment, what was said before holds"
    thread._decoding.answered.add("turns")
    thread._note_answers()
    assert [text is not None for text in said] == [True, False]


async def test_a_poll_without_a_connection_is_no_success(monkeypatch, caplog):
    """`succeeded after 1 failed attempt` came a second after ECONNREFUSED, while no broker was up."""
    caplog.set_level("INFO")
    thread, _ = failing_thread(monkeypatch, "turns")
    monkeypatch.setattr(workarounds, "last_answer", lambda _: 0.0)
    thread._tolerate(OSError("111 ECONNREFUSED"))
    thread._note_answers()
    assert [record.getMessage()[:26] for record in caplog.records] == ["reading for group g failed"]
    monkeypatch.setattr(workarounds, "last_answer", lambda _: time.monotonic())
    thread._note_answers()
    assert caplog.records[-1].getMessage() == "reading for group g succeeded after 1 failed attempt"


async def test_a_topic_that_is_refused_has_lines_of_its_own_until_it_is_read(monkeypatch, caplog):
    """`reading for group g succeeded` came as the other topic was read on, and /readyz was well meanwhile."""
    caplog.set_level("INFO")
    thread, said = failing_thread(monkeypatch, "a", "b")
    for _ in range(3):
        thread._tolerate(TopicAuthorizationFailedError({"a"}))
        thread._decoding.answered.add("b")
        thread._note_answers()
    assert len(said) == 1
    assert "to use the topic a;" in str(said[0])
    assert [record.getMessage()[:28] for record in caplog.records] == ["reading a for group g failed"]
    thread._decoding.answered.add("a")
    thread._note_answers()
    assert said[1:] == [None]
    assert caplog.records[-1].getMessage() == "reading a for group g succeeded after 3 failed attempts"


async def test_a_group_that_is_refused_is_named(monkeypatch):
    thread, said = failing_thread(monkeypatch, "a")
    thread._tolerate(GroupAuthorizationFailedError())
    assert "to use the group g;" in str(said[0])


def test_a_group_whose_commit_is_refused_is_named():
    def refuse(offsets: object, callback: Any) -> None:
        callback(offsets, GroupAuthorizationFailedError())

    answers = list[object]()
    sender = owned_partitions.CommitSender(lambda done, answer: done(answer), "g")
    sender.send(SimpleNamespace(commit_async=refuse), {}, answers.append)
    assert "to use the group g;" in str(answers[0])


def test_a_commit_of_a_member_whose_name_is_taken_says_so_as_a_poll_does():
    def refuse(offsets: object, callback: Any) -> None:
        callback(offsets, FencedInstanceIdError())

    answers = list[object]()
    settings = KafkaSettings(bootstrap_servers=["nowhere:1"], group_instance_id="pod-0")
    sender = owned_partitions.CommitSender(lambda done, answer: done(answer), "g", settings)
    sender.send(SimpleNamespace(commit_async=refuse), {}, answers.append)
    assert isinstance(answers[0], InstanceInUse)
    assert "another process has taken the group_instance_id 'pod-0'" in str(answers[0])


async def test_an_outage_skips_no_record_that_waits_in_the_client(monkeypatch):
    """An error of a coordinator made one record of those that a poll had left over unreadable."""
    thread, sought = failing_thread(monkeypatch, "a")[0], list[Any]()
    waiting = SimpleNamespace(topic_partition=TopicPartition("a", 0), next_fetch_offset=5, drain=lambda: None)
    consumer = SimpleNamespace(
        _fetcher=SimpleNamespace(_next_partition_records=waiting), seek=lambda *where: sought.append(where)
    )
    monkeypatch.setattr(thread, "_consumer", consumer)
    thread._tolerate(KafkaTimeoutError("no coordinator"))
    assert not thread._decoding.unreadable
    assert not sought


async def test_who_has_not_reported_its_partitions_is_no_member_yet() -> None:
    """Its heartbeats were answered before: who waits for its records found no partition, and waited for none."""
    subscription = Subscription(
        group="receive", topics=PartitionNumbering(["logs"]), instance=None, on_stall=lambda: None
    )
    settings = KafkaSettings(bootstrap_servers=["nowhere:1"])
    consumer = GroupConsumer(settings, subscription, ConsumerTiming(), append=None)
    consumer._thread.owned.add_assigned([TopicPartition("logs", 0)])
    consumer.confirmed(time.monotonic())
    assert not consumer.is_member
    consumer._thread.owned.unreported.clear()
    consumer.confirmed(time.monotonic())
    assert consumer.is_member
    consumer.revoked([0])
    assert not consumer.is_member, "nobody knows who has them until the next answer"


async def test_a_partition_whose_last_commit_was_passed_over_goes_on_where_it_ended(monkeypatch) -> None:
    """A commit that waited until its partition was revoked counted as one that the log took: the partition came back,
    and everything since the last commit was delivered again.
    """
    subscription = Subscription(group="g", topics=PartitionNumbering(["a"]), instance=None, on_stall=lambda: None)
    settings = KafkaSettings(bootstrap_servers=["nowhere:1"])
    consumer, got = GroupConsumer(settings, subscription, ConsumerTiming(), append=None), Recorders()
    consumer.confirmed(math.inf)
    thread = consumer._thread

    def assign(epoch: int, *offsets: int) -> None:
        thread.owned._epochs[0] = epoch
        consumer.assigned(Assigned(0, epoch, Committed(5, 5), 0))
        records = [StoredRecord(0, offset, 1000.0, None, b"%d" % offset) for offset in offsets]
        consumer.polled([Polled(0, records, offsets[-1] + 1, 1)])

    def pass_over(states: Any, done: Any) -> None:
        del thread.owned._epochs[0]
        thread._call(consumer.revoked, [0])
        thread._commits.add(owned_partitions.CommitCommand(states, done))
        thread._commits.send_queued(None, thread.owned.offsets_of)
        thread._call(assign, 2, 5, 6, 7)

    monkeypatch.setattr(thread, "commit", pass_over)
    monkeypatch.setattr(thread, "start", lambda: None)
    monkeypatch.setattr(thread, "stop", AsyncMock())
    monkeypatch.setattr(consumer, "_timing", ConsumerTiming(commit_interval=0.05))
    running = asyncio.create_task(consumer.run(got.open_fold))
    assign(1, 5, 6)
    await got.until(lambda: b"7" in got.values, patience=5.0)
    monkeypatch.setattr(thread, "commit", lambda _states, done: done(None))
    running.cancel()
    await asyncio.wait([running])
    assert got.values == [b"5", b"6", b"7"]


async def test_an_outage_is_said_once_though_polls_succeed_and_so_is_its_end(monkeypatch, caplog):
    """An idle process said nothing of a broker that had died until its group could not be joined for long."""
    caplog.set_level("INFO", logger="collector.backoff")
    thread, refused = failing_thread(monkeypatch, "turns")
    lines: list[int] = []
    for now, answered_at in ((100.0, 99.9), (101, 0.0), (102, 101.5), (103, 0.0), (107, 0.0), (108, 0.0), (109, 0.0)):
        monkeypatch.setattr(workarounds, "last_answer", lambda _, at=answered_at: at)
        monkeypatch.setattr(consumer_thread, "time", SimpleNamespace(monotonic=lambda now=now: now))
        thread._note_answers()
        lines.append(len(caplog.messages))
    assert lines == [0, 0, 0, 0, 0, 1, 1], "a connection may be away for a moment"
    assert caplog.messages == ["reading for group g failed (no Kafka broker answers at nowhere:1); retrying"]
    assert not [text for text in refused if text is not None], "an outage is no refusal"
    monkeypatch.setattr(workarounds, "last_answer", lambda _: 110.0)
    thread._note_answers()
    assert caplog.messages[1:] == ["reading for group g succeeded after 2 failed attempts"]
