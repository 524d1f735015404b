"""Traces made up for a test: spans and log records in few words, and what comes of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from collector.assemble.collect_trace import TracePiece
from collector.assemble.trace import Assembler
from collector.dialects.registry import Dialects
from evaluators.cases import Turn

SECOND = 10**9
START = 1_795_230_000 * SECOND
TRACE = "5f" * 16
ASSEMBLER = Assembler(Dialects.installed())


def any_value(value: Any) -> AnyValue:
    match value:
        case None:
            return AnyValue()
        case bool():
            return AnyValue(bool_value=value)
        case int():
            return AnyValue(int_value=value)
        case float():
            return AnyValue(double_value=value)
        case str():
            return AnyValue(string_value=value)
        case bytes():
            return AnyValue(bytes_value=value)
        case Mapping():
            made = AnyValue()
            made.kvlist_value.SetInParent()
            for key, each in value.items():
                made.kvlist_value.values.add(key=key, value=any_value(each))
            return made
        case _:
            made = AnyValue()
            made.array_value.SetInParent()
            made.array_value.values.extend(any_value(each) for each in value)
            return made


def put(target: Any, attributes: Mapping[str, Any]) -> None:
    for key, value in attributes.items():
        target.add(key=key, value=any_value(value))


class Trace:
    """One trace in the making. Ids are numbers; a span starts at its number in seconds unless `at` says otherwise.

    Times count from `start` (ns since the epoch). What a running service gets starts now: it compares with its own clock.
    """

    def __init__(self, trace_id: str = TRACE, resource: Mapping[str, Any] | None = None, *, start: int = START) -> None:
        self.trace_id = bytes.fromhex(trace_id)
        self.start = start
        self.resource = {"service.name": "shop", **(resource or {})}
        self.spans = ExportTraceServiceRequest()
        self.logs = ExportLogsServiceRequest()

    def span(
        self,
        number: int,
        name: str = "span",
        attributes: Mapping[str, Any] | None = None,
        *,
        parent: int | None = None,
        at: float | None = None,
        took: float = 0.5,
        scope: str = "",
        error: str | None = None,
        events: Iterable[tuple[str, Mapping[str, Any]]] = (),
        dropped: int = 0,
    ) -> Trace:
        resource = self.spans.resource_spans.add()
        put(resource.resource.attributes, self.resource)
        scoped = resource.scope_spans.add()
        scoped.scope.name = scope
        span = scoped.spans.add(name=name, trace_id=self.trace_id, span_id=number.to_bytes(8, "big"))
        if parent is not None:
            span.parent_span_id = parent.to_bytes(8, "big")
        span.start_time_unix_nano = self.start + int((number if at is None else at) * SECOND)
        span.end_time_unix_nano = span.start_time_unix_nano + int(took * SECOND)
        span.dropped_attributes_count = dropped
        if error is not None:
            span.status.code, span.status.message = 2, error
        put(span.attributes, attributes or {})
        for event_name, held in events:
            event = span.events.add(name=event_name, time_unix_nano=span.end_time_unix_nano)
            put(event.attributes, held)
        return self

    def record(
        self,
        span: int | None,
        name: str,
        body: Any = None,
        attributes: Mapping[str, Any] | None = None,
        *,
        at: float = 1.0,
        scope: str = "",
    ) -> Trace:
        resource = self.logs.resource_logs.add()
        put(resource.resource.attributes, self.resource)
        scoped = resource.scope_logs.add()
        scoped.scope.name = scope
        record = scoped.log_records.add(event_name=name, trace_id=self.trace_id)
        if span is not None:
            record.span_id = span.to_bytes(8, "big")
        record.time_unix_nano = self.start + int(at * SECOND)
        if body is not None:
            record.body.CopyFrom(any_value(body))
        put(record.attributes, attributes or {})
        return self

    def pieces(self) -> list[TracePiece]:
        found = [TracePiece("traces", self.spans.SerializeToString())] if self.spans.resource_spans else []
        return [*found, TracePiece("logs", self.logs.SerializeToString())] if self.logs.resource_logs else found

    def turns(self, assembler: Assembler = ASSEMBLER) -> list[Turn]:
        return [each.turn for each in assembler.assemble(self.pieces(), _no_bad).turns]

    def turn(self) -> Turn:
        turns = self.turns()
        assert len(turns) == 1, [(turn.input, turn.actual_output, turn.error, turn.incomplete) for turn in turns]
        return turns[0]


def _no_bad(error: Exception) -> None:
    raise AssertionError(error)


def parts(*messages: tuple[str, str]) -> str:
    """Messages by the conventions, as JSON."""
    import json

    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]} for role, text in messages])


def chat(question: str, answer: str | None, **more: Any) -> dict[str, Any]:
    """The attributes of a model call by the conventions."""
    held = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m-1",
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 3,
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.input.messages": parts(("user", question)),
    }
    if answer is not None:
        held["gen_ai.output.messages"] = parts(("assistant", answer))
    return {**held, **more}


def facts(turn: Turn) -> dict[str, Any]:
    """What a turn says, in few words: only what is there."""
    said = {
        "input": turn.input,
        "answer": turn.actual_output,
        "system": turn.system_prompt,
        "history": [(each.role, each.content) for each in turn.history],
        "tools": [(each.name, each.arguments, each.result) for each in turn.tools_called],
        "context": list(turn.retrieval_context),
        "tokens": (turn.usage.input_tokens, turn.usage.output_tokens) if turn.usage else None,
        "model": turn.model,
        "response": turn.response_id,
        "conversation": turn.conversation_id,
        "user": turn.user_id,
        "error": turn.error,
        "incomplete": turn.incomplete,
        "feedback": [(each.name, each.value, each.label, each.comment) for each in turn.feedback],
    }
    return {name: value for name, value in said.items() if value not in (None, [])}
