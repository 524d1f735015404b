from __future__ import annotations

from log_doubles import FailingLog, PickyLog, stored
from otlp_samples import logs_request, trace_id, traces_request

from collector.backoff import Backoff
from collector.logs.log import TICK, LogUnavailable, StoredRecord
from collector.receive.kafka import KafkaReceiver, SourceTopic
from collector.records.shared_records import divide_records, pieces_of
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import DROPS, RECEIVE_ITEMS

ONE, TWO = trace_id(1), trace_id(2)
TRACES = traces_request(ONE, TWO, ONE).SerializeToString()


def message(value: bytes | None, position: int = 0, headers=()) -> StoredRecord:
    return StoredRecord(0, position, 0.0, None, value, headers)


class Source:
    """A receiver over a log, with everything that happens noted."""

    def __init__(self, log: FailingLog, **options) -> None:
        self.poison: list[tuple[int, str]] = []
        self.waits: list[float] = []
        self.telemetry = Telemetry()
        self.receiver = KafkaReceiver(
            SourceTopic(
                "otlp_spans",
                options.pop("signal", "traces"),
                **{name: options.pop(name) for name in ("encoding", "max_items") if name in options},
            ),
            log,
            self.telemetry,
            backoff=Backoff(sleep=self._sleep),
            on_unreadable=self._on_unreadable,
            **options,
        )

    async def _sleep(self, seconds: float) -> None:
        self.waits.append(seconds)

    def _on_unreadable(self, message: StoredRecord, error: Exception) -> None:
        self.poison.append((message.offset, str(error)))

    async def deliver(self, *messages: StoredRecord) -> None:
        async with self.receiver.open_fold(0, None) as fold:
            await fold.deliver(messages)
            assert fold.low_watermark is None


async def test_a_delivery_becomes_one_append_cut_by_trace():
    log = FailingLog()
    await Source(log).deliver(message(TRACES), message(TRACES, 1))
    [[shared]] = log.appends
    pieces = pieces_of(StoredRecord(0, 0, 0.0, shared.key, shared.value, shared.headers))
    assert [each.key for each in pieces] == [ONE.hex().encode(), TWO.hex().encode()] * 2


async def test_how_late_the_last_span_of_each_message_came():
    late, skewed, timeless = (traces_request(ONE, TWO) for _ in range(3))
    spans = [request.resource_spans[-1].scope_spans[-1].spans[-1] for request in (late, skewed, timeless)]
    for span, ended in zip(spans, (1_000, 2_000, 0), strict=True):
        span.end_time_unix_nano = ended * 10**9
    source = Source(FailingLog(), clock=lambda: 1_025.0)
    await source.deliver(*(message(each.SerializeToString()) for each in (late, skewed, timeless)))
    registry = source.telemetry.registry
    assert registry.get_sample_value("evalstream_ingest_lag_seconds_count", {"source": "kafka"}) == 2
    assert registry.get_sample_value("evalstream_ingest_lag_seconds_sum", {"source": "kafka"}) == 25.0


async def test_logs_by_configuration():
    log = FailingLog()
    await Source(log, signal="logs").deliver(message(logs_request(ONE).SerializeToString()))
    assert divide_records(await stored(log))[0].headers == (("signal", b"logs"),)


async def test_the_encoding_is_seen_by_the_first_byte_unless_configured():
    json = b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"%s"}]}]}]}' % ONE.hex().encode()
    log = FailingLog()
    await Source(log).deliver(message(json), message(TRACES))
    assert len(divide_records(await stored(log))) == 3
    source = Source(log, encoding="otlp_proto")
    await source.deliver(message(json))
    assert len(source.poison) == 1


async def test_tombstones_ticks_and_empty_messages_are_passed():
    log = FailingLog()
    source = Source(log)
    await source.deliver(message(None), message(b"", 1), message(b"x", 2, TICK))
    assert log.appends == []
    assert source.poison == []


async def test_poison_is_reported_counted_and_does_not_stop_the_rest():
    log = FailingLog()
    source = Source(log)
    await source.deliver(message(b"\xff\xff\xff", 4), message(TRACES, 5), message(b"{no json", 6))
    assert [position for position, _ in source.poison] == [4, 6]
    assert len(divide_records(await stored(log))) == 2
    assert source.telemetry.counter(DROPS, "receive", "unreadable_message")._value.get() == 2


async def test_waits_for_the_log_as_long_as_it_takes():
    log = FailingLog(*[LogUnavailable("down")] * 5)
    source = Source(log)
    await source.deliver(message(TRACES))
    assert len(source.waits) == 5
    assert len(log.appends) == 1
    assert source.telemetry.counter(RECEIVE_ITEMS, "kafka", "traces", "accepted")._value.get() == 3


async def test_a_trace_too_large_for_the_log_is_poison_and_its_neighbours_are_not():
    log = PickyLog(limit=1000)
    source = Source(log)
    large = traces_request(TWO, text="x" * 2000).SerializeToString()
    await source.deliver(message(TRACES, 1), message(large, 2), message(TRACES, 3))
    assert [position for position, _ in source.poison] == [2]
    assert len(divide_records(await stored(log))) == 4


async def test_too_many_items_in_a_message_are_poison():
    source = Source(FailingLog(), max_items=2)
    await source.deliver(message(TRACES))
    assert len(source.poison) == 1


async def test_references_go_into_the_turns_log_and_what_is_none_is_poison():
    log = FailingLog()
    source = Source(log, signal="references")
    good = b'{"conversation_id": "c1", "expected_output": "a"}\n{"conversation_id": "c2", "outcomes": {"sold": true}}'
    await source.deliver(message(good), message(b'{"expected_output": "a"}', 1), message(b"no", 2))
    assert [(each.key, each.headers) for each in divide_records(await stored(log))] == [
        (b"c1", (("reference", b"1"),)),
        (b"c2", (("reference", b"1"),)),
    ]
    assert [position for position, _ in source.poison] == [1, 2]
    assert source.telemetry.counter(RECEIVE_ITEMS, "kafka", "references", "accepted")._value.get() == 2
