"""The form of everything that is written down: records, notes, commits, tables, topics and groups, byte for byte.

Each form is held in both directions: the value becomes these bytes, and these bytes become the value, so that a
version reads what the version before it wrote, and the other way round while both run. See `persisted/README.md`
before changing an expected value.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from base64 import b64decode
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
import yaml
from evaluation_samples import failed, label, of_conversation, scored, skipped
from kafka.structs import OffsetAndMetadata, TopicPartition
from made_up import ASSEMBLER, Trace, chat

from collector.assemble.collect_trace import TracePiece
from collector.assemble.turn_notes import TurnNotes
from collector.config.loading import load
from collector.config.settings import LogSettings
from collector.dead_letters import DeadLetter, append_letters, letter_of, letter_to_json, letters_in, record_of
from collector.errors import BadInput
from collector.evaluate.budget.controller import BudgetController
from collector.evaluate.budget.rates import RateReduction, Rates
from collector.evaluate.budget.windows import Budget
from collector.evaluate.conversations.keyed_sessions import KeyedSessions
from collector.evaluate.conversations.packed_turn import IncomingTurn, pack, prior_user_hashes
from collector.evaluate.conversations.session_window import ConversationWindows, SessionWindowSettings
from collector.evaluate.conversations.snapshot import parse_snapshot, snapshot_record
from collector.evaluate.plan import Assignment, Job, Monitor, Plan
from collector.evaluate.recovery.control_records import ControlRecord, parse_control_record
from collector.evaluate.recovery.generated_steps import GeneratedStepsStore
from collector.evaluate.recovery.replay_point import CommitMetadata, ReplayPoint
from collector.evaluate.retry.request import RETRY_HEADERS, BackfillRequest, RetryRequest, parse_request
from collector.evaluate.sampling.strata import Boost, Strata, disliked
from collector.evaluate.transfer.transfer_records import (
    CONVERSATION_HEADERS,
    JOB_HEADERS,
    START_HEADERS,
    TransferredJob,
    TransferStart,
    conversation_record,
    parse_job,
    parse_start,
)
from collector.golden.runner import GoldenRules, GoldenRuns, GoldenTarget, ReportedJudges, read_cases
from collector.logs.kafka import KafkaLog, KafkaSource
from collector.logs.kafka.owned_partitions import from_kafka, to_kafka, topic_id_in
from collector.logs.log import TICK, Committed, Record, StoredRecord
from collector.logs.memory import MemoryLog
from collector.logs.sqlite import SqliteLog
from collector.page.requests import append_labels
from collector.receive.parsed_request import parse
from collector.records.epochs import claim_record, epoch_of, owner_of, stamped
from collector.records.feedback import (
    FeedbackSubject,
    JoinedFeedback,
    ended_feedback,
    feedback_of,
    feedback_record,
    joined_record,
    parse_feedback_entry,
    parse_joined_feedback,
    repeated_record,
)
from collector.records.json import (
    conversation_from_json,
    conversation_to_json,
    evaluation_from_json,
    evaluation_to_json,
    label_from_json,
    label_to_json,
    turn_from_json,
    turn_to_json,
)
from collector.records.recorded_turn import RecordedTurn
from collector.records.references import parse_reference, reference_of, reference_records
from collector.records.shared_records import divide_records, share_records
from collector.records.tenants import in_tenant
from collector.records.turns import bare_turn_record, turn_record, without_content
from collector.service.app import running
from collector.service.open_logs import open_logs
from collector.service.receive import TopicNotes
from collector.telemetry.registry import Telemetry
from evaluators.cases import Attachment, Conversation, Feedback, Message, TokenCount, ToolCall, ToolDefinition, Turn
from evaluators.catalogue import load_evaluators
from evaluators.identity import retry_id
from evaluators.results import Escalation, Evaluation, Retry, Sampling, Subject, Usage
from evaluators.testing import ScriptedJudge

HERE = Path(__file__).parent / "persisted"
RECORDS: Mapping[str, str] = json.loads((HERE / "records.json").read_text())
TABLES = (HERE / "tables.sql").read_text()

AT = datetime(2026, 5, 4, 12, 0, 0, 123456, tzinfo=UTC)
CALL = ToolCall(id="call_1", name="prices", arguments={"boat": "kayak", "days": 2}, result=[84, None])

WHOLE = Turn(
    turn_id="t1",
    conversation_id="visit-7",
    trace_id="0af7651916cd43dd8448eb211c80319c",
    span_id="b7ad6b7169203331",
    parent_span_id="00f067aa0ba902b7",
    response_id="chatcmpl-1",
    service="chat-api",
    dialect="otel_genai",
    model="gpt-4.1-mini",
    user_id="ann",
    started_at=AT,
    ended_at=AT + timedelta(seconds=1.5),
    system_prompt="You rent kayaks.",
    history=(
        Message(role="user", content="Hi"),
        Message(role="assistant", tool_calls=(CALL,)),
        Message(role="tool", content="84", tool_call_id="call_1"),
    ),
    input="How much is a kayak? Grüße 👋",
    actual_output="84 euros.",
    tools_called=(CALL, ToolCall(name="nothing")),
    retrieval_context=("A kayak is 84 euros.",),
    expected_output="84",
    context=("Prices are in euros.",),
    expected_tools=(ToolCall(name="prices"),),
    usage=TokenCount(input_tokens=41, output_tokens=17),
    error="timeout",
    incomplete="truncated",
    feedback=(Feedback(name="thumb", value=False, label="down", comment="too dear", source="user"),),
    trace_state="ot=th:8",
    events=("checkout", "goodbye"),
    attributes={"agent": "desk", "n": 3, "deep": {"a": [1.5, True, None]}},
)
AGENT = Turn(
    turn_id="t4",
    input="How much is a kayak?",
    actual_output="I cannot say.",
    tools_called=(ToolCall(id="call_1", name="prices", arguments={"boat": "kayak"}, error="timeout"),),
    tools_offered=(ToolDefinition(name="prices", description="Looks prices up."), ToolDefinition(name="book")),
    model_calls=2,
)
RUN = Turn(
    turn_id="t6",
    conversation_id="c1",
    input="Which train?",
    actual_output="The 9:10.",
    tools_offered=(ToolDefinition(name="timetable", parameters={"type": "object", "properties": {"to": {}}}),),
    agent_run_of="t4",
    attributes={"agent": "trains"},
)
PROGRAM = Turn(
    turn_id="t8",
    input="A long text.",
    actual_output='{"summary": "Short."}',
    program_fields={"inputs.text": "A long text.", "outputs.summary": "Short."},
)
SEEING = Turn(
    turn_id="t5",
    input="What is this?",
    actual_output="A kayak.",
    attachments=(
        Attachment(kind="image", media_type="image/png", size=5, sha256="ab" * 32, data="aGVsbG8="),
        Attachment(kind="audio", place="history", url="https://example.org/a.mp3", transcript="Hello."),
    ),
)
FEEDBACK = feedback_of(
    {
        "feedback_id": "7", "name": "stars", "value": 2, "label": "meh", "comment": "too dear", "source": "expert",
        "author": "ann", "at": "2026-05-04T12:00:00Z", "evaluation_id": "1" * 32, "turn_id": "t1",
        "span_id": "B7AD6B7169203331", "response_id": "chatcmpl-1", "trace_id": "5F" * 16, "conversation_id": "visit-7",
    },
    tenant="acme",
)  # fmt: skip
CASES: Mapping[str, Any] = {
    "turn: all there is": WHOLE,
    "turn: of an agent": AGENT,
    "turn: the run of an agent in one": RUN,
    "turn: with a picture": SEEING,
    "turn: of a program": PROGRAM,
    "turn: as little as there can be": Turn(turn_id="t2"),
    "turn: usual": Turn(
        turn_id="t3", conversation_id="c", trace_id="5f" * 16, started_at=AT, input="Hi", actual_output="Hello",
        tools_called=(ToolCall(name="none", arguments={}, result=""),),
    ),
    "conversation: all there is": Conversation(
        conversation_id="visit-7",
        turns=(Turn(turn_id="t2", input="Hi", actual_output=""), Turn(turn_id="t3", error="x")),
        chatbot_role="clerk",
        scenario="somebody asks",
        expected_outcome="they know",
        closed_by="idle",
        revision=3,
        attributes={"turns": 2},
    ),
    "conversation: as little as there can be": Conversation(conversation_id="c", turns=()),
    "evaluation: scored turn": scored(details={"steps": [1, None]}, attributes={"fallback_judge": "small"}),
    "evaluation: skipped turn": skipped(),
    "evaluation: failed turn": failed(),
    "evaluation: made again": scored(supersedes=("1" * 32,), retry=Retry(attempt=2, reason="judge_timeout")),
    "evaluation: made again in the place of a failure": scored(
        supersedes=("1" * 32,), retry=Retry(attempt=2, reason="judge_timeout", failed_at=AT)
    ),
    "evaluation: out of a prompt cache": scored(
        usage=Usage(input_tokens=400, output_tokens=60, calls=2, cached_input_tokens=300, cache_write_tokens=64)
    ),
    "evaluation: drawn by a cascade": scored(
        escalation=Escalation(reason="share", probability=0.05, first_score=1.0, doubt=0.25)
    ),
    "evaluation: scored conversation": of_conversation(supersedes=("1" * 32, "2" * 32), attributes={"closed_by": "idle"}),
    "evaluation: skipped conversation": of_conversation(
        **dict.fromkeys(("score", "label", "passed", "explanation", "method", "raw_score", "range", "kept_mass", "judge")),
        outcome="skipped", reason="over_budget", usage=None, cost_usd=None,
    ),
    "retry request: turn": RetryRequest(failed(), Turn(turn_id="t2", input="Hi", actual_output="")),
    "retry request: conversation": RetryRequest(failed(), Conversation(conversation_id="c", turns=(Turn(turn_id="t2"),))),
    "evaluation: of the past": scored(happened_at=AT),
    "retry request: of the past": RetryRequest(failed(), Turn(turn_id="t2"), AT),
    "retry request: backfill of a turn": BackfillRequest(
        evaluation_id="3" * 32, monitor="all", evaluator="helpful", case=Turn(turn_id="t2", input="Hi", actual_output=""),
        sampling=Sampling(probability=0.5), happened_at=AT,
    ),
    "retry request: backfill of a conversation": BackfillRequest(
        evaluation_id="3" * 32, monitor="all", evaluator="helpful",
        case=Conversation(conversation_id="c", turns=(Turn(turn_id="t2"),)),
        sampling=Sampling(probability=0.5), happened_at=AT, supersedes=("1" * 32,), attributes={"replay_of": "2" * 32},
    ),
    "transferred job: turn": TransferredJob(
        evaluation_id="3" * 32, monitor="all", evaluator="helpful", case=Turn(turn_id="t2", conversation_id="c", input="Hi"),
        triggered_at=1777896000.25, size=120, sampling=Sampling(probability=0.5, stratum="errors"), fallback=True,
        supersedes=(), retry=None, attributes={},
    ),
    "transferred job: conversation": TransferredJob(
        evaluation_id="4" * 32, monitor="all", evaluator="complete",
        case=Conversation(conversation_id="c", turns=(Turn(turn_id="t2"),)),
        triggered_at=1777896000.25, size=120, sampling=Sampling(), fallback=False, supersedes=("1" * 32,),
        retry=Retry(attempt=2, reason="judge_timeout"), attributes={"closed_by": "idle", "turns": 1},
    ),
    "transferred job: in the place of a failure": TransferredJob(
        evaluation_id="6" * 32, monitor="all", evaluator="helpful", case=Turn(turn_id="t2"), triggered_at=1777896000.25,
        size=9, sampling=Sampling(), fallback=False, supersedes=("1" * 32,), attributes={},
        retry=Retry(attempt=2, reason="judge_timeout", failed_at=AT),
    ),
    "transferred job: backfill": TransferredJob(
        evaluation_id="5" * 32, monitor="all", evaluator="helpful", case=Turn(turn_id="t2"), triggered_at=1777896000.25,
        size=9, sampling=Sampling(), fallback=False, supersedes=(), retry=None, attributes={}, happened_at=AT,
    ),
    "transfer start": TransferStart(1777896000.25, {"1" * 32: "2" * 32}),
    "reference: all there is": reference_of(
        {
            "turn_id": "t1", "span_id": "B7AD6B7169203331", "response_id": "chatcmpl-1", "trace_id": "5F" * 16,
            "conversation_id": "visit-7", "expected_output": "84", "expected_outcome": "they know", "scenario": "s",
            "chatbot_role": "clerk", "context": ["Prices are in euros."], "expected_tools": [{"name": "prices"}],
            "outcomes": {"ticket_reopened": False, "refund_usd": 0},
        },
        tenant="acme",
    ),
    "reference: no tool is expected": reference_of({"trace_id": "5f" * 16, "expected_tools": []}, tenant=None),
    "label": label(),
    "feedback": FEEDBACK,
    "joined feedback": JoinedFeedback(
        entry=FEEDBACK, outcome="joined", received_at=AT, score=0.25, series="stars",
        subjects=(
            FeedbackSubject(
                monitor="all", conversation_id="evalstream.tenant/acme/visit-7", turn_id="evalstream.tenant/acme/t1",
                trace_id="5f" * 16, span_id="b7ad6b7169203331", response_id="chatcmpl-1", sampling=Sampling(probability=0.25),
            ),
        ),
    ),
    "dead letter: all there is": DeadLetter(
        letter_id="282cf92cf8614be0", stage="receive", source="chats", partition=3, position=41, at=1777896000.25,
        reason="not JSON", kind="BadInput", attempts=2, size=3, key="aw==", value="eHl6", headers=(("h", "dg=="),),
        signal="turns", state="dead",
    ),
    "dead letter: redriven, nothing kept": DeadLetter(
        letter_id="853680449ddd4ce5", stage="evaluate", source="turns", partition=0, position=7, at=1777896000.0,
        reason="not a turn", kind="BadInput", size=9, state="redriven",
    ),
}  # fmt: skip
WRITE: Mapping[str, Any] = {
    "turn": turn_to_json,
    "conversation": conversation_to_json,
    "evaluation": evaluation_to_json,
    "label": label_to_json,
    "feedback": lambda entry: feedback_record(entry).value,
    "joined feedback": lambda joined: joined_record(joined, 0).value,
    "retry request": lambda request: request.to_record(0).value,
    "transferred job": lambda job: job.to_record().value,
    "transfer start": lambda start: start.to_record(0).value,
    "reference": lambda reference: next(reference_records(reference, MemoryLog("turns", 1))).value,
    "dead letter": letter_to_json,
}
READ: Mapping[str, Any] = {
    "turn": turn_from_json,
    "conversation": conversation_from_json,
    "evaluation": evaluation_from_json,
    "label": label_from_json,
    "feedback": lambda text: parse_feedback_entry(text.encode()),
    "joined feedback": lambda text: parse_joined_feedback(text.encode()),
    "retry request": parse_request,
    "transferred job": parse_job,
    "transfer start": parse_start,
    "reference": parse_reference,
}


async def records_of(log: Any) -> list[StoredRecord]:
    return [
        record
        for partition in range(log.partitions)
        async for batch in log.read(partition, 0)
        for record in batch
    ]  # fmt: skip


# Records


def test_what_a_failure_is_made_again_as() -> None:
    assert retry_id("0" * 31 + "1") == "4c50a7e5757cf536dc89b9e3a4abf33f"
    record = RetryRequest(failed(), Turn(turn_id="t2")).to_record(3)
    assert (record.headers, record.partition) == ((("retry", b"1"),), 3)
    assert record.headers == RETRY_HEADERS


@pytest.mark.parametrize(
    ("before", "failed_at"),
    [
        (failed(), failed().ended_at),
        (skipped(reason="over_budget"), skipped().ended_at),
        (skipped(reason="reference_missing: expected_output"), None),
        (failed(retry=Retry(attempt=2, reason="e", failed_at=AT)), failed().ended_at),
        (failed(retry=Retry(attempt=2, reason="e", failed_at=AT), happened_at=AT), AT),
        (failed(retry=Retry(attempt=2, reason="e"), happened_at=AT), None),
        (failed(happened_at=AT), None),
    ],
)
def test_a_retry_has_the_time_of_the_failure_that_alerts_count(before: Evaluation, failed_at: datetime | None) -> None:
    """They count losses, and no backfill."""
    retry = RetryRequest(before, Turn(turn_id="t2")).retry
    assert (retry.failed_at, retry.attempt) == (failed_at, 3 if before.retry else 2)


def test_what_feedback_is_in_the_labels_log() -> None:
    record = repeated_record("95e842e6844e25a9fd5951b1981bb97e", 3)
    assert (record.key, record.value, record.headers, record.partition) == (
        b"95e842e6844e25a9fd5951b1981bb97e", b"", (("feedback", b"repeated"),), 3,
    )  # fmt: skip
    joined = joined_record(CASES["joined feedback"], 3)
    assert (joined.key, joined.headers) == (record.key, (("feedback", b"joined"),))
    assert feedback_record(FEEDBACK).headers == (("feedback", b"1"),)
    assert ended_feedback(StoredRecord(3, 0, 0.0, record.key, record.value, record.headers)) == record.key.decode()


@pytest.mark.parametrize("what", CASES)
def test_a_value_is_written_as_these_bytes(what: str) -> None:
    assert WRITE[what.partition(":")[0]](CASES[what]).decode() == RECORDS[what]


@pytest.mark.parametrize("what", [each for each in CASES if not each.startswith("dead letter")])
def test_these_bytes_are_read_as_the_value(what: str) -> None:
    assert READ[what.partition(":")[0]](RECORDS[what]) == CASES[what]


@pytest.mark.parametrize("what", [each for each in CASES if not each.startswith("dead letter")])
def test_what_a_later_version_adds_is_no_hindrance(what: str) -> None:
    later = RECORDS[what][:-1] + ',"a_field_to_come":{"x":1}}'
    assert READ[what.partition(":")[0]](later) == CASES[what]


def test_nothing_of_a_turn_is_left_unpinned() -> None:
    bare = Turn(turn_id="t")
    pinned = (WHOLE, AGENT, RUN, SEEING, PROGRAM)
    assert [
        each.name
        for each in fields(Turn)
        if all(getattr(turn, each.name) == getattr(bare, each.name) for turn in pinned)
    ] == []


def test_a_turn_that_nobody_can_want() -> None:
    """As `keep: wanted` stores it: read whole, and at a glance, where its id is not made of its content."""
    turn = turn_from_json(RECORDS["turn: all there is"])
    assert turn_to_json(without_content(turn)) == UNWANTED.encode()
    for each in (turn, replace(turn, agent_run_of="t0"), Turn(turn_id="t2"), in_tenant(turn, "shop")):
        assert bare_turn_record(without_content(each)) == turn_record(without_content(each))
    assert turn_from_json(UNWANTED) == without_content(turn)
    trace = Trace("5f" * 16, start=0).span(7, "chat", chat("Hi", "Yes.", **{"gen_ai.conversation.id": "visit-7"}))
    [glanced] = ASSEMBLER.assemble(trace.pieces(), is_wanted=lambda _turn: False).turns
    assert turn_record(glanced.turn) == Record(b"visit-7", GLANCED.encode())


UNWANTED = (
    '{"turn_id":"t1","conversation_id":"visit-7","trace_id":"0af7651916cd43dd8448eb211c80319c","span_id":'
    '"b7ad6b7169203331","service":"chat-api","dialect":"otel_genai","started_at":"2026-05-04T12:00:00.123'
    '456Z","ended_at":"2026-05-04T12:00:01.623456Z","input":null,"actual_output":null,"incomplete":"unwan'
    'ted","trace_state":"ot=th:8"}'
)
GLANCED = (
    '{"turn_id":"d0d0e6aebf3b0b419fc6134f296c395b","conversation_id":"visit-7","trace_id":"5f5f5f5f5f5f5f'
    '5f5f5f5f5f5f5f5f5f","span_id":"0000000000000007","service":"shop","dialect":"otel_genai","started_at'
    '":"1970-01-01T00:00:07Z","ended_at":"1970-01-01T00:00:07.500000Z","input":null,"actual_output":null,'
    '"incomplete":"unwanted"}'
)


async def test_dead_letters_in_their_log() -> None:
    log = MemoryLog("dead_letters", 1)
    letters = [CASES[each] for each in CASES if each.startswith("dead letter")]
    await append_letters(log, letters)
    assert [(each.key, each.value.decode(), each.headers) for each in await records_of(log)] == [
        (b"282cf92cf8614be0", RECORDS["dead letter: all there is"], ()),
        (b"853680449ddd4ce5", RECORDS["dead letter: redriven, nothing kept"], ()),
    ]
    assert [each async for each in letters_in(log)] == letters
    assert record_of(letters[0]) == Record(b"k", b"xyz", (("h", b"v"), ("attempts", b"2")))


async def test_a_dead_letter_of_a_piece_names_it() -> None:
    log = MemoryLog("dead_letters", 1)
    letter = replace(CASES["dead letter: all there is"], piece=3)
    await append_letters(log, [letter])
    [record] = await records_of(log)
    assert record.value.decode() == RECORDS["dead letter: all there is"][:-1] + ',"piece":3}'
    assert [each async for each in letters_in(log)] == [letter]
    error = BadInput("not JSON")
    stored = StoredRecord(2, 41, 0.0, b"k", b"v", (), 3)
    each_of_them = (replace(stored, piece=0), stored)
    assert [letter_of("assemble", "spans", each, error, keep=False).letter_id for each in each_of_them] == [
        "9932fee57dc630df", "bf9cf2c5db76c1b6",
    ]  # fmt: skip


def test_traces_that_share_a_record_of_the_spans_log() -> None:
    pieces = [
        Record(b"0" * 31 + b"1", b"first", (("signal", b"traces"),)),
        Record(b"0" * 31 + b"2@acme", b"", (("signal", b"logs"),)),
    ]
    bytes_of_it = (
        b"\0\0\0\2"
        b"\0\x20\6\0\0\0\5\0\x25\4\0\0\0\0"
        b"00000000000000000000000000000001tracesfirst"
        b"00000000000000000000000000000002@acmelogs"
    )  # fmt: skip
    assert share_records(pieces, 1) == [Record(b"0" * 31 + b"1", bytes_of_it, (("pieces", b"1"),))]
    there = StoredRecord(2, 7, 5.0, b"0" * 31 + b"1", bytes_of_it, (("pieces", b"1"),))
    assert divide_records([there]) == [
        StoredRecord(2, 7, 5.0, each.key, each.value, each.headers, number) for number, each in enumerate(pieces)
    ]
    assert [each.number for each in divide_records([there])] == [7, 281474976710663]


def test_a_noted_piece() -> None:
    """What a receiver stores of a plain call that nobody can want: its turn, before the piece. Earlier versions skip it."""
    ids = {"gen_ai.conversation.id": "visit-7"}
    trace = (
        Trace("5f" * 16, start=0)
        .span(3, "POST", {"http.route": "/"})
        .span(7, "chat", chat("Hi", "Yes.", **ids), parent=3)
    )
    body = trace.pieces()[0].value
    parsed = parse(body, "traces", "protobuf", tenant="acme", notes=TurnNotes(ASSEMBLER, lambda _: False))
    assert parsed.records == [Record(b"5f" * 16 + b"@acme", NOTE + body, (("signal", b"traces"),))]
    assert ASSEMBLER.assemble([TracePiece("traces", NOTE + body)]) == ASSEMBLER.assemble(trace.pieces())


NOTE = (
    b"\xc2>\xaa\x01"
    b'["5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f","0000000000000007","otel_genai",{"0000000000'
    b'000003":"none","0000000000000007":"otel_genai"},"visit-7","shop",7000000000,7500'
    b'000000,""]'
)


def test_unwanted_turns_that_share_a_record_of_the_turns_log() -> None:
    turns = [Record(b"visit-7", UNWANTED.encode()), Record(b"visit-8", GLANCED.encode())]
    bytes_of_it = (
        b"\0\0\0\2"
        b"\0\7\0\0\0\1\x49"
        b"\0\7\0\0\0\1\x44"
        b"visit-7" + UNWANTED.encode() + b"visit-8" + GLANCED.encode()
    )  # fmt: skip
    assert share_records(turns, 1, may_share=turns.__contains__) == [
        Record(b"visit-7", bytes_of_it, (("pieces", b"1"),))
    ]
    there = StoredRecord(2, 7, 5.0, b"visit-7", bytes_of_it, (("pieces", b"1"),))
    assert divide_records([there]) == [
        StoredRecord(2, 7, 5.0, each.key, each.value, (), number) for number, each in enumerate(turns)
    ]


def test_references_in_the_turns_log() -> None:
    log = MemoryLog("turns", 3)
    of_a_trace = list(reference_records(CASES["reference: no tool is expected"], log))
    assert [each.partition for each in of_a_trace] == [0, 1, 2]
    assert Counter(each.headers for each in of_a_trace) == {
        (("reference", b"1"),): 1, (("reference", b"copy"),): 2,
    }  # fmt: skip
    [of_a_conversation] = reference_records(CASES["reference: all there is"], log)
    assert (of_a_conversation.key, of_a_conversation.headers) == (
        b"evalstream.tenant/acme/visit-7", (("reference", b"1"),),
    )  # fmt: skip


async def test_labels_in_their_log() -> None:
    log = MemoryLog("labels", 1)
    await append_labels(log, [label()])
    [record] = await records_of(log)
    assert (record.key, record.value.decode(), record.headers) == (b"0" * 31 + b"1", RECORDS["label"], ())


async def test_definitions_in_their_log() -> None:
    log = MemoryLog("definitions", 3)
    definitions = await GeneratedStepsStore.open(log)
    assert await definitions.save("f77cb248", '{"steps": ["Look."]}') == '{"steps": ["Look."]}'
    [record] = await records_of(log)
    assert (record.partition, record.key, record.value, record.headers) == (
        0, b"f77cb248", b'{"steps": ["Look."]}', (),
    )  # fmt: skip

    written = MemoryLog("definitions", 3)
    await written.append([Record(b"f77cb248", b"first", partition=0), Record(b"f77cb248", b"second", partition=0)])
    assert await (await GeneratedStepsStore.open(written)).load("f77cb248") == "first"


async def test_runs_of_the_golden_set_among_the_definitions(tmp_path: Path) -> None:
    path = tmp_path / "golden.jsonl"
    path.write_text('{"turn_id": "t1", "input": "Hi", "actual_output": "Hello"}\n')
    steps = {"evaluation_steps": ["Does it help?"], "evaluation_params": ["input"], "mode": "single"}
    evaluator = load_evaluators()["g_eval"](name="helpful", **steps)

    async def look(log: MemoryLog, score: int) -> int:
        judge = ScriptedJudge({"reason": "so", "score": score}, model="judge-1")
        each = GoldenTarget(Assignment(evaluator, judge, "0123456789ab"), "main")
        kept = await GeneratedStepsStore.open(log)
        runs = GoldenRuns(
            read_cases(path),
            [each],
            kept,
            Telemetry(),
            ReportedJudges(MemoryLog("evaluations", 1)),
            GoldenRules(86400.0, tolerance=0.02),
            lambda _target, _made: None,
            clock=lambda: 1777896000.5,
        )
        await runs.run_due()
        return len(judge.questions)

    run = b"golden.run/helpful/0123456789ab/judge-1/20577"
    earlier = b'{"at":1777896000.5,"scores":{"927b7514fd26d330":0.7}}'  # without what the judge calls itself
    reference: tuple[bytes | None, bytes] = (b"golden.reference/helpful/927b7514fd26d330", b"0.7")
    golden = [(run, earlier[:-1] + b',"judges":[["judge-1",null]]}'), reference]
    log = MemoryLog("definitions", 1)
    assert await look(log, 7) == 1
    assert [(each.key, each.value) for each in await records_of(log)] == golden

    for kept in (golden, [(run, earlier), reference]):
        written = MemoryLog("definitions", 1)
        await written.append([Record(key, value, partition=0) for key, value in kept])
        assert await look(written, 3) == 0, "what was judged in this period is not judged again"
        assert [(each.key, each.value) for each in await records_of(written)] == kept


async def test_topics_that_were_begun_among_the_definitions() -> None:
    golden = b'{"group":"evalstream.traces","topic":"otlp_spans","partition":2,"id":"%s"}' % (b"0a" * 16)
    where, log = TopicPartition("otlp_spans", 2), MemoryLog("definitions", 1)
    notes = await TopicNotes.open(log, "evalstream.traces")
    notes.begun(where, "0a" * 16)
    writing = asyncio.create_task(notes.write_forever())
    while not (written := await records_of(log)):
        await asyncio.sleep(0)
    writing.cancel()
    assert [(each.key, each.value, each.partition) for each in written] == [(b"source topics", golden, 0)]
    assert (await TopicNotes.open(log, "evalstream.traces")).noted_id(where) == "0a" * 16


# Decisions of the evaluate stage


ACCOUNT: Mapping[str, Any] = {
    "windows": {"all": [{"period": 3600.0, "credit": -0.25, "time": 1777896060.0, "parts": [[29631600, 0.5]]}]},
    "demands": [["all", "helpful", 2.5]],
}
DECISIONS: Mapping[bytes, ControlRecord] = {
    b'{"at":7,"rates":{"all":0.125,"cheap":-0.5},"account":null}': ControlRecord(
        offset=7, rates=Rates({"all": RateReduction(0.125), "cheap": RateReduction(0.5, fallback=True)})
    ),
    b'{"at":8,"evicted":{"all":["c1","c2"]}}': ControlRecord(offset=8, evictions={"all": ["c1", "c2"]}),
    b'{"at":3,"configuration":2}': ControlRecord(offset=3, configuration=2),
    b'{"at":4,"stopped":true}': ControlRecord(offset=4, stopped=True),
    b'{"at":9,"stopped":true,"new_from":4}': ControlRecord(offset=9, stopped=True, new_from=4),
    b'{"at":0,"batches":{"event":"submitted","key":"k","id":"b"}}': ControlRecord(
        offset=0, batches={"event": "submitted", "key": "k", "id": "b"}
    ),
    b'{"at":9,"carried":[[9,true],[11,false]]}': ControlRecord(offset=9, snapshot_validity={9: True, 11: False}),
    b'{"at":10,"rates":{},"account":' + orjson.dumps(ACCOUNT) + b"}": ControlRecord(
        offset=10, rates=Rates({}), budget=ACCOUNT
    ),
}


@pytest.mark.parametrize("written", DECISIONS, ids=lambda each: each[:8].decode())
def test_a_decision(written: bytes) -> None:
    decision = DECISIONS[written]
    assert decision.to_record(5) == Record(None, written, (("decision", b"1"),), 5)
    assert parse_control_record(written) == decision


def test_a_claim_and_what_its_owner_writes() -> None:
    claim = b'{"epoch":3,"at":17,"owner":"one"}'
    assert claim_record("one", 3, 5, turns=17) == Record(None, claim, (("decision", b"1"),), 5)
    assert owner_of(StoredRecord(5, 0, 0.0, None, claim, (("decision", b"1"),))) == "one"
    assert stamped(b'{"evaluation_id":"a"}', 3) == b'{"epoch":3,"evaluation_id":"a"}'
    assert epoch_of(b'{"epoch":3,"evaluation_id":"a"}') == 3


def test_the_account_of_a_budget() -> None:
    evaluator = load_evaluators()["toxicity"](name="helpful")
    judged = Assignment(evaluator, ScriptedJudge({}), "v")
    plan = Plan((Monitor("all", (judged,), {}, budget=Budget(usd_per_hour=1.0)),))
    purse = BudgetController(plan, 1)
    purse.add_partition(0, 1777896000.0, None, [])
    purse.spend_beside("all", 0.25, 1777896001.0)
    purse.add_demand(0, plan.monitors[0], judged, 3.0)
    rates, account = purse.decide_rates(0, 1777896060.0)
    assert orjson.dumps(account).decode() == RECORDS["account of a budget"]
    assert orjson.dumps(rates.to_json()).decode() == '{"all":1.0}'

    again = BudgetController(plan, 1)
    again.add_partition(0, 1777896060.0, orjson.loads(RECORDS["account of a budget"]), [])
    assert orjson.dumps(again.decide_rates(0, 1777896060.0)[1]).decode() == RECORDS["account of a budget"]


def test_the_account_of_a_planned_rate() -> None:
    judged = Assignment(load_evaluators()["toxicity"](name="helpful"), ScriptedJudge({}), "v")
    watched = Monitor(
        "all", (judged,), {}, standard_error=0.02, strata=Strata((Boost("error", 2.0, partial(disliked, {})),))
    )
    controller = BudgetController(Plan((watched,)), 1)
    controller.add_partition(0, 1777896000.0, None, [])
    controller.add_demand(0, watched, judged, 40.0)
    turn = Turn(turn_id="t")
    job = Job(
        evaluation_id="e", monitor=watched, assignment=judged, case=lambda: turn, replay_point=ReplayPoint(0),
        trigger_offset=0,
    )  # fmt: skip
    for number, stratum in enumerate(("all", "error", "all")):
        made = Evaluation(
            evaluation_id=f"e{number}", evaluator="helpful", evaluator_version="v", scope="turn", monitor="all",
            subject=Subject(conversation_id="c"), outcome="scored", score=0.25 * number,
            sampling=Sampling(probability=0.5 if stratum == "error" else 0.25, stratum=stratum),
            details={"audit": {"score": 0.5, "probability": 0.5}} if number else {},
            started_at=datetime.fromtimestamp(1777896000.0, UTC), ended_at=datetime.fromtimestamp(1777896001.0, UTC),
        )  # fmt: skip
        controller.learn(0, job, made)
    rates, account = controller.decide_rates(0, 1777896060.0)
    assert orjson.dumps(account).decode() == RECORDS["account of a planned rate"]
    assert orjson.dumps(rates.to_json()).decode() == '{"all":0.109}'

    again = BudgetController(Plan((watched,)), 1)
    again.add_partition(0, 1777896060.0, orjson.loads(RECORDS["account of a planned rate"]), [])
    rates, account = again.decide_rates(0, 1777896060.0)
    assert orjson.dumps(account).decode() == RECORDS["account of a planned rate"]
    assert orjson.dumps(rates.to_json()).decode() == '{"all":0.109}'


# Notes and commits


NOTES: Mapping[str, CommitMetadata] = {
    '{"l":0,"e":0,"t":0.0}': CommitMetadata(),
    '{"l":12,"e":34,"t":1.5,"c":3}': CommitMetadata(12, 34, ReplayPoint(0, 1.5), configuration=3),
    '{"l":12,"e":34,"t":1.5,"c":3,"o":[1,2]}': CommitMetadata(
        12, 34, ReplayPoint(0, 1.5), configuration=3, past=(1, 2)
    ),
    '{"l":12,"e":34,"t":1777896000.123457}': CommitMetadata(12, 34, ReplayPoint(0, 1777896000.123457)),
    '{"l":1,"e":2,"t":3.5,"r":{"all":0.125,"cheap":-0.5}}': CommitMetadata(
        1, 2, ReplayPoint(0, 3.5, Rates({"all": RateReduction(0.125), "cheap": RateReduction(0.5, fallback=True)}))
    ),
    '{"l":1,"e":2,"t":3.5,"p":{"helpful":2},"o":[7]}': CommitMetadata(
        1, 2, ReplayPoint(0, 3.5), pending={"helpful": 2}, past=(7,)
    ),
}


@pytest.mark.parametrize("text", NOTES)
def test_the_note_of_the_evaluate_stage(text: str) -> None:
    note = NOTES[text]
    assert note.to_json() == text
    assert CommitMetadata.from_json(text, 9) == replace(note, replay_point=note.replay_point._replace(offset=9))


def test_a_commit_in_kafka() -> None:
    committed = Committed(5, 9, '{"l":12,"e":34,"t":1.5}')
    kept = OffsetAndMetadata(5, '{"p":9,"n":"{\\"l\\":12,\\"e\\":34,\\"t\\":1.5}"}', -1)
    assert to_kafka(committed) == kept
    assert from_kafka(kept) == committed
    of_a_source = to_kafka(committed, "5f" * 16)
    assert of_a_source.metadata == kept.metadata[:-1] + ',"t":"%s"}' % ("5f" * 16)
    assert from_kafka(of_a_source) == committed
    assert (topic_id_in(of_a_source), topic_id_in(kept)) == ("5f" * 16, None)


# Conversations that are carried forward


def an_arrival(number: int, *said_before: str, **more: Any) -> IncomingTurn:
    history = tuple(Message(role="user", content=each) for each in said_before)
    turn = Turn(
        turn_id=f"t{number}", conversation_id="visit-7", trace_id=f"{number:032x}", history=history,
        input=f"Question {number}", actual_output=f"Answer {number}", started_at=AT + timedelta(minutes=number),
    )  # fmt: skip
    recorded = RecordedTurn(turn_to_json(turn))
    return IncomingTurn(turn.turn_id, pack(recorded, recorded.started or 0.0), prior_user_hashes(recorded), **more)


def carried() -> tuple[str, ConversationWindows]:
    """A conversation that closed once, had a late turn, told of a turn that never came, and a sealed one before it."""
    conversations = KeyedSessions(SessionWindowSettings(idle_gap=100.0, allowed_lateness=50.0, max_turns=3))
    more = {"rate": 0.5, "boost": 2.0, "stratum": "error", "upstream": 0.25}
    for number in (1, 2, 3):
        arrival = an_arrival(number)
        conversations.add("visit-7", arrival, ReplayPoint(number, 10.0, Rates()), arrival.packed.happened_at)
    for number, said in ((4, ("Question 3", "never came")), (5, ())):
        arrival = an_arrival(number, *said, ends_conversation=number == 4, **more)
        conversations.add("visit-7", arrival, ReplayPoint(number, 10.0, Rates()), arrival.packed.happened_at)
    [found] = conversations.needing_snapshot(100, 0.0, 10)
    return found


def without_packing(value: bytes) -> Any:
    """What is carried, with its turns unpacked: how well the packer packs may change with its version."""
    plain = orjson.loads(value)
    found = parse_snapshot(value)
    for session, each in zip(found.windows, plain["sessions"], strict=True):
        for turn_id, kept in session.turns.items():
            if kept is not None:
                turn = turn_to_json(kept.unpack("", "")).decode()
                each["turns"][turn_id] = [*each["turns"][turn_id][:3], turn]
        each["size"] = each["size"] > 0
    return plain


def test_a_carried_conversation_is_written_in_this_form() -> None:
    record = snapshot_record("all", *carried(), next_offset=77, partition=5)
    assert (record.key, record.headers, record.partition) == (b"visit-7", (("carry", b"1"),), 5)
    pinned = RECORDS["carried conversation"].encode()
    assert list(orjson.loads(record.value)) == list(orjson.loads(pinned))
    assert without_packing(record.value) == without_packing(pinned)


def test_what_was_made_again_of_a_carried_conversation_is_carried_too() -> None:
    name, conversation = carried()
    conversation.retries = {"0" * 32: "1" * 32}
    value = snapshot_record("all", name, conversation, next_offset=77, partition=5).value
    assert orjson.loads(value)["retries"] == {"0" * 32: "1" * 32}
    assert parse_snapshot(value).retries == conversation.retries


def test_a_carried_conversation_is_read_from_these_bytes() -> None:
    pinned = RECORDS["carried conversation"].encode()
    found = parse_snapshot(pinned)
    assert (found.monitor, found.conversation_id, found.first_offset, found.next_offset) == ("all", "visit-7", 1, 77)
    sealed, session = found.windows
    assert (sealed.purged, list(sealed.turns.items())) == (True, [("t1", None), ("t2", None), ("t3", None)])
    assert [kept and kept.unpack(name, "c").input for name, kept in session.turns.items()] == [
        "Question 4",
        "Question 5",
    ]
    [closing] = session.closed_revisions
    assert (closing.rate, closing.boost, closing.fallback) == (0.5, 2.0, False)
    episode = ConversationWindows(ReplayPoint(found.first_offset), list(found.windows), 0)
    assert snapshot_record("all", "visit-7", episode, found.next_offset, 5).value == pinned


PACKED: Mapping[str, Turn] = {
    "by zstd": replace(WHOLE, history=()),
    "by zstd, usual": Turn(
        turn_id="", trace_id="0af7651916cd43dd8448eb211c80319c", span_id="b7ad6b7169203331",
        service="chat-api", model="gpt-4.1-mini", started_at=datetime(2026, 1, 2, tzinfo=UTC),
        input="How much is a kayak?", actual_output="84 euros.", usage=TokenCount(input_tokens=41, output_tokens=17),
    ),
}  # fmt: skip
PACKED = {**PACKED, "by zlib, usual": PACKED["by zstd, usual"]}


@pytest.mark.parametrize("packing", PACKED)
def test_a_packed_turn_is_unpacked_from_these_bytes(packing: str) -> None:
    """It stands in carried conversations, and in memory. An earlier version packed with zlib."""
    packed = RECORDS[f"packed turn: {packing}"]
    value = orjson.loads(RECORDS["carried conversation"])
    [session] = [each for each in value["sessions"] if not each["sealed"]]
    session["turns"] = {"t4": [1.0, 1.0, None, packed]}
    value["sessions"] = [session]
    [kept] = parse_snapshot(orjson.dumps(value)).windows[0].turns.values()
    assert kept is not None
    assert b64decode(packed) == kept.data
    assert kept.unpack("t4", "visit-7") == replace(PACKED[packing], turn_id="t4", conversation_id="visit-7")


def test_what_is_not_carried_in_this_form_is_refused() -> None:
    with pytest.raises(BadInput):
        parse_snapshot(RECORDS["carried conversation"].replace('"monitor"', '"watch"').encode())


# SQLite


HEADERS = (("signal", b"traces"), ("h", b""))
ROWS: Sequence[tuple[Any, ...]] = [
    (1 << 57, b"key", b"\0\6\0\0\0\6signaltraces\0\1\0\0\0\0h", b"value"),
    ((1 << 57) + 1, b"key", None, b"second"),
    ((1 << 57) + (1 << 45), None, b"t", b""),
    ((1 << 57) + (2 << 45), None, b"\0\5\0\0\0\1carry1", b"{}"),
    (2 << 57, b"turn", None, b"{}"),
]
"""Id, key, headers and value of rows: 6 bits of log, 12 of partition and 45 of position; a tick's headers are `t`."""


