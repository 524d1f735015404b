"""Ready-made turns from topics and files: what becomes of them on the way into the turns log."""

from __future__ import annotations

import asyncio
import itertools
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from log_doubles import FailingLog, PickyLog, stored
from otlp_samples import trace_id

from collector.backoff import Backoff
from collector.errors import BadInput
from collector.logs.log import TICK, LogUnavailable, StoredRecord
from collector.logs.memory import MemoryLog
from collector.receive.feedback_ingest import ALL_FEEDBACK, FeedbackRules, parse_feedback
from collector.receive.files import read_files
from collector.receive.kafka import KafkaReceiver, SourceTopic
from collector.receive.otlp_ingest import IngestRules
from collector.receive.rejection import NotRedacted
from collector.receive.turn_ingest import ArrivalTimes, RecentTurns, parse_turns
from collector.records.feedback import parse_feedback_entry
from collector.records.json import turn_from_json
from collector.redact.open_redactor import Redactors
from collector.redact.patterns import find
from collector.redact.redactor import Redactor
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import DROPS, RECEIVE_ITEMS, TURNS_ASSEMBLED
from evaluators.cases import Turn

NOW = 1_800_000_000.0
OTLP = b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"%s"}]}]}]}' % trace_id(1).hex().encode()
REDACTOR = Redactor((find,), b"a key")


def said(*words: str) -> list[dict[str, str]]:
    return [{"role": ("user", "assistant")[n % 2], "content": word} for n, word in enumerate(words)]


def chat(length: int, name: str | None = "c") -> dict[str, Any]:
    """A chat of so many exchanges."""
    return {"id": name, "messages": said(*itertools.chain(*((f"q{n}", f"a{n}") for n in range(length))))}


TURN = {"input": "Hi", "actual_output": "Hello"}


def message(value: Any, position: int = 0, at: float = NOW - 60) -> StoredRecord:
    return StoredRecord(0, position, at, None, value if isinstance(value, bytes) else json.dumps(value).encode())


def redacting(redactor: Redactor) -> IngestRules:
    return IngestRules(redactors=Redactors(redactor))


class Source:
    """A receiver of turns over a log; each `deliver` is a fold of its own unless one is open."""

    def __init__(self, log: MemoryLog, **options: Any) -> None:
        self.log = log
        self.poison: list[tuple[int, str]] = []
        self.telemetry = Telemetry()
        topic = {name: options.pop(name) for name in ("locate", "max_items") if name in options}
        self.receiver = KafkaReceiver(
            SourceTopic("chats", "turns", **topic), log, self.telemetry,
            backoff=Backoff(sleep=lambda _seconds: asyncio.sleep(0)),
            on_unreadable=self._on_unreadable, clock=lambda: NOW, **options,
        )  # fmt: skip

    def _on_unreadable(self, bad: StoredRecord, error: Exception) -> None:
        self.poison.append((bad.offset, str(error)))

    async def deliver(self, *messages: StoredRecord) -> None:
        async with self.receiver.open_fold(0, None) as fold:
            await fold.deliver(messages)

    async def turns(self) -> list[Turn]:
        return [turn_from_json(record.value) for record in await stored(self.log)]

    def items(self, result: str) -> float:
        return self.telemetry.counter(RECEIVE_ITEMS, "kafka", "turns", result)._value.get()


async def test_a_message_is_a_document_an_array_or_lines():
    source = Source(FailingLog())
    lines = b'{"input": "c", "actual_output": "d"}\n{"input": "e", "error": "timeout"}\n{"turn_id": "x", "input": "f"}'
    await source.deliver(message(TURN), message([TURN, TURN], 1), message(lines, 2), message(chat(2), 3))
    turns = await source.turns()
    assert [turn.input for turn in turns] == ["Hi", "Hi", "Hi", "c", "e", "f", "q0", "q1"]
    assert len({turn.turn_id for turn in turns}) == 8
    assert len(source.log.appends) == 1
    assert source.items("accepted") == 8
    outcomes = (("complete", ""), ("failed", ""), ("incomplete", "no_content"))
    counts = [source.telemetry.counter(TURNS_ASSEMBLED, "readymade", *each)._value.get() for each in outcomes]
    assert counts == [6, 1, 1]


