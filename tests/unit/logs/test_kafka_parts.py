"""The parts of the Kafka log that need no broker."""

from __future__ import annotations

import gzip
import itertools
import threading
from contextlib import suppress
from types import SimpleNamespace

import lz4.frame
import pytest
import snappy
import zstandard
from hypothesis import given, strategies as st
from kafka.codec import snappy_encode
from kafka.errors import (
    GroupAuthorizationFailedError,
    KafkaConnectionError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    NodeNotReadyError,
    RebalanceInProgressError,
    TopicAuthorizationFailedError,
)
from kafka.structs import OffsetAndMetadata, TopicPartition

from collector.logs.kafka import topics
from collector.logs.kafka.consumer_thread import CHECKS, Watchdog
from collector.logs.kafka.owned_partitions import MAX_METADATA, PrefetchLimiter, from_kafka, to_kafka
from collector.logs.kafka.records import DecompressedTooLarge, decompress
from collector.logs.kafka.settings import KafkaSettings, translate
from collector.logs.kafka.subscription import PartitionNumbering
from collector.logs.kafka.topics import _await_topics, _copies, member_names
from collector.logs.kafka.workarounds import replace_decoding
from collector.logs.log import Committed, LogError, LogUnavailable, NotPermitted, RecordTooLarge

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
PACKERS = [
    (GZIP, gzip.compress),
    (SNAPPY, snappy.compress),
    (SNAPPY, snappy_encode),
    (LZ4, lz4.frame.compress),
    (ZSTD, zstandard.ZstdCompressor().compress),
]


@pytest.mark.parametrize(("codec", "pack"), PACKERS)
@given(data=st.binary(max_size=5000))
def test_what_was_packed_is_unpacked(codec: int, pack, data: bytes) -> None:
    assert decompress(codec, pack(data), max(len(data), 1)) == data


@pytest.mark.parametrize(("codec", "pack"), PACKERS)
def test_one_byte_too_much_is_too_much(codec: int, pack) -> None:
    packed = pack(bytes(100_000))
    assert len(decompress(codec, packed, 100_000)) == 100_000
    with pytest.raises(DecompressedTooLarge, match="99999"):
        decompress(codec, packed, 99_999)


@pytest.mark.parametrize(("codec", "pack"), PACKERS)
@given(cut=st.integers(1, 40))
def test_what_is_cut_off_is_an_error(codec: int, pack, cut: int) -> None:
    packed = pack(bytes(range(256)) * 20)
    with pytest.raises(Exception):  # noqa: B017 - each codec has its own
        assert len(decompress(codec, packed[:-cut], 1 << 20)) == 5120


@given(codec=st.integers(0, 7), data=st.binary(max_size=200))
def test_rubbish_is_an_error_or_small(codec: int, data: bytes) -> None:
    too_large: list[bool] = []
    with suppress(Exception):
        unpacked = decompress(codec, data, 1000)
        too_large.append(len(unpacked) > 1000)
    assert not any(too_large)


@pytest.mark.parametrize("packed", [gzip.compress(b"one") + gzip.compress(b"two")], ids=["two"])
def test_gzip_members_are_joined_within_one_limit(packed: bytes) -> None:
    assert decompress(GZIP, packed, 6) == b"onetwo"
    with pytest.raises(DecompressedTooLarge):
        decompress(GZIP, packed, 5)


def test_gzip_with_thousands_of_empty_members_is_refused():
    with pytest.raises(ValueError, match="more than 1000 members"):
        decompress(GZIP, gzip.compress(b"") * 200_000, 1 << 20)


@given(st.integers(0, 2**60), st.integers(0, 1000), st.text(st.characters(max_codepoint=127), max_size=300))
def test_a_state_comes_back_from_a_commit(low: int, more: int, note: str) -> None:
    state = Committed(low, low + more, note)
    kept = to_kafka(state)
    assert kept.offset == low
    assert from_kafka(kept) == state


def test_a_note_of_the_longest_kind_fits_and_a_longer_one_is_refused() -> None:
    assert len(to_kafka(Committed(2**60, 2**60, "n" * 2000)).metadata) <= MAX_METADATA
    with pytest.raises(LogError, match="4100 characters"):
        to_kafka(Committed(0, 0, "n" * 4100))