def written_rows(path: Path) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute("SELECT id, key, headers, value FROM records ORDER BY id").fetchall()
    finally:
        connection.close()


class Follower:
    """A fold that notes what it is given, and commits a state of its own."""

    due_at = None
    low_watermark: int | None = 0
    metadata = "a note"

    def __init__(self) -> None:
        self.opened: dict[int, Committed | None] = {}
        self.delivered: list[tuple[int, int]] = []
        self.came = asyncio.Event()

    @asynccontextmanager
    async def open_fold(self, partition: int, committed: Committed | None) -> AsyncGenerator[Follower]:
        self.opened[partition] = committed
        yield self

    async def replay(self, records: Sequence[StoredRecord]) -> None:
        pass

    async def deliver(self, records: Sequence[StoredRecord]) -> None:
        self.delivered += [(each.partition, each.offset) for each in records]
        self.came.set()


async def test_a_file_of_logs_has_these_tables_and_rows(tmp_path: Path) -> None:
    path = tmp_path / "logs.db"
    logs = await SqliteLog.open(path, ["spans", "turns"], 3)
    await logs["spans"].append([Record(b"key", b"value", HEADERS, 0), Record(b"key", b"second", (), 0)])
    await logs["spans"].append([Record(None, b"", TICK, 1), Record(None, b"{}", (("carry", b"1"),), 2)])
    await logs["turns"].append([Record(b"turn", b"{}", partition=0)])
    follower = Follower()
    following = asyncio.create_task(logs["turns"].follow("evaluate", follower.open_fold))
    async with asyncio.timeout(20):
        await follower.came.wait()
    following.cancel()
    await asyncio.wait([following])
    for log in logs.values():
        await log.close()

    connection = sqlite3.connect(path)
    tables = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid").fetchall()
    assert [even(sql) for (sql,) in tables] == [even(sql) for sql in TABLES.split(";") if sql.strip()]
    assert connection.execute("PRAGMA user_version").fetchone() == (1,)
    assert connection.execute("SELECT * FROM logs").fetchall() == [(1, "spans"), (2, "turns")]
    assert connection.execute("SELECT log, partition, next FROM ends").fetchall() == [
        (1, 0, 2), (1, 1, 1), (1, 2, 1), (2, 0, 1), (2, 1, 0), (2, 2, 0),
    ]  # fmt: skip
    commits = connection.execute("SELECT * FROM commits WHERE partition = 0").fetchall()
    assert commits == [(2, "evaluate", 0, 0, 1, "a note")]
    connection.close()
    assert written_rows(path) == ROWS


