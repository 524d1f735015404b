"""Traffic that nobody would send on purpose, made from what real libraries send. Seeded: a case can be made again."""

from __future__ import annotations

import ast
import json
import math
import random
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToJson
from made_up import SECOND, START, any_value
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from truth import PAYLOADS

from collector.assemble.collect_trace import CollectedTrace, TracePiece, collect_trace
from collector.assemble.identity import CONVERSATION_KEYS, USER_KEYS, IdentityLookup
from collector.dialects.dialect import Dialect
from collector.dialects.registry import Dialects
from collector.otlp.decode import read_outline, records_of, request_from_protobuf, spans_of, split_by_trace
from collector.otlp.span import Span
from evaluators.cases import Json

DEEP = 3000
SCOPES = (
    "", "evalstream", "openlit.x", "litellm", "logfire.openai_agents", "com.anthropic.claude_code", "gen_ai",
    "strands.telemetry.tracer", "gcp.vertex.agent", "opentelemetry.instrumentation.bedrock", "openlit.otel.tracing",
)  # fmt: skip
NAMES = (
    "chat m", "raw_gen_ai_request", "execute_tool (merged tools)", "haystack.agent.run", "Function: x", "Agent run: x",
    "Responses API with m", "Chat completion with m", "openai.chat.completions", "", "a\x00b",
    "call_llm", "claude_code.interaction", "claude_code.llm_request", "claude_code.tool", "Guardrail x",
)  # fmt: skip
OPERATIONS = (
    "chat", "execute_tool", "invoke_agent", "invoke_workflow", "retrieval", "rerank", "embeddings", "step", "LLM",
    "CHAIN", "AGENT", "TOOL", "RETRIEVER", "RERANKER", "llm", "tool", "retriever", "generation", "agent", "workflow",
    '"CHAT_MODEL"', '"RETRIEVER"', "ai.generateText", "ai.streamText.doStream", "ai.toolCall", "chat_client",
    "OpenAIChatGenerator", "InMemoryBM25Retriever", "true", "completion",
)  # fmt: skip
TEXTS = (
    "", " ", "\n", "null", "None", "[]", "{}", '""', "__REDACTED__", "[Scrubbed due to 'x']", "a" * 32, "0", "-1",
    "[" * DEEP, "{" * DEEP, '{"a":' * DEEP, "(" * DEEP, "[" * DEEP + "]" * DEEP, '{"content":' * 200 + "1" + "}" * 200,
    "[[[['x'" * 40, "{'a': " * DEEP, "f(" * DEEP, "-" * DEEP + "1", "[1e999, NaN, Infinity, -Infinity]",
    '["\\ud800"]', "{'a': '\\ud800'}", "[" + "9" * 5000 + "]", "['" + "\\" * 999, '"' + "\\" * 999,
    "User: hi\nassistant: ho\nuser: hi", "ChatMessage(role=<MessageRole.USER: 'user'>, blocks=[TextBlock(text='x')])",
    "Context: a\nQuestion: b\nAnswer:", "<context>a</context><question>b</question>", "\ufffd\u2028\x00\x85",
    "[{'role': 'user', 'content': {1, 2}}]", "{1: {2: 3}, (1, 2): 4, None: 5}", "[b'x', 1j, ..., f'{1}']", "lambda: 0",
    '{"role":"user","role":[]}', '{"messages":{"messages":{"messages":[]}}}', '{"type":["text"]}', "1e400", "<" * 4000,
    "ChatMessage(" * 500, "question:\n" * 300 + "context:\n" * 300,
)  # fmt: skip
SHAPE_KEYS = (
    "role", "content", "parts", "type", "text", "tool_calls", "function", "arguments", "name", "id", "lc", "kwargs",
    "messages", "choices", "candidates", "generations", "contents", "output", "replies", "message", "update", "input",
    "prompt", "data", "toolUse", "toolResult", "functionCall", "functionResponse", "finish_reason", "config", "system",
    "additional_kwargs", "meta", "documents", "document", "score", "result", "response", "origin", "thought", "value",
    "call_id", "tool_call_id", "usage", "usage_metadata", "model", "error_code", "question", "answer", "query",
    "server_tool_call", "event.name", "gen_ai.event.content", "instructions", "node", "_role", "_content", "_meta",
    "chat_history", "prompts", "items", "kind", "part_kind", "refusal", "audio", "transcript", "label", "preamble", "state",
    "action", "args", "tool_name", "source", "state", "results",
)  # fmt: skip


@cache
def requests() -> tuple[tuple[str, bytes], ...]:
    """The captured payloads: signal and bytes."""
    return tuple(
        ("logs" if "log" in path.name else "traces", path.read_bytes()) for path in sorted(PAYLOADS.rglob("*.pb"))
    )