@pytest.mark.parametrize(
    "metadata", ["", None, "{", "[]", "7", "null", '{"p": "x", "n": ""}', '{"n": ""}', '{"p": null}']
)
def test_metadata_that_is_not_ours_says_nothing(metadata: str | None) -> None:
    assert from_kafka(OffsetAndMetadata(7, metadata, -1)) == Committed(7, 7)


def test_flow_pauses_at_a_bound_and_goes_on_below_half() -> None:
    flow = PrefetchLimiter(10, 1000)
    flow.open_partition(0)
    flow.open_partition(1)
    flow.add(0, 9, 10)
    assert flow.paused_partitions() == set()
    flow.add(0, 1, 10)
    flow.add(1, 1, 1000)
    assert flow.paused_partitions() == {0, 1}
    flow.add(0, -4, -8)
    flow.add(1, 0, -499)
    assert flow.paused_partitions() == {0, 1}, "still more than half"
    flow.add(0, -1, -2)
    flow.add(1, 0, -1)
    assert flow.paused_partitions() == set()


def test_flow_counts_a_partition_that_comes_again_from_nothing() -> None:
    flow = PrefetchLimiter(10, 1000)
    flow.open_partition(0)
    flow.add(0, 50, 50)
    flow.close_partition(0)
    flow.add(0, -50, -50)
    assert flow.paused_partitions() == set()
    flow.open_partition(0)
    flow.add(0, 10, 0)
    assert flow.paused_partitions() == {0}


@given(st.lists(st.text("abc", min_size=1, max_size=3), min_size=1, max_size=6, unique=True), st.data())
def test_partitions_of_several_topics_have_one_number_each(names: list[str], data: st.DataObject) -> None:
    topics = PartitionNumbering(names)
    some = [TopicPartition(name, n) for name in names for n in range(data.draw(st.integers(1, 5)))]
    numbers = [topics.number_of(where) for where in some]
    assert len(set(numbers)) == len(some)
    assert [topics.where(number) for number in numbers] == some


def test_partitions_of_one_topic_keep_their_numbers() -> None:
    assert PartitionNumbering(["t"]).number_of(TopicPartition("t", 5)) == 5


def test_a_watchdog_barks_once_and_only_when_nothing_beats() -> None:
    barked = threading.Event()
    watchdog = Watchdog("loop", 0.05, barked.set)
    watchdog.start()
    assert barked.wait(5)
    quiet = Watchdog("loop", 0.05, pytest.fail)
    quiet.start()
    quiet.stop()
    quiet._thread.join(5)
    assert not quiet._thread.is_alive()


def test_a_watchdog_counts_beats_and_not_time() -> None:
    """A machine that was frozen wakes up late, which is no stall."""
    barked: list[bool] = []
    watchdog = Watchdog("loop", 1.0, lambda: barked.append(True))
    looks = iter([False] * (3 * CHECKS) + [True])
    beats = iter([True] * CHECKS + [False] * (CHECKS - 1) + [True] + [False] * (CHECKS - 1))

    def wait(_seconds: float) -> bool:
        if next(beats, True):
            watchdog.beat()
        return next(looks)

    watchdog._stopped = SimpleNamespace(wait=wait)
    watchdog._watch()
    assert not barked


def test_another_kafka_python_is_refused() -> None:
    with pytest.raises(LogError, match=r"3\.0\.12"):
        replace_decoding(SimpleNamespace(_fetcher=object()), lambda: None)


@pytest.mark.parametrize(
    ("error", "ours"),
    [
        (KafkaTimeoutError("late"), LogUnavailable),
        (MessageSizeTooLargeError("big"), RecordTooLarge),
        (TopicAuthorizationFailedError("no"), NotPermitted),
        (RebalanceInProgressError("call poll()"), LogUnavailable),
        (ValueError("what"), LogUnavailable),
    ],
)
def test_errors_say_whether_trying_again_may_help(error: Exception, ours: type[LogError]) -> None:
    assert type(translate(error)) is ours
    named = "grant this user READ" if ours is NotPermitted else type(error).__name__
    if isinstance(error, RebalanceInProgressError):
        named = "ends by itself"
    assert named in str(translate(error))