async def test_a_record_is_keyed_by_conversation_else_by_trace_else_by_turn():
    source = Source(FailingLog())
    await source.deliver(
        message(TURN | {"conversation_id": "c", "trace_id": "t"}), message(TURN | {"trace_id": "t"}), message(TURN, 2)
    )
    keys = [record.key for record in await stored(source.log)]
    assert keys == [b"c", b"t", (await source.turns())[2].turn_id.encode()]


async def test_a_message_delivered_again_gives_the_same_turns_and_equal_words_elsewhere_give_others():
    source = Source(FailingLog())
    for _ in range(2):
        await source.deliver(message(TURN, 7), message(TURN, 8))
    first, second, *again = [turn.turn_id for turn in await source.turns()]
    assert first != second
    assert again == [first, second]


async def test_the_place_is_topic_and_partition_whatever_numbers_they_go_by():
    numbered = Source(FailingLog(), locate=lambda number: ("chats", number // 2))
    plain = Source(FailingLog())
    await numbered.deliver(StoredRecord(2, 5, 0.0, None, json.dumps(TURN).encode()))
    await plain.deliver(StoredRecord(1, 5, 0.0, None, json.dumps(TURN).encode()))
    assert (await numbered.turns())[0].turn_id == (await plain.turns())[0].turn_id


async def test_a_growing_chat_brings_each_turn_once_within_a_delivery_and_across_them():
    source = Source(FailingLog())
    async with source.receiver.open_fold(0, None) as fold:
        await fold.deliver([message(chat(1), 0), message(chat(2), 1)])
        assert fold.low_watermark == 1
        await fold.deliver([message(chat(3), 2)])
        assert fold.low_watermark == 2
    assert [turn.input for turn in await source.turns()] == ["q0", "q1", "q2"]
    assert (source.items("accepted"), source.items("ignored")) == (3, 3)


async def test_what_a_chat_brought_is_known_after_a_restart():
    source = Source(FailingLog())
    await source.deliver(message(chat(2), 0))
    async with source.receiver.open_fold(0, None) as fold:
        await fold.replay([message(b"no JSON", 0), message(chat(2), 1)])
        assert fold.low_watermark == 1
        await fold.deliver([message(chat(3), 2)])
    assert [turn.input for turn in await source.turns()] == ["q0", "q1", "q2"]
    assert source.poison == []


async def test_turns_that_cannot_come_again_are_not_remembered():
    source = Source(FailingLog())
    async with source.receiver.open_fold(0, None) as fold:
        await fold.deliver([message(TURN), message(chat(2, None), 1)])
        assert fold.low_watermark is None


async def test_memory_is_bounded():
    known = RecentTurns()
    for position in range(12_000):
        known.add([str(position)], position)
        known.forget(position)
    assert known.oldest == 1_999
    known.add(map(str, range(60_000)), 12_000)
    known.forget(12_000)
    assert "59999" in known
    assert "9999" not in known


async def test_turns_without_a_time_happened_when_their_message_was_written_in_order():
    source = Source(FailingLog())
    when = "2026-01-02T03:04:05+00:00"
    await source.deliver(
        message(chat(2)),
        message(TURN, 1),
        message(TURN, 2, NOW + 5000),
        message(TURN | {"started_at": when}, 3),
        message(TURN, 4, 0),
    )
    turns = await source.turns()
    ended = [turn.ended_at for turn in turns if turn.ended_at]
    assert ended == sorted(set(ended))
    assert len(ended) == 5
    assert ended[0] == datetime.fromtimestamp(NOW - 60, UTC)
    assert (ended[-1] - datetime.fromtimestamp(NOW, UTC)).total_seconds() < 1e-4
    assert (turns[4].started_at, turns[4].ended_at) == (datetime.fromisoformat(when), None)


async def test_poison_is_reported_counted_and_nothing_of_its_message_is_stored():
    source = Source(FailingLog())
    await source.deliver(
        message([TURN, {"question": "Hi"}], 3), message(TURN, 4), message(b"{", 5), message(b"\xff", 6)
    )
    assert len(await source.turns()) == 1
    assert [position for position, _ in source.poison] == [3, 5, 6]
    assert source.poison[0][1].startswith("document 2 of 2: neither a turn")
    assert source.telemetry.counter(DROPS, "receive", "unreadable_message")._value.get() == 3


async def test_tombstones_ticks_and_empty_arrays_are_passed():
    source = Source(FailingLog())
    await source.deliver(message(b""), StoredRecord(0, 1, 0.0, None, b"x", TICK), message(b"[]", 2))
    assert (source.poison, await source.turns()) == ([], [])


async def test_waits_for_the_log_and_forgets_nothing_meanwhile():
    source = Source(FailingLog(*[LogUnavailable("down")] * 3))
    await source.deliver(message(chat(1)), message(chat(2), 1))
    assert [turn.input for turn in await source.turns()] == ["q0", "q1"]


async def test_a_turn_too_large_for_the_log_is_poison_and_its_neighbours_are_not():
    """What only the poison would have brought is not taken for known."""
    source = Source(PickyLog(limit=1000))
    large = chat(3) | {"messages": [*chat(3)["messages"], *said("x" * 2000, "y")]}
    await source.deliver(message(chat(1), 1), message(large, 2), message(chat(2), 3))
    assert [position for position, _ in source.poison] == [2]
    assert "turns log" in source.poison[0][1]
    assert [turn.input for turn in await source.turns()] == ["q0", "q1"]


@pytest.mark.parametrize("body", [[TURN] * 3, chat(3), b"{" * 60], ids=["array", "chat", "braces"])
async def test_too_many_turns_in_a_message_are_poison(body: Any):
    source = Source(FailingLog(), max_items=2)
    await source.deliver(message(body))
    assert [reason for _, reason in source.poison] == ["the message holds more than 2 turns"]


def test_a_chat_whose_turns_come_to_too_much_is_refused():
    with pytest.raises(BadInput, match="more than 64 MiB"):
        take(json.dumps(chat(70) | {"attributes": {"text": "x" * 1_000_000}}).encode())


def take(body: bytes, redactor: Redactor | None = None) -> list[Turn]:
    taken = parse_turns(body, "chats/0/1", at=ArrivalTimes(lambda: NOW).next, redactor=redactor)
    return [turn_from_json(record.value) for record in taken.records]


EVERYWHERE: list[dict[str, Any]] = [
    {
        "turn_id": "ada@example.com",
        "conversation_id": "ada@example.com",
        "trace_id": "ada@example.com",
        "span_id": "ada@example.com",
        "parent_span_id": "ada@example.com",
        "response_id": "ada@example.com",
        "service": "ada@example.com",
        "dialect": "ada@example.com",
        "model": "ada@example.com",
        "user_id": "ada@example.com",
        "system_prompt": "to ada@example.com",
        "history": [
            {"role": "ada@example.com", "content": "ada@example.com", "tool_call_id": "ada@example.com"},
            {"role": "assistant", "tool_calls": [{"name": "f", "arguments": '{"to": "ada\\u0040example.com"}'}]},
        ],
        "input": "ada@example.com",
        "actual_output": "ada@example.com",
        "tools_called": [{"id": "ada@example.com", "name": "ada@example.com", "arguments": {"ada@example.com": 1}, "result": ["ada@example.com"]}],
        "expected_tools": [{"name": "f", "arguments": {"to": "ada@example.com"}}],
        "retrieval_context": ["ada@example.com"],
        "context": ["ada@example.com"],
        "expected_output": "ada@example.com",
        "error": "ada@example.com",
        "feedback": [{"name": "ada@example.com", "value": "ada@example.com", "comment": "ada@example.com"}],
        "trace_state": "ada@example.com",
        "events": ["ada@example.com"],
        "attributes": {"a": {"ada@example.com": ["ada@example.com"]}, "api_key": "hunter2hunter2", "card": 4111111111111111},
    },
    {
        "messages": [
            {"role": "system", "content": "ada@example.com"},
            {"role": "user", "content": [{"type": "text", "text": "ada@example.com"}]},
            {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": '{"a": "ada@example.com"}'}}]},
            {"role": "tool", "tool_call_id": "1", "content": "ada@example.com"},
            {"role": "assistant", "content": "ada@example.com"},
        ],
        "id": "ada@example.com",
        "user_id": "ada@example.com",
        "attributes": {"api_key": "hunter2hunter2"},
        "context": ["ada@example.com"],
    },
]  # fmt: skip


@pytest.mark.parametrize("nested", [False, True], ids=["alone", "in a conversation or array"])
@pytest.mark.parametrize("document", EVERYWHERE, ids=["turn", "chat"])
def test_what_is_redacted_in_spans_is_redacted_in_turns(document: dict[str, Any], nested: bool):
    if nested:
        turns = {"conversation_id": "ada@example.com", "turns": [document]}
        document = turns if "input" in document else [document]  # type: ignore[assignment]
    body = json.dumps(document).encode()
    [turn] = take(body, REDACTOR)
    [record] = parse_turns(body, "p", at=ArrivalTimes().next, redactor=REDACTOR).records
    for secret in (b"ada@", b"\\u0040", b"hunter2", b"4111111111111111"):
        assert secret not in record.value + (record.key or b"")
    assert turn.conversation_id is not None
    assert turn.conversation_id.startswith("<EMAIL_")
    assert turn.input == turn.conversation_id, "the same thing has one pseudonym"


def test_ids_and_times_that_look_like_numbers_stay():
    whole = {
        "trace_id": "4111111111111111" * 2, "span_id": "4111111111111111", "input": "ada@example.com",
        "actual_output": "b", "started_at": 4111111111111, "usage": {"input_tokens": 4111111111111111},
    }  # fmt: skip
    [turn] = take(json.dumps(whole).encode(), REDACTOR)
    assert (turn.trace_id, turn.span_id) == (whole["trace_id"], whole["span_id"])
    assert turn.started_at == datetime.fromtimestamp(4111111111.111, UTC)
    assert turn.usage is not None
    assert turn.usage.input_tokens == 4111111111111111


def test_an_evaluation_id_that_looks_like_a_number_stays():
    said = {"evaluation_id": "4111111111111111" * 2, "value": 1}
    [stored] = parse_feedback(json.dumps(said).encode(), ALL_FEEDBACK, tenant=None, redactor=REDACTOR).records
    assert json.loads(stored.value)["evaluation_id"] == said["evaluation_id"]


def test_an_id_comes_of_what_is_stored_and_not_of_what_was_taken_out():
    def named(mail: str, redactor: Redactor | None) -> str:
        return take(json.dumps(TURN | {"input": mail}).encode(), redactor)[0].turn_id

    assert named("Ada@example.com", REDACTOR) == named("ada@example.com", REDACTOR)
    assert named("Ada@example.com", None) != named("ada@example.com", None)


async def test_what_cannot_be_redacted_is_neither_stored_nor_kept():
    def broken(_text: str) -> Any:
        raise RuntimeError("the text was: ...")

    source = Source(FailingLog(), rules=redacting(Redactor((broken,), b"k")))
    await source.deliver(message(TURN | {"input": "a longer text"}))
    assert await source.turns() == []
    assert "could not be redacted" in source.poison[0][1]
    with pytest.raises(NotRedacted) as caught:
        take(json.dumps(TURN | {"input": "a longer text"}).encode(), Redactor((broken,), b"k"))
    assert caught.value.secret


async def read(folder: Path, turns: MemoryLog | None = None) -> tuple[list[Turn], Any, Telemetry, FailingLog]:
    spans, turns, telemetry = FailingLog(), turns or FailingLog(), Telemetry()
    count = await read_files([folder], spans, turns, telemetry, rules=redacting(REDACTOR))
    return [turn_from_json(record.value) for record in await stored(turns)], count, telemetry, spans


async def test_a_file_mixes_requests_and_turns(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    lines = [
        OTLP,
        TURN,
        chat(1),
        TURN | {"input": "resourceSpans"},
        {"resourceSpan": []},
        {"input": "Hi", "anwser": "x"},
        [TURN],
    ]
    texts = [each if isinstance(each, bytes) else json.dumps(each).encode() for each in lines]
    (tmp_path / "a.jsonl").write_bytes(b"\n".join([*texts, b"{", b""]))
    (tmp_path / "b.json").write_text(json.dumps(chat(2), indent=2))
    (tmp_path / "c.json").write_bytes(b"\n".join(texts[1:3]))
    turns, count, telemetry, spans = await read(tmp_path)
    assert [turn.input for turn in turns] == ["Hi", "q0", "resourceSpans", "Hi", "q1", "Hi"]
    assert len({turn.turn_id for turn in turns}) == 6
    assert (len(await stored(spans)), count.items, count.unreadable) == (1, 7, 3)
    assert f"{tmp_path}/a.jsonl:5 is skipped: no OTLP request (resourceSpans, resourceLogs), and neither" in caplog.text
    assert f"{tmp_path}/a.jsonl:6 is skipped: anwser: unknown key" in caplog.text
    assert telemetry.counter(RECEIVE_ITEMS, "files", "turns", "accepted")._value.get() == 6


async def test_files_that_are_read_again_give_the_same_turns(tmp_path: Path):
    (tmp_path / "a.jsonl").write_text(f"{json.dumps(TURN)}\n{json.dumps(TURN)}\n{json.dumps(chat(1))}\n")
    once, again = [(await read(tmp_path))[0] for _ in range(2)]
    assert [turn.turn_id for turn in once] == [turn.turn_id for turn in again]
    assert len({turn.turn_id for turn in once}) == 3


async def test_a_turn_of_a_file_too_large_for_the_log_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    (tmp_path / "a.jsonl").write_text(f"{json.dumps(TURN)}\n{json.dumps(TURN | {'input': 'x' * 2000})}\n")
    turns, count, _, _ = await read(tmp_path, PickyLog(limit=1000))
    assert (len(turns), count.unreadable) == (1, 1)
    assert "a.jsonl:2 is skipped: the turn is larger than the turns log accepts" in caplog.text


async def test_feedback_of_ready_made_turns_goes_into_the_labels_log_the_same_each_time() -> None:
    labels = MemoryLog("labels", partitions=1)
    source = Source(FailingLog(), labels=labels)
    said = [{"name": "thumbs", "value": True}, {"name": "stars", "value": 4, "comment": "Nice.", "source": "expert"}]
    asked = TURN | {"turn_id": "t1", "conversation_id": "c"}
    grown = {"conversation_id": "c", "turns": [asked | {"feedback": said}, TURN | {"turn_id": "t2"}]}
    await source.deliver(message(grown))
    await source.deliver(message(grown), message(asked, 1))
    entries = [parse_feedback_entry(each.value) for each in await stored(labels)]
    assert len(entries) == 4, "delivered again: the join knows it again"
    assert len({each.feedback_id for each in entries}) == 2
    thumbs, stars = entries[:2]
    assert (thumbs.name, thumbs.value, thumbs.turn_id, thumbs.source) == ("thumbs", True, "t1", "user")
    assert (stars.comment, stars.source) == ("Nice.", "code"), "a turn says of nobody that they are an expert"


async def test_a_chat_that_comes_again_may_bring_feedback_of_a_turn_that_is_known() -> None:
    labels = MemoryLog("labels", partitions=1)
    source = Source(FailingLog(), labels=labels, rules=IngestRules(feedback=FeedbackRules(comments=False)))
    turn = TURN | {"turn_id": "t1"}
    async with source.receiver.open_fold(0, None) as fold:
        await fold.deliver([message({"conversation_id": "c", "turns": [turn]}, 0)])
        later = turn | {"feedback": [{"name": "thumbs", "value": False, "comment": "No."}]}
        await fold.deliver([message({"conversation_id": "c", "turns": [later]}, 1)])
    assert len(await source.turns()) == len({each.turn_id for each in await source.turns()})
    (entry,) = [parse_feedback_entry(each.value) for each in await stored(labels)]
    assert (entry.turn_id, entry.value, entry.comment) == ("t1", False, None)