@cache
def _seen() -> tuple[tuple[str, ...], tuple[Any, ...], tuple[str, ...]]:
    """The attribute names, values and event names of the captured payloads."""
    keys: dict[str, None] = {}
    values: dict[str, Any] = {}
    events: dict[str, None] = {}

    def keep(attributes: Any) -> None:
        for key, value in attributes.items():
            keys[key] = None
            if len(values) < 6000 and not (isinstance(value, str) and len(value) > 20_000):
                values.setdefault(repr(value), value)

    for signal, data in requests():
        if signal == "traces":
            for span in spans_of(read_outline(data, "traces")):
                keep(span.attributes)
                for event in span.events:
                    events[event.name] = None
                    keep(event.attributes)
        else:
            for record in records_of(read_outline(data, "logs")):
                keep({"body": record.body, **record.attributes})
    for dialect in DIALECTS.all:
        keys.update(dict.fromkeys(dialect.evidence))
        events.update(dict.fromkeys(sorted(dialect.events)))
    keys.update(dict.fromkeys((*CONVERSATION_KEYS, *USER_KEYS)))
    return tuple(keys), tuple(values.values()), (*events, *sorted(DIALECTS.records), "exception", "")


DIALECTS = Dialects.installed()


@cache
def captured_traces(dialect: str) -> tuple[CollectedTrace, ...]:
    """The captured traces in which a dialect reads something."""
    pieces: dict[str, list[TracePiece]] = {}
    for signal, data in requests():
        for trace_id, piece in split_by_trace(request_from_protobuf(data, signal), data).pieces:
            pieces.setdefault(trace_id, []).append(TracePiece(signal, piece))
    found = (collect_trace(each, DIALECTS, IdentityLookup(), _no_bad) for each in pieces.values())
    return tuple(each for each in found if each is not None and any(_reads(dialect, span) for span in each.spans))


def _no_bad(error: Exception) -> None:
    raise AssertionError(error)


def _reads(dialect: str, span: Span) -> bool:
    return any(call.dialect == dialect for call in DIALECTS.read_each(span, ()))


@cache
def names_of(dialect: Dialect) -> tuple[str, ...]:
    """Every name that the file of a dialect's reader speaks of, attributes among them, and its evidence."""
    tree = ast.parse(source_of(dialect).read_text())
    texts = (each.value for each in ast.walk(tree) if isinstance(each, ast.Constant))
    names = {text for text in texts if isinstance(text, str) and re.fullmatch(r"[A-Za-z_][\w.*-]*", text)}
    return tuple(sorted(names | set(dialect.evidence)))


def source_of(dialect: Dialect) -> Path:
    """The file of a dialect's reader, also where it is compiled: the source lies beside the extension module."""
    module = Path(sys.modules[dialect.read.__module__].__file__)
    return module.with_name(f"{module.name.partition('.')[0]}.py")


@cache
def typical(dialect: Dialect) -> Span:
    """The span of a dialect that holds most, out of the captured ones; without any, one with its evidence."""
    spans = (span for trace in captured_traces(dialect.name) for span in trace.spans if _reads(dialect.name, span))
    bare = Span("1" * 32, "2" * 16, None, "chat m", START, START + SECOND, scope=next(iter(dialect.scopes), ""))
    evidence = {name.replace("*", "x"): "x" for name in dialect.evidence}
    return max(spans, key=lambda span: len(span.attributes), default=bare._replace(attributes=evidence))


def wrong_values() -> tuple[Json, ...]:
    """Values that no library would write where a text, a number or messages are expected, as they come out of OTLP."""
    deep: Json = "end"
    for number in range(60):
        deep = [deep] if number % 2 else {"content": deep}
    return (
        None, True, 0, -1, 2**63 - 1, -0.5, "", " ", "null", "0", "[]", "{}", [], {}, [None], [[]], {"": None}, {"role": []},
        [{"role": {"content": 1}, "parts": 3, "content": [[None]], "tool_calls": {"function": []}}], deep,
        "[" * DEEP, '{"content":' * 99 + "1" + "}" * 99, "x" * 50_000, '[{"role":"user","content":"' + "x" * 50_000,
        "9" * 5000, '["\\ud800"]', "[{'role': 'user', 'content': {1, 2}}", "\x00\ufffd\u2028", '"' + "\\" * 999,
    )  # fmt: skip


