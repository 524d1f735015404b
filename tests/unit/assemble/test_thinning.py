"""Receivers leave out what was said only where a piece is surely a plain call that nobody can want."""

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
from collector.assemble.thinning import Thinner
from collector.assemble.trace import Assembler
from collector.dialects.registry import Dialects
from collector.errors import BadInput
from collector.logs.log import Record, StoredRecord
from collector.otlp.decode import field_bytes
from collector.receive.parsed_request import ParsedRequest, parse
from collector.records.shared_records import divide_records, share_records
from collector.records.thin_pieces import HEADERS, turn_of
from collector.redact.open_redactor import RedactSettings, open_redactor
from collector.redact.redactor import Redactor

DIALECTS = Dialects.installed()
ASSEMBLER = Assembler(DIALECTS)
TALK = {"gen_ai.conversation.id": "talk-7"}


def nobody(_key: str) -> bool:
    return False


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
    return parse(body, "traces", "protobuf", thinning=Thinner(assembler, is_wanted), redactor=redactor, tenant=tenant)


def is_thin(trace: Trace, assembler: Assembler = ASSEMBLER) -> bool:
    parsed = received(trace, assembler=assembler)
    [record] = parsed.records
    assert parsed.thinned == (record.headers == HEADERS)
    if not parsed.thinned:
        assert record.value == trace.spans.SerializeToString(), "as it came"
    return bool(parsed.thinned)


def test_a_plain_call_that_nobody_wants() -> None:
    trace = (
        Trace()
        .span(1, "POST /chat", {"user.id": "u-1", "http.route": "/chat"}, took=3)
        .span(2, "chat", call(), parent=1)
    )
    parsed = received(trace)
    [record] = parsed.records
    assert (parsed.accepted, parsed.thinned, record.headers) == (2, 1, HEADERS)
    assert not any(words in record.value for words in (b"open", b"until", b"gpt", b'/chat"'))
    stored = ExportTraceServiceRequest.FromString(record.value)
    spans = [each for resource in stored.resource_spans for scope in resource.scope_spans for each in scope.spans]
    assert [[pair.key for pair in each.attributes] for each in spans] == [["user.id"], ["gen_ai.conversation.id"]]
    assert all(each.start_time_unix_nano and each.end_time_unix_nano for each in spans)
    [turn] = [each.turn for each in ASSEMBLER.assemble([TracePiece("traces", record.value, thin=True)]).turns]
    [glanced] = [each.turn for each in ASSEMBLER.assemble(trace.pieces(), is_wanted=lambda _turn: False).turns]
    assert turn == glanced


def test_in_doubt_it_is_stored_whole() -> None:
    assert is_thin(Trace().span(1, "chat", call()))
    assert not is_thin(Trace().span(1, "chat", chat("Are you open?", "Yes."))), "no conversation"
    assert not is_thin(Trace().span(2, "chat", call(), parent=1)), "what is around it comes later"
    assert not is_thin(Trace().span(1, "chat", call()).span(2, "chat", call())), "two calls"
    assert not is_thin(Trace().span(1, "chat", call(), events=[("basket_left", {})]))
    assert not is_thin(Trace().span(1, "POST", events=[("basket_left", {})]).span(2, "chat", call(), parent=1))
    assert not is_thin(Trace().span(1, "chat", call(), error="it broke"))
    assert not is_thin(Trace().span(1, "chat", call(), dropped=1))
    no_answer = {key: value for key, value in call().items() if key != "gen_ai.output.messages"}
    assert not is_thin(Trace().span(1, "chat", no_answer)), "log records may have it"
    for kind in ("invoke_agent", "invoke_workflow", "execute_tool", "retrieval", "evaluation", "some_step"):
        around = {"gen_ai.operation.name": kind}
        assert not is_thin(Trace().span(1, kind, around, took=5).span(2, "chat", call(), parent=1)), kind
    assert is_thin(Trace().span(1, "embeddings", {"gen_ai.operation.name": "embeddings"}).span(2, "chat", call()))
    in_resource = Trace(resource={"session.id": "talk-7"}).span(1, "chat", chat("Hi", "Yes."))
    assert not is_thin(in_resource), "a span that comes later may name another"
    beside = Trace().span(1, "chat", chat("Hi", "Yes.")).span(2, "GET", TALK)
    assert not is_thin(beside), "a span that comes later may name another"