async def test_a_file_with_these_tables_and_rows_is_read(tmp_path: Path) -> None:
    path = tmp_path / "logs.db"
    connection = sqlite3.connect(path, isolation_level=None)
    connection.executescript(TABLES)
    connection.execute("PRAGMA user_version = 1")
    connection.executemany("INSERT INTO logs VALUES (?, ?)", [(1, "spans"), (2, "turns")])
    connection.executemany(
        "INSERT INTO ends VALUES (?, ?, ?, ?)",
        [(1, 0, 2, 5.5), (1, 1, 1, 5.5), (1, 2, 1, 5.5), (2, 0, 1, 5.5), (2, 1, 0, 0.0), (2, 2, 0, 0.0)],
    )
    connection.executemany("INSERT INTO records (id, timestamp, key, headers, value) VALUES (?, 5.5, ?, ?, ?)", ROWS)
    connection.execute("INSERT INTO commits VALUES (1, 'assemble', 0, 0, 1, 'a note')")
    connection.close()

    logs = await SqliteLog.open(path, ["spans", "turns"], 3)
    assert await records_of(logs["spans"]) == [
        StoredRecord(0, 0, 5.5, b"key", b"value", HEADERS),
        StoredRecord(0, 1, 5.5, b"key", b"second"),
        StoredRecord(1, 0, 5.5, None, b"", TICK),
        StoredRecord(2, 0, 5.5, None, b"{}", (("carry", b"1"),)),
    ]
    assert await records_of(logs["turns"]) == [StoredRecord(0, 0, 5.5, b"turn", b"{}")]
    assert (await logs["spans"].end_offset(0), await logs["turns"].end_offset(1)) == (2, 0)
    follower = Follower()
    following = asyncio.create_task(logs["spans"].follow("assemble", follower.open_fold))
    async with asyncio.timeout(20):
        while not {(0, 1), (1, 0), (2, 0)} <= set(follower.delivered):
            follower.came.clear()
            await follower.came.wait()
    following.cancel()
    await asyncio.wait([following])
    assert follower.opened == {0: Committed(0, 1, "a note"), 1: None, 2: None}
    assert (0, 0) not in follower.delivered
    for log in logs.values():
        await log.close()


