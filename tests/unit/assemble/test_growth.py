"""What a turn costs does not grow with its trace. Counted in instructions, for time depends on the machine."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import cache
from types import FrameType
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.assemble.collect_trace import TracePiece
from collector.assemble.trace import Assembler
from collector.dialects.registry import Dialects

SHORT, LONG = 12, 48


@cache
def assembler() -> Assembler:
    return Assembler(Dialects.installed())


class Trace:
    """A trace being put together."""

    def __init__(self) -> None:
        self.request = ExportTraceServiceRequest()
        self._scope = self.request.resource_spans.add().scope_spans.add()
        self._count = 0

    def span(self, parent: int | None, attributes: dict[str, str], *events: str) -> int:
        self._count += 1
        span = self._scope.spans.add(trace_id=b"\1" * 16, span_id=self._count.to_bytes(8, "big"), name="a span")
        if parent is not None:
            span.parent_span_id = parent.to_bytes(8, "big")
        span.start_time_unix_nano = 1_795_230_000_000_000_000 + 1000 * self._count
        span.end_time_unix_nano = span.start_time_unix_nano + (100_000 if parent == 1 else 500)
        for key, value in attributes.items():
            span.attributes.add(key=key).value.string_value = value
        for event in events:
            span.events.add(name=event, time_unix_nano=span.end_time_unix_nano)
        return self._count

    def chat(self, parent: int, given: list[Any], came: list[Any]) -> None:
        words = {"gen_ai.input.messages": json.dumps(given), "gen_ai.output.messages": json.dumps(came)}
        self.span(parent, {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", **words})


def said(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def calls(trace: Trace, number: int) -> None:
    trace.chat(1, [said("user", f"What does item {number} cost?")], [said("assistant", f"Item {number} is {number}.")])


def with_events(trace: Trace, number: int) -> None:
    trace.span(trace.span(1, {}, "request.read"), {}, "request.checked", f"request.{number}.done")
    calls(trace, number)


def without_content(trace: Trace, number: int) -> None:
    trace.span(
        1, {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.response.finish_reasons": "stop"}
    )


def agents(trace: Trace, number: int) -> None:
    agent = trace.span(1, {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"})
    asked = {"type": "tool_call", "id": f"c{number}", "name": "look", "arguments": {"item": number}}
    given = [said("user", f"What does item {number} cost?")]
    trace.chat(agent, given, [{"role": "assistant", "parts": [asked]}])
    trace.span(
        agent,
        {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look", "gen_ai.tool.call.id": f"c{number}"},
    )
    answered = {"role": "tool", "parts": [{"type": "tool_call_response", "id": f"c{number}", "result": "7"}]}
    trace.chat(
        agent, [*given, {"role": "assistant", "parts": [asked]}, answered], [said("assistant", f"It is {number}.")]
    )


def retrieval(trace: Trace, number: int) -> None:
    question, answer = f"What does item {number} cost?", f"Item {number} costs {number} euros."
    chain = trace.span(1, {"openinference.span.kind": "CHAIN", "input.value": question, "output.value": answer})
    found = {"retrieval.documents.0.document.content": f"price list {number}"}
    trace.span(chain, {"openinference.span.kind": "RETRIEVER", "input.value": question, **found})
    prompt = {"llm.input_messages.0.message.role": "user", "llm.input_messages.0.message.content": question}
    came = {"llm.output_messages.0.message.role": "assistant", "llm.output_messages.0.message.content": answer}
    trace.span(chain, {"openinference.span.kind": "LLM", **prompt, **came})
    trace.span(chain, {"openinference.span.kind": "CHAIN", "input.value": answer, "output.value": answer + "!"})


def instructions(work: Callable[[], object]) -> int:
    """How many instructions Python runs for it."""
    count = 0

    def trace(frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal count
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def per_turn(fill: Callable[[Trace, int], None], turns: int) -> float:
    trace = Trace()
    trace.span(None, {"http.route": "/chat"})
    for number in range(turns):
        fill(trace, number)
    piece = TracePiece("traces", trace.request.SerializeToString())
    assert len(assembler().assemble([piece]).turns) == turns
    return instructions(lambda: assembler().assemble([piece])) / turns


@pytest.mark.parametrize("fill", [calls, with_events, without_content, agents, retrieval])
def test_a_turn_costs_no_more_in_a_long_trace(fill: Callable[[Trace, int], None]) -> None:
    assert per_turn(fill, LONG) < 1.15 * per_turn(fill, SHORT)