def test_a_parent_in_another_process_is_the_end() -> None:
    trace = Trace().span(2, "chat", call(), parent=1)
    span = trace.spans.resource_spans[0].scope_spans[0].spans[0]
    span.flags = 0x100
    assert not is_thin(trace), "known to be in the same process"
    span.flags = 0x301
    assert is_thin(trace)


def test_links_and_two_versions_of_a_span() -> None:
    trace = Trace().span(1, "chat", call())
    assert not is_thin(trace.span(1, "chat", call()))
    linked = Trace().span(1, "chat", call())
    linked.spans.resource_spans[0].scope_spans[0].spans[0].links.add(trace_id=b"1" * 16, span_id=b"2" * 8)
    assert not is_thin(linked)


def test_names_of_the_configuration() -> None:
    named = Assembler(DIALECTS, IdentityLookup(("shop.chat",)), ApplicationAttributes({"tier": ["app.tier"]}))
    assert not is_thin(Trace().span(1, "chat", call()), named), "a configured name wins wherever it is"
    trace = Trace().span(1, "POST", {"app.tier": "gold", "x": "y"}, took=3)
    trace.span(2, "chat", call(**{"shop.chat": "c-1"}), parent=1)
    [record] = received(trace, assembler=named).records
    assert turn_of(record.value).conversation == "c-1"
    assert b"gold" in record.value
    assert not is_thin(Trace().span(1, "chat", call()), Assembler(DIALECTS, agent_runs=True))
    made_up = Assembler(DIALECTS, IdentityLookup(made_up=("gen_ai.conversation.id",)))
    assert not is_thin(Trace().span(1, "chat", call()), made_up)
    [run] = [
        Trace().span(
            1, "chat", {**call(), "gen_ai.conversation.id": "0af76519-16cd-43dd-8448-eb211c80319c"}, scope="pydantic-ai"
        )
    ]
    assert not is_thin(run), "made up for one run, perhaps"


def test_the_nearest_conversation_counts_as_in_the_whole_turn() -> None:
    trace = Trace().span(1, "POST", {"session.id": "outer"}, took=3).span(2, "chat", call(), parent=1)
    [record] = received(trace).records
    [turn] = trace.turns()
    assert turn_of(record.value).conversation == turn.conversation_id == "talk-7"


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
    assert found == ["EMAIL 1"], "once, though it is redacted before all others"
    [plain] = parse(trace.spans.SerializeToString(), "traces", "protobuf", redactor=redactor, tenant=tenant).records
    assert whole == plain, "what is wanted is as it was without thinning"
    [record] = received(trace, redactor=redactor, tenant=tenant).records
    assert b"ann@" not in record.value
    turn = turn_of(record.value)
    assert turn.conversation.startswith("<EMAIL_")
    assert seen == [f"evalstream.tenant/{tenant}/{turn.conversation}" if tenant else turn.conversation]


def stored(record: Record, offset: int = 0) -> StoredRecord:
    return StoredRecord(0, offset, 1.0, record.key, record.value, record.headers)


def test_thin_pieces_share_records_are_copied_and_dead_lettered() -> None:
    records = [
        received(Trace(f"{number:032x}").span(1, "chat", call()), nobody if number % 2 else lambda _key: True).records[
            0
        ]
        for number in range(1, 5)
    ]
    [shared] = share_records(records, 1)
    divided = divide_records([stored(shared)])
    assert [(each.key, each.value, each.headers) for each in divided] == [
        (each.key, each.value, each.headers) for each in records
    ]
    assert [parse_piece(each).thin for each in divided] == [True, False, True, False]
    assert len(open_pieces(divided, TraceLimits()).open) == 4
    for value in (b"", records[1].value, records[0].value[:2], records[0].value[:20], b"\xc2\x3e\x02[]"):
        with pytest.raises(BadInput, match="not a thin piece"):
            parse_piece(stored(Record(records[0].key, value, HEADERS)))


def test_a_wanted_call_beside_a_thin_one_keeps_its_content() -> None:
    """Two conversations in a trace, each in a request of its own, at the same time and below one parent."""
    other = chat("Is the museum open?", "It is.", **{"gen_ai.conversation.id": "talk-8"})
    thin = received(Trace().span(1, "POST", took=9).span(2, "chat", call(), parent=1, at=2)).records[0]
    whole = Trace().span(3, "chat", other, parent=1, at=2).pieces()
    for pieces in (
        [TracePiece("traces", thin.value, thin=True), *whole],
        [*whole, TracePiece("traces", thin.value, thin=True)],
    ):
        assembly = ASSEMBLER.assemble(pieces)
        turns = {each.turn.conversation_id: each.turn for each in assembly.turns}
        assert turns["talk-8"].incomplete is None
        assert (turns["talk-8"].input, turns["talk-8"].actual_output) == ("Is the museum open?", "It is.")
        assert turns["talk-7"].incomplete == "unwanted"
        assert assembly.spans == {"otel_genai": 2, "none": 1}