def even(sql: str) -> str:
    return " ".join(sql.split()).replace("IF NOT EXISTS ", "").replace("( ", "(").replace(" )", ")")


def test_the_headers_of_a_tick() -> None:
    assert TICK == (("tick", b"1"),)


# Names


LOGS = ["spans", "turns", "evaluations", "definitions", "dead_letters", "labels", "unlinked", "history"]
FOLLOWING = {
    "spans": {"assemble"},
    "unlinked": {"link"},
    "turns": {"evaluate", "page.turns"},
    "evaluations": {"export.jsonl", "export.prometheus", "page.evaluations", "watch", "watch.releases"},
    "labels": {"page.labels", "feedback", "export.prometheus.feedback"},
}
"""The groups under which each log is followed, each with cursors of its own."""


async def test_names_of_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[tuple[Any, ...]] = []

    async def open_(_settings: Any, topics: Mapping[str, str], partitions: int, **more: Any) -> Mapping[str, Any]:
        opened.append((dict(topics), partitions, more["configs"]))
        return {name: MemoryLog(name, 1) for name in topics}

    monkeypatch.setattr(KafkaLog, "open", open_)
    settings = {"kind": "kafka", "kafka": {"bootstrap_servers": ["broker:9092"]}}
    async with open_logs(LogSettings.model_validate(settings), linking=True, page=True) as logs:
        assert [log.name for log in logs] == LOGS
    topics = {name: f"evalstream.{name}" for name in LOGS}
    kept = {key: {"retention.ms": "-1", "retention.bytes": "-1"} for key in ("definitions", "labels")}
    kept["history"] = {"retention.ms": "777600000"}
    assert opened == [(topics, 16, {f"evalstream.{name}": each for name, each in kept.items()})]


