"""What this deployment has exported is recognised by its signature; what a stranger calls so is judged."""

from __future__ import annotations

from typing import Any

import pytest
from evaluation_samples import SPAN, TRACE, failed, of_conversation, scored, skipped
from made_up import ASSEMBLER, Trace, chat

from collector.assemble.collect_trace import TracePiece
from collector.export.otlp_messages import events, spans
from collector.otlp.own_items import OWN_SCOPE, SIGNATURE, OwnItems
from collector.receive.parsed_request import parse
from collector.redact.patterns import built_in
from collector.redact.redactor import Redactor

OWN = OwnItems(b"the key of this deployment")
BATCH = [scored(), failed(), skipped(), of_conversation()]
EXPORTED: list[tuple[Any, Any]] = [(spans, "traces"), (events, "logs")]


@pytest.mark.parametrize(("write", "signal"), EXPORTED)
def test_what_was_exported_is_left_out_when_it_comes_back(write: Any, signal: Any) -> None:
    body = write(BATCH, service="judge", own=OWN).SerializeToString()
    redactor = Redactor([built_in()], b"a key of sixteen", lambda *_: None, lambda: None)
    for how in ({}, {"redactor": redactor}):
        parsed = parse(body, signal, "protobuf", own=OWN, **how)
        assert (parsed.records, parsed.accepted) == ([], 0)
        assert parsed.self_emitted == len(BATCH)


@pytest.mark.parametrize(("write", "signal"), EXPORTED)
def test_what_another_deployment_exported_makes_no_turn(write: Any, signal: Any) -> None:
    request = write(BATCH, service="judge", own=OwnItems(b"another key"))
    parsed = parse(request.SerializeToString(), signal, "protobuf", own=OWN)
    assert parsed.self_emitted == 0
    pieces = [TracePiece(signal, record.value) for record in parsed.records]
    assert ASSEMBLER.assemble(pieces).turns == ()
    judged = Trace(TRACE).span(1, "chat", chat("How much?", "Five."))
    judged.spans.resource_spans[0].scope_spans[0].spans[0].span_id = bytes.fromhex(SPAN)
    [turn] = ASSEMBLER.assemble([*pieces, *judged.pieces()]).turns
    assert (turn.turn.input, turn.turn.actual_output) == ("How much?", "Five.")


def test_a_stranger_who_calls_its_spans_ours_is_judged() -> None:
    trace = Trace().span(1, "evaluate relevancy", chat("Hello?", "Buy now!"), scope=OWN_SCOPE)
    parsed = parse(trace.spans.SerializeToString(), "traces", "protobuf", own=OWN)
    assert (parsed.accepted, parsed.self_emitted) == (1, 0)
    [turn] = ASSEMBLER.assemble([TracePiece("traces", parsed.records[0].value)]).turns
    assert turn.turn.actual_output == "Buy now!"


@pytest.mark.parametrize("change", ["span", "trace", "evaluation", "kind", "twice"])
def test_a_signature_is_good_for_what_it_was_made_for(change: str) -> None:
    request = spans([scored()], service="judge", own=OWN)
    scope = request.resource_spans[0].scope_spans[0]
    [span] = scope.spans
    match change:
        case "span":
            span.span_id = bytes(8)
        case "trace":
            span.trace_id = bytes(15) + b"x"
        case "evaluation":
            for pair in span.attributes:
                if pair.key == "evalstream.evaluation.id":
                    pair.value.string_value = "another"
        case "kind":
            event = events([scored()], service="judge", own=OWN).resource_logs[0].scope_logs[0].log_records[0]
            signature = next(pair.value.string_value for pair in event.attributes if pair.key == SIGNATURE)
            for pair in span.attributes:
                if pair.key == SIGNATURE:
                    pair.value.string_value = signature
        case "twice":
            span.attributes.append(next(pair for pair in span.attributes if pair.key == SIGNATURE))
        case _:
            scope.scope.name = "gen_ai"
    assert parse(request.SerializeToString(), "traces", "protobuf", own=OWN).self_emitted == 0


def test_a_signature_is_good_in_every_scope() -> None:
    """A judged span is written again in the scope that it came in."""
    request = spans([scored()], service="judge", own=OWN)
    request.resource_spans[0].scope_spans[0].scope.name = "gen_ai"
    assert parse(request.SerializeToString(), "traces", "protobuf", own=OWN).self_emitted == 1


@pytest.mark.parametrize("value", ["", "é", "\ud800".encode("utf-8", "replace").decode(), 7, "0" * 100_000])
def test_a_signature_of_any_form_is_read(value: Any) -> None:
    trace = Trace().span(1, "x", {SIGNATURE: value}, scope=OWN_SCOPE)
    assert parse(trace.spans.SerializeToString(), "traces", "protobuf", own=OWN).self_emitted == 0