def test_what_log_records_say_of_a_thin_call_makes_no_complete_turn() -> None:
    thin = received(Trace().span(1, "chat", call())).records[0]
    logs = Trace().record(1, "gen_ai.user.message", {"content": "Are you open?"})
    logs.record(1, "gen_ai.choice", {"index": 0, "message": {"content": "Yes."}, "finish_reason": "stop"})
    assembly = ASSEMBLER.assemble([TracePiece("traces", thin.value, thin=True), *logs.pieces()])
    assert [each.turn.incomplete for each in assembly.turns] == ["unwanted"]
    assert assembly.spans == {"otel_genai": 1}


def test_feedback_beside_a_thin_call_is_about_its_turn() -> None:
    thin = received(Trace().span(1, "POST", took=5).span(2, "chat", call(), parent=1)).records[0]
    scored = {"gen_ai.evaluation.name": "helpful", "gen_ai.evaluation.score.value": 1}
    logs = Trace().record(2, "gen_ai.evaluation.result", None, scored)
    assembly = ASSEMBLER.assemble([TracePiece("traces", thin.value, thin=True), *logs.pieces()])
    [turn] = [each.turn for each in assembly.turns]
    [feedback] = assembly.feedback
    assert (turn.incomplete, turn.feedback) == ("unwanted", ())
    assert (feedback.turn_id, feedback.spans) == (turn.turn_id, (turn.span_id,))


def test_what_came_whole_is_not_thin() -> None:
    """A span that was sent once more in another request, which was stored whole."""
    trace = Trace().span(1, "POST", took=5).span(2, "chat", call(), parent=1)
    thin = received(trace).records[0]
    alone = Trace().span(2, "chat", call(), parent=1)
    assembly = ASSEMBLER.assemble([TracePiece("traces", thin.value, thin=True), *alone.pieces()])
    [turn] = [each.turn for each in assembly.turns]
    assert (turn.incomplete, turn.actual_output) == (None, "Yes, until ten.")
    assert turn == trace.turn()
    assert assembly.spans == {"otel_genai": 1, "none": 1}


def test_requests_in_json_and_of_many_traces() -> None:
    whole = ExportTraceServiceRequest()
    for number in range(1, 7):
        name = "wanted" if number % 3 == 0 else "other"
        attributes = {**call(), "gen_ai.conversation.id": f"{name}-{number}"}
        whole.MergeFrom(Trace(f"{number:032x}").span(1, "chat", attributes).spans)
    put(whole.resource_spans[0].resource.attributes, {"a": "b"})
    body = whole.SerializeToString()
    parsed = parse(body, "traces", "protobuf", thinning=Thinner(ASSEMBLER, lambda key: key.startswith("wanted")))
    plain = parse(body, "traces", "protobuf")
    assert (parsed.thinned, parsed.accepted) == (4, plain.accepted)
    for stored_, before in zip(parsed.records, plain.records, strict=True):
        assert stored_.key == before.key
        assert (stored_ == before) == (stored_.headers != HEADERS)


@pytest.mark.parametrize("is_wanted", [nobody, lambda _key: True], ids=["thin", "whole"])
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
    assert parsed.thinned == (is_wanted is nobody)
    assert len(parsed.records) == 2
    assert not any(b"unseen" in each.value for each in parsed.records)


def test_sequences_of_names_that_senders_make_up_are_forgotten_and_long_ones_not_remembered():
    thinner = Thinner(ASSEMBLER, nobody)
    for number in range(2500):
        body = Trace().span(1, "GET /", {f"made.up.{number}": 1}).span(2, "chat", call(), parent=1)
        (record,) = parse(body.spans.SerializeToString(), "traces", "protobuf", thinning=thinner).records
        assert record.headers == HEADERS
    long = Trace().span(1, "GET /", {"x" * 6000: 1}).span(2, "chat", call(), parent=1)
    assert parse(long.spans.SerializeToString(), "traces", "protobuf", thinning=thinner).thinned == 1
    sequences = thinner._names
    assert len(sequences) <= 1000
    assert all(len(key) < 100 for keys in sequences for key in keys)
