"""Receivers note the turn of a piece only if it is surely its only one, and nobody can want it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from made_up import Trace, chat, put
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.assemble.application_attributes import ApplicationAttributes
from collector.assemble.collect_trace import TracePiece
from collector.assemble.fold import parse_piece
from collector.assemble.identity import IdentityLookup
from collector.assemble.open_trace_pieces import open_pieces
from collector.assemble.open_traces import TraceLimits
from collector.assemble.trace import Assembler
from collector.assemble.turn_notes import TurnNotes
from collector.dialects.registry import Dialects
from collector.errors import BadInput
from collector.logs.log import Record, StoredRecord
from collector.otlp.decode import field_bytes
from collector.receive.parsed_request import ParsedRequest, parse
from collector.records.noted_turns import has_note, noted_turn
from collector.records.shared_records import divide_records, share_records
from collector.redact.open_redactor import RedactSettings, open_redactor
from collector.redact.redactor import Redactor

DIALECTS = Dialects.installed()
ASSEMBLER = Assembler(DIALECTS)
TALK = {"gen_ai.conversation.id": "talk-7"}
TRACE = (("signal", b"traces"),)


def nobody(_key: str) -> bool:
    return False


def everybody(_key: str) -> bool:
    return True


def call(**more: Any) -> dict[str, Any]:
    return chat("Are you open?", "Yes, until ten.", **TALK, **more)


def received(
    trace: Trace,
    is_wanted: Callable[[str], bool] = nobody,
    *,
    assembler: Assembler = ASSEMBLER,
    redactor: Redactor | None = None,
    tenant: str = "",
) -> ParsedRequest:
    body = trace.spans.SerializeToString()
    return parse(body, "traces", "protobuf", notes=TurnNotes(assembler, is_wanted), redactor=redactor, tenant=tenant)


def is_noted(trace: Trace, assembler: Assembler = ASSEMBLER) -> bool:
    """Whether the piece has a note; then it is what one look at the stored piece finds."""
    parsed = received(trace, assembler=assembler)
    [record] = parsed.records
    assert parsed.noted == has_note(record.value)
    assert record.headers == TRACE
    assert record.value.endswith(trace.spans.SerializeToString()), "as it came"
    seen = assembler.assemble([TracePiece("traces", record.value)], is_wanted=lambda _turn: False)
    if parsed.noted:
        [turn] = [each.turn for each in seen.turns]
        noted = noted_turn(record.value)
        assert seen.at_a_glance
        assert (turn.trace_id, turn.span_id, turn.conversation_id, turn.service, turn.dialect) == (
            noted.trace, noted.span, noted.conversation, noted.service, noted.dialect
        )  # fmt: skip
    return bool(parsed.noted)


def test_a_plain_call_that_nobody_wants() -> None:
    trace = Trace().span(1, "POST /chat", {"http.route": "/chat"}, took=3).span(2, "chat", call(), parent=1)
    parsed = received(trace)
    assert (parsed.accepted, parsed.noted) == (2, 1)
    assert is_noted(trace)
    [whole] = received(trace, everybody).records
    assert whole.value == trace.spans.SerializeToString(), "what is wanted has no note"
    [record] = parse(whole.value, "traces", "protobuf", notes=TurnNotes(ASSEMBLER, nobody, lambda: False)).records
    assert record == whole, "nor is anything looked at where all are wanted"


def test_in_doubt_there_is_no_note() -> None:
    assert is_noted(Trace().span(1, "chat", call()))
    assert is_noted(Trace().span(2, "chat", call(), parent=1)), "if more comes, the note does not count"
    assert not is_noted(Trace().span(1, "chat", chat("Are you open?", "Yes."))), "no conversation"
    assert not is_noted(Trace().span(1, "chat", call()).span(2, "chat", call())), "two calls"
    assert not is_noted(Trace().span(1, "chat", call(), events=[("basket_left", {})]))
    assert not is_noted(Trace().span(1, "chat", call(), error="it broke"))
    assert not is_noted(Trace().span(1, "chat", call(), dropped=1))
    for kind in ("execute_tool", "evaluation"):
        around = {"gen_ai.operation.name": kind}
        assert not is_noted(Trace().span(1, kind, around, took=5).span(2, "chat", call(), parent=1)), kind
    assert is_noted(Trace().span(1, "embeddings", {"gen_ai.operation.name": "embeddings"}).span(2, "chat", call()))
    agent = {"gen_ai.operation.name": "invoke_agent"}
    assert is_noted(Trace().span(1, "agent", agent, took=5).span(2, "chat", call(), parent=1))
    assert not is_noted(Trace().span(1, "agent", agent, took=5).span(2, "chat", call())), "beside it"
    two_names = Trace().span(1, "POST", {"session.id": "outer"}, took=3).span(2, "chat", call(), parent=1)
    assert not is_noted(two_names)


def test_names_of_the_configuration() -> None:
    named = Assembler(DIALECTS, IdentityLookup(("shop.chat",)), ApplicationAttributes({"tier": ["app.tier"]}))
    trace = (
        Trace()
        .span(1, "POST", {"app.tier": "gold"}, took=3)
        .span(2, "chat", chat("Hi", "Ho", **{"shop.chat": "c"}), parent=1)
    )
    assert is_noted(trace, named)
    assert not is_noted(Trace().span(1, "chat", call()), Assembler(DIALECTS, agent_runs=True))
    made_up = Assembler(DIALECTS, IdentityLookup(made_up=("gen_ai.conversation.id",)))
    assert not is_noted(Trace().span(1, "chat", call()), made_up)


@pytest.mark.parametrize("tenant", ["", "acme"])
def test_the_draw_is_that_of_the_redacted_id_of_the_tenant(tenant: str) -> None:
    found: list[str] = []
    redactor = open_redactor(
        RedactSettings(key="0123456789abcdef"), lambda kind, number: found.append(f"{kind} {number}"), lambda: None
    )
    trace = Trace().span(1, "chat", {**call(), "gen_ai.conversation.id": "ann@example.org"})
    seen: list[str] = []

    def wanted(key: str) -> bool:
        seen.append(key)
        return True

    [whole] = received(trace, wanted, redactor=redactor, tenant=tenant).records
    assert found == ["EMAIL 1"], "once"
    [record] = received(trace, redactor=redactor, tenant=tenant).records
    assert record.value.endswith(whole.value)
    assert b"ann@" not in record.value
    turn = noted_turn(record.value)
    assert turn.conversation.startswith("<EMAIL_")
    assert seen == [f"evalstream.tenant/{tenant}/{turn.conversation}" if tenant else turn.conversation]


def stored(record: Record, offset: int = 0) -> StoredRecord:
    return StoredRecord(0, offset, 1.0, record.key, record.value, record.headers)


def test_noted_pieces_share_records_and_are_copied() -> None:
    records = [
        received(Trace(f"{number:032x}").span(1, "chat", call()), nobody if number % 2 else everybody).records[0]
        for number in range(1, 5)
    ]
    [shared] = share_records(records, 1)
    divided = divide_records([stored(shared)])
    assert [(each.key, each.value, each.headers) for each in divided] == [
        (each.key, each.value, each.headers) for each in records
    ]
    assert [has_note(parse_piece(each).value) for each in divided] == [True, False, True, False]
    assert len(open_pieces(divided, TraceLimits()).open) == 4


def test_a_note_that_is_not_ours_is_refused() -> None:
    """A sender may write one; it never gets into the log, and what is in the log is checked."""
    trace = Trace("1f" * 16).span(1, "chat", call())
    [mine] = received(trace).records
    note = mine.value.removesuffix(trace.spans.SerializeToString())
    other = Trace("2f" * 16).span(1, "chat", call()).spans.SerializeToString()
    [record] = parse(note + other, "traces", "protobuf").records
    assert not has_note(record.value)
    with pytest.raises(BadInput, match="about another trace"):
        parse_piece(stored(Record(b"2f" * 16, note + other, TRACE)))
    for value in (note[:2], note[:20], b"\xc2\x3e\x02[]"):
        with pytest.raises(BadInput, match="not a note of a turn"):
            parse_piece(stored(Record(mine.key, value, TRACE)))


def test_requests_of_many_traces() -> None:
    whole = ExportTraceServiceRequest()
    for number in range(1, 7):
        name = "wanted" if number % 3 == 0 else "other"
        attributes = {**call(), "gen_ai.conversation.id": f"{name}-{number}"}
        whole.MergeFrom(Trace(f"{number:032x}").span(1, "chat", attributes).spans)
    put(whole.resource_spans[0].resource.attributes, {"a": "b"})
    body = whole.SerializeToString()
    parsed = parse(body, "traces", "protobuf", notes=TurnNotes(ASSEMBLER, lambda key: key.startswith("wanted")))
    plain = parse(body, "traces", "protobuf")
    assert (parsed.noted, parsed.accepted) == (4, plain.accepted)
    for record, before in zip(parsed.records, plain.records, strict=True):
        assert (record.key, record.headers) == (before.key, before.headers)
        assert (record == before) == (not has_note(record.value))
        assert record.value.endswith(before.value)


@pytest.mark.parametrize("is_wanted", [nobody, everybody], ids=["noted", "wanted"])
def test_fields_that_otlp_does_not_know_are_not_stored_where_texts_are_redacted(is_wanted: Callable[[str], bool]):
    trace = Trace().span(1, "GET /", {"http.route": "/"}).span(2, "chat", call(), parent=1)
    trace.span(3, "x", {})
    trace.spans.resource_spans[-1].scope_spans[-1].spans[-1].trace_id = bytes(range(16))
    for holder in (trace.spans, *trace.spans.resource_spans):
        holder.MergeFromString(field_bytes(b"\xc2\x3e", b"unseen"))
    for resource in trace.spans.resource_spans:
        for message in (resource.resource, *resource.resource.attributes):
            message.MergeFromString(field_bytes(b"\xc2\x3e", b"unseen"))
    for scope in (each for resource in trace.spans.resource_spans for each in resource.scope_spans):
        for message in (scope, scope.scope, *scope.spans, *(span.status for span in scope.spans)):
            message.MergeFromString(field_bytes(b"\xc2\x3e", b"unseen"))
        for span in scope.spans:
            for pair in span.attributes:
                pair.value.MergeFromString(field_bytes(b"\xc2\x3e", b"unseen"))
    assert trace.spans.SerializeToString().count(b"unseen") > 20
    parsed = received(trace, is_wanted, redactor=open_redactor(RedactSettings(), lambda *_: None, lambda *_: None))
    assert parsed.noted == (is_wanted is nobody)
    assert len(parsed.records) == 2
    assert not any(b"unseen" in each.value for each in parsed.records)