async def test_names_of_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every follower of a log locks it by log and group, so the names of the locks tell both."""
    sources: set[tuple[str, str]] = set()

    async def open_(_settings: Any, topics: Sequence[str], **_more: Any) -> Any:
        async def follow(group: str, _open_fold: Any, **_more: Any) -> None:
            sources.add((topics[0], group))
            await asyncio.Event().wait()

        return SimpleNamespace(
            follow=follow,
            where=lambda number: (topics[0], number),
            problem=lambda: None,
            await_older=None,
            each_topic=tuple,
        )

    monkeypatch.setattr(KafkaSource, "open", open_)
    topics = {"bootstrap_servers": ["broker:9092"], "traces": ["spans"], "logs": ["logs"], "turns": ["turns"]}
    config = {
        "log": {"path": str(tmp_path / "evalstream.db")},
        "receive": {"kafka": [topics]},
        "assemble": {"link": {"services": ["*"]}},
        "evaluators": {"short": {"kind": "length", "maximum": 100, "threshold": 0.5}},
        "monitors": {"all": {"evaluators": ["short"], "alerts": {}}},
        "alerts": {"watcher": {"webhook": "http://127.0.0.1:1/"}},
        "export": {"jsonl": {"path": str(tmp_path / "out.jsonl")}, "prometheus": {"port": 0}},
        "page": {"port": 0},
    }
    expected = {f"evalstream.db-{log}-{group}.lock" for log, groups in FOLLOWING.items() for group in groups}

    def locks() -> set[str]:
        return {path.name for path in tmp_path.glob("*.lock")}

    path = tmp_path / "evalstream.yaml"
    path.write_text(yaml.safe_dump(config))
    async with running(load(path)):
        async with asyncio.timeout(20):
            while not (locks() >= expected and len(sources) == 3):
                await asyncio.sleep(0.02)
        assert locks() == expected
        assert sources == {
            (name, f"evalstream.{kind}") for name, kind in (("spans", "traces"), ("logs", "logs"), ("turns", "turns"))
        }
    connection = sqlite3.connect(tmp_path / "evalstream.db")
    assert [name for _, name in connection.execute("SELECT number, name FROM logs ORDER BY number")] == LOGS
    connection.close()


def test_where_things_are_by_default() -> None:
    settings = LogSettings()
    assert (settings.kind, settings.path) == ("sqlite", "evalstream.db")


def test_the_kinds_of_dead_letters_are_names_of_classes() -> None:
    """A dead letter's `kind` is its error's class: a class renamed is another kind to every letter before it."""
    from collector.dead_letters import UnreadableBatch
    from collector.errors import TooLarge
    from collector.receive.rejection import NotRedacted
    from collector.records.ready_made import NotReadymade

    kinds = [each.__name__ for each in (BadInput, TooLarge, UnreadableBatch, NotReadymade, NotRedacted)]
    assert kinds == ["BadInput", "TooLarge", "UnreadableBatch", "NotReadymade", "NotRedacted"]


def test_the_headers_of_a_state_that_was_copied() -> None:
    expected = [(("transfer", kind),) for kind in (b"start", b"conversation", b"job")]
    assert expected == [START_HEADERS, CONVERSATION_HEADERS, JOB_HEADERS]
    record = conversation_record("all", *carried())
    snapshot = snapshot_record("all", *carried(), next_offset=0, partition=0)
    assert (record.value, record.headers, record.partition) == (snapshot.value, CONVERSATION_HEADERS, None)
