"""Numbered turns as OTLP spans on a source topic, and as records of the turns log."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from evaluators.cases import Turn

PER_CONVERSATION = 3
PATIENT_MODEL = "shop-2"
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def question(number: int) -> str:
    """What the user of a turn says; `counted_judge` finds the number in it again."""
    return f"This is turn-{number:06d}-: what is {number} and one?"


def is_patient(number: int) -> bool:
    """Whether a turn is of the fifth of conversations that a monitor watches whose evaluations may wait."""
    return number // PER_CONVERSATION % 5 == 0


def trace_id(number: int) -> bytes:
    return hashlib.blake2b(number.to_bytes(8, "big"), digest_size=16).digest()


def conversation_id(number: int) -> str:
    return f"conversation-{number // PER_CONVERSATION}"


def turn(number: int) -> Turn:
    at = BEGIN + timedelta(seconds=number)
    return Turn(
        turn_id=f"turn-{number}",
        conversation_id=conversation_id(number),
        trace_id=trace_id(number).hex(),
        span_id=trace_id(number)[:8].hex(),
        input=question(number),
        actual_output=f"It is {number + 1}.",
        started_at=at,
        ended_at=at,
    )


def request(numbers: Sequence[int]) -> bytes:
    """One OTLP request with one chat span, in a trace of its own, for each turn."""
    message = ExportTraceServiceRequest()
    resource = message.resource_spans.add()
    resource.resource.attributes.add(key="service.name").value.string_value = "shop"
    scope = resource.scope_spans.add()
    scope.scope.name = "shop.instrumentation"
    for number in numbers:
        at = int((BEGIN + timedelta(seconds=number)).timestamp() * 1e9)
        span = scope.spans.add(trace_id=trace_id(number), span_id=trace_id(number)[:8], name="chat shop-1")
        span.start_time_unix_nano, span.end_time_unix_nano = at, at + 10**9
        for name, value in (
            ("gen_ai.operation.name", "chat"),
            ("gen_ai.request.model", PATIENT_MODEL if is_patient(number) else "shop-1"),
            ("gen_ai.conversation.id", conversation_id(number)),
            ("gen_ai.input.messages", _message("user", question(number))),
            ("gen_ai.output.messages", _message("assistant", f"It is {number + 1}.")),
        ):
            span.attributes.add(key=name).value.string_value = value
    return message.SerializeToString()


def _message(role: str, text: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])