class Hostile:
    """Makes values, spans and requests out of a seed."""

    def __init__(self, seed: int | str) -> None:
        self.dice = random.Random(seed)
        self.keys, self.values, self.events = _seen()

    def any_bytes(self) -> bytes:
        """Noise, or a captured payload with some bytes changed, as protobuf or as JSON."""
        dice = self.dice
        if dice.random() < 0.3:
            return dice.randbytes(dice.choice((0, 1, 2, 8, 60, 300)))
        signal, data = dice.choice(requests())
        if dice.random() < 0.5:
            data = _as_json(signal, data)
        return self._changed(data)

    def _changed(self, data: bytes) -> bytes:
        dice = self.dice
        start = dice.randrange(len(data))
        changed = bytearray(data[start : start + dice.choice((30, 300, 3000))] if dice.random() < 0.3 else data[:6000])
        for _ in range(dice.choice((0, 1, 1, 3))):
            at = dice.randrange(len(changed) + 1)
            match dice.randrange(4):
                case 0:
                    changed[at : at + 1] = dice.randbytes(1)
                case 1:
                    del changed[at : at + dice.choice((1, 5, 50))]
                case 2:
                    changed[at:at] = dice.choice((b"[" * DEEP, b'{"a":' * 300, b"null", b'"', b"\xff\xfe", b"9" * 400))
                case _:
                    del changed[at:]
        return bytes(changed)

    def text(self) -> str:
        """A text as attributes hold them, whole, cut, or spoilt."""
        dice = self.dice
        chance = dice.random()
        if chance < 0.25:
            return dice.choice(TEXTS)
        if chance < 0.5:
            return json.dumps(self.document(4))
        if chance < 0.6:
            return repr(self.document(4))
        value = dice.choice(self.values)
        text = value if isinstance(value, str) else json.dumps(value)
        if chance < 0.75 or not text:
            return text
        at = dice.randrange(len(text))
        match dice.randrange(4):
            case 0:
                return text[:at]
            case 1:
                return text[:at] + dice.choice(("\\", '"', "'", "[", "}", "\x00", "\\ud800", "null")) + text[at:]
            case 2:
                return text[:at] + text[at + dice.randrange(9) :]
            case _:
                return json.dumps(text)

    def document(self, depth: int) -> Any:
        """A JSON value whose keys are those that message shapes are known by, and whose values are not."""
        dice = self.dice
        chance = dice.random()
        if depth <= 0 or chance < 0.35:
            return dice.choice((None, True, 0, -1, 1.5, 2**70, "", "hi", "user", "assistant", "tool", "text", [], {}))
        if chance < 0.55:
            return [self.document(depth - 1) for _ in range(dice.randrange(4))]
        return {dice.choice(SHAPE_KEYS): self.document(depth - 1) for _ in range(dice.randrange(1, 5))}

    def value(self) -> Any:
        """A value for an attribute."""
        dice = self.dice
        chance = dice.random()
        if chance < 0.6:
            return self.text()
        if chance < 0.8:
            return dice.choice(OPERATIONS)
        if chance < 0.92:
            return _storable(self.document(4))
        return dice.choice((None, True, 2**63 - 1, -(2**63), math.nan, math.inf, -math.inf, b"\xff\x00", _deep(36)))

    def key(self) -> str:
        """The name of an attribute."""
        return self._whole(self.dice.choice(self.keys))

    def _whole(self, name: str) -> str:
        """The name of an attribute from one that may only be how it begins."""
        if name.endswith(("*", ".")):
            return name.removesuffix("*") + self.dice.choice(_TAILS)
        return name.removesuffix("{}")

    def attributes(self) -> dict[str, Any]:
        made = {self.key(): self.value() for _ in range(self.dice.randrange(1, 9))}
        if self.dice.random() < 0.5:
            made[self.dice.choice(_KINDS)] = self.dice.choice(OPERATIONS)
        return made

    def trace(self, dialect: Dialect) -> CollectedTrace:
        """A captured trace of a dialect, or one span of it, with other attributes than it should have."""
        dice = self.dice
        traces = captured_traces(dialect.name)
        if not traces or dice.random() < 0.6:
            return CollectedTrace((self._spoilt(typical(dialect), dialect),), ())
        trace = dice.choice(traces)
        spans = [self._spoilt(span, dialect) if dice.random() < 0.4 else span for span in trace.spans]
        return CollectedTrace(tuple(spans), () if dice.random() < 0.2 else trace.records)

    def _spoilt(self, span: Span, dialect: Dialect) -> Span:
        dice = self.dice
        attributes = dict(span.attributes)
        names = list(attributes)
        for _ in range(dice.choice((1, 1, 2, 5))):
            if names and dice.random() < 0.5:
                attributes[dice.choice(names)] = decodable(self.value())
            elif dice.random() < 0.8:
                attributes[self._whole(dice.choice(names_of(dialect)))] = decodable(self.value())
            else:
                attributes[self.key()] = decodable(self.value())
        if names and dice.random() < 0.3:  # a limit on attributes took some away
            for name in dice.sample(names, dice.randrange(len(names))):
                attributes.pop(name, None)
        return span._replace(
            attributes=attributes,
            name=dice.choice((span.name, span.name, *NAMES)),
            parent_span_id=dice.choice((span.parent_span_id, span.parent_span_id, None, span.span_id)),
            failed=dice.random() < 0.1,
            start=dice.choice((span.start, span.start, 0, 2**64 - 1)),
            dropped_attributes=dice.choice((0, 0, 1, 2**32 - 1)),
            evidence=0,
        )

    def pieces(self) -> list[TracePiece]:
        """The pieces of a trace: a few spans in one request each, and log records."""
        dice = self.dice
        pieces = [TracePiece("traces", self._traces()) for _ in range(dice.choice((1, 1, 1, 2)))]
        if dice.random() < 0.4:
            pieces.append(TracePiece("logs", self._logs()))
        return pieces

    def _traces(self) -> bytes:
        dice = self.dice
        request = ExportTraceServiceRequest()
        for _ in range(dice.choice((1, 1, 2, 3))):
            resource = request.resource_spans.add()
            if dice.random() < 0.1:
                self._put(resource.resource.attributes)
            scope = resource.scope_spans.add()
            scope.scope.name = dice.choice(SCOPES)
            span = scope.spans.add(name=dice.choice(NAMES), trace_id=b"\1" * 16)
            span.span_id, span.parent_span_id = self._id(), self._id()
            span.start_time_unix_nano, span.end_time_unix_nano = self._time(), self._time()
            span.status.code = dice.choice((0, 0, 1, 2))
            span.dropped_attributes_count = dice.choice((0, 0, 0, 2**32 - 1))
            self._put(span.attributes)
            for _ in range(dice.choice((0, 0, 0, 1, 2))):
                self._put(span.events.add(name=dice.choice(self.events)).attributes)
        return request.SerializeToString()

    def _logs(self) -> bytes:
        dice = self.dice
        request = ExportLogsServiceRequest()
        scope = request.resource_logs.add().scope_logs.add()
        scope.scope.name = dice.choice(SCOPES)
        for _ in range(dice.choice((1, 2, 3))):
            record = scope.log_records.add(trace_id=b"\1" * 16, span_id=self._id(), time_unix_nano=self._time())
            record.event_name = dice.choice(self.events)
            record.body.CopyFrom(any_value(self.value()))
            self._put(record.attributes)
        return request.SerializeToString()

    def _put(self, target: Any) -> None:
        for key, value in self.attributes().items():
            target.add(key=key, value=any_value(value))

    def _id(self) -> bytes:
        return self.dice.choice((b"", b"\1" * 8, b"\2" * 8, b"\3" * 8, b"\4", b"\0" * 8))

    def _time(self) -> int:
        return self.dice.choice((0, 1, START, START + SECOND, START + 2 * SECOND, 2**63, 2**64 - 1))