def test_who_writes_and_who_reads_know_the_right_that_is_missing() -> None:
    """A write that lost WRITE named four operations."""
    no = TopicAuthorizationFailedError("no")
    assert str(translate(no, topic="l.spans")) == (
        "Kafka does not permit this user to use the topic l.spans; grant this user WRITE of it"
    )
    assert str(translate(TopicAuthorizationFailedError({"l.spans"}), group="l.assemble")) == (
        "Kafka does not permit this user to use the topic l.spans; grant this user READ of it"
    )
    assert str(translate(TopicAuthorizationFailedError({"b", "a", "c"}), group="l.assemble")) == (
        "Kafka does not permit this user to use the topics a, b and c; grant this user READ of them"
    )
    assert str(translate(no, reads=True)).endswith("to use the topic; grant this user READ of it")
    assert str(translate(no)).endswith(
        "to use the topic; grant this user READ, WRITE, CREATE and DESCRIBE_CONFIGS of topics that begin with the "
        "prefix, READ of sources' topics"
    )
    assert "READ of groups" in str(translate(GroupAuthorizationFailedError("no"), group="l.assemble"))


@pytest.mark.parametrize(
    ("instance", "subscribed", "name"),
    [
        ("p1-otlp_a", ["otlp_a", "otlp_b"], "p1"),
        ("p-1-team.otlp", ["team.otlp"], "p-1"),
        ("p1-spans", ["live.spans"], "p1"),
        ("p1-else", ["live.spans"], "p1-else"),
        (None, ["live.spans"], "evalstream (no group_instance_id)"),
    ],
)
def test_a_member_is_named_without_a_topic(instance: str | None, subscribed: list[str], name: str) -> None:
    """A member that read two topics had the name of the first."""
    member = {"group_instance_id": instance, "client_id": "evalstream", "client_host": "/10.0.0.1"}
    assert member_names([{**member, "member_metadata": {"topics": subscribed}}]) == [f"{name} on 10.0.0.1"]
    assert member_names([{**member, "member_metadata": b""}]) == [f"{instance or name} on 10.0.0.1"]


def test_the_class_of_an_error_is_named_once() -> None:
    """The words of Kafka's errors begin with their class."""
    assert str(translate(KafkaConnectionError("111 refused"))) == "KafkaConnectionError: 111 refused"
    assert str(translate(KafkaTimeoutError())) == "Kafka does not answer in time (KafkaTimeoutError)"
    assert str(translate(OSError("gone"))) == "OSError: gone"


def test_an_outage_is_told_as_one_and_sounds_like_no_loss() -> None:
    """`/readyz` had `KafkaTimeoutError: Failed to get offsets by timestamps in 15000 ms` 20 s into an outage."""
    settings = KafkaSettings(bootstrap_servers=["broker:9092"])
    late = KafkaTimeoutError("Failed to get offsets by timestamps in 15000 ms")
    at = "Kafka at broker:9092 does not answer in time (KafkaTimeoutError"
    assert str(translate(late, settings)) == f"{at}: Failed to get offsets by timestamps in 15000 ms)"
    expired = KafkaTimeoutError(
        "Expiring 1 record(s) for TopicPartition(x, 0): 15000 ms has passed since batch creation"
    )
    assert str(translate(expired, settings)) == f"{at})"
    away = NodeNotReadyError("coordinator")
    assert str(translate(away)) == "Kafka does not answer in time (NodeNotReadyError: coordinator)"


def test_with_three_copies_an_acknowledged_record_is_on_two_brokers() -> None:
    assert [_copies(number) for number in (1, 2, 3, 5)] == [{}, {}, *[{"min.insync.replicas": "2"}] * 2]


@pytest.mark.parametrize(
    ("codes", "error"),
    [([3, 3, 0], None), ([3], LogUnavailable), ([3, 29], NotPermitted)],
    ids=["known later", "not known in time", "hidden"],
)
def test_a_topic_that_another_process_has_just_made_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, codes: list[int], error: type[LogError] | None
) -> None:
    """A process that started beside two others was refused: `Kafka does not permit this user READ, WRITE`."""
    clock = itertools.count()
    monkeypatch.setattr(topics, "time", SimpleNamespace(monotonic=lambda: next(clock), sleep=lambda _: None))
    answers = itertools.chain(codes, itertools.repeat(codes[-1]))
    admin = SimpleNamespace(
        describe_topics=lambda names: [{"name": name, "error_code": next(answers)} for name in names]
    )
    problems = list[LogError]()
    try:
        problems += _await_topics(admin, ["turns"])
    except LogError as late:
        problems.append(late)
    assert [type(problem) for problem in problems] == ([] if error is None else [error])
    assert all("turns" in str(problem) for problem in problems)