_TAILS = (
    "x", "", ".0", "0.role", "0.content", "0.message.content", "3.message.role", "1.message.tool_calls.7.tool_call.function.name",
    "0.tool_calls.5.name", "2.message.contents.9.message_content.text", "999999999999.x", "999999999.role", "-1.role",
    "0.0.0", "sessionId", "session_id", "documents.3.document.content",
)  # fmt: skip
_KINDS = (
    "gen_ai.operation.name", "openinference.span.kind", "traceloop.span.kind", "langsmith.span.kind", "ai.operationId",
    "mlflow.spanType", "langfuse.observation.type", "llm.request.type", "haystack.component.type", "spring.ai.kind",
)  # fmt: skip


@cache
def _as_json(signal: str, data: bytes) -> bytes:
    kind: Callable[[], Any] = ExportLogsServiceRequest if signal == "logs" else ExportTraceServiceRequest
    return MessageToJson(type(kind()).FromString(data), indent=None).encode()


def decodable(value: Any) -> Json:
    """The value as it comes out of an attribute: no bytes, no numbers that JSON does not have."""
    if isinstance(value, list):
        return [decodable(each) for each in value]
    if isinstance(value, dict):
        return {key: decodable(each) for key, each in value.items()}
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value.hex() if isinstance(value, bytes) else value


def _storable(value: Any) -> Any:
    """The value with numbers that an attribute can hold."""
    if isinstance(value, list):
        return [_storable(each) for each in value]
    if isinstance(value, dict):
        return {key: _storable(each) for key, each in value.items()}
    return value if not isinstance(value, int) or value < 2**63 else 2**62


def _deep(depth: int) -> Any:
    value: Any = "end"
    for number in range(depth):
        value = [value] if number % 2 else {"content": value}
    return value
