"""A model server with fixed answers and a place to send OTLP to, on one free port: real libraries are run against it.

What passes through here is the truth that a captured payload is compared with: the requests of a model's API as they
were on the wire, and the bodies of OTLP requests in order of arrival.
"""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from other_apis import OtherApi, find_api
from scenario import ANSWERS, FAILING, QUESTIONS, REFUSED_ONCE, TOOL_CALL, TOOL_CALLS, USAGE, text_of, user_text

Json = Any
_MODEL = "gpt-4o-mini-2024-07-18"


@dataclass(frozen=True)
class WireCall:
    """A request of a model's API: when it came (ns since the epoch), its body, and whether it failed.

    `form` is the JSON that was answered where the request asked for a form.
    """

    time: int
    body: Json
    failed: bool
    form: str | None = None


@dataclass
class Recording:
    """What came: model calls, and OTLP bodies by signal, in order of arrival."""

    port: int
    calls: list[WireCall] = field(default_factory=list)
    exports: list[tuple[str, bytes]] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


@contextmanager
def stand_in() -> Iterator[Recording]:
    """A running server; stopped on leaving."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.recording = Recording(server.server_address[1])  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.recording  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self._read_body()
        recording: Recording = self.server.recording  # type: ignore[attr-defined]
        path = self.path.partition("?")[0]
        if path.endswith(("/v1/traces", "/v1/logs", "/v1/metrics", "/otel")):
            signal = "logs" if path.endswith("/logs") else "traces"
            if not path.endswith("/metrics"):
                recording.exports.append((signal, body))
            self._reply(200, b"", "application/x-protobuf")
        elif path.endswith(("/chat/completions", "/responses")):
            self._answer(recording, json.loads(body), is_chat=path.endswith("/chat/completions"))
        elif (api := find_api(path)) is not None:
            self._answer_other(recording, json.loads(body), api)
        else:
            recording.unknown.append(f"POST {self.path}")
            self._reply(200, b"{}")

    def do_GET(self) -> None:
        self.server.recording.unknown.append(f"GET {self.path}")  # type: ignore[attr-defined]
        self._reply(200, b"{}")

    do_PATCH = do_PUT = do_POST

    def _read_body(self) -> bytes:
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            chunks: list[bytes] = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                chunks.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            body = b"".join(chunks)
        else:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
        return gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body

    def _answer(self, recording: Recording, request: Json, *, is_chat: bool) -> None:
        messages = request.get("messages") if is_chat else request.get("input")
        messages = [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
        asked = user_text(messages)
        refused = REFUSED_ONCE in asked and not any(REFUSED_ONCE in json.dumps(call.body) for call in recording.calls)
        failed = FAILING in asked or refused
        reply = _choose(messages, request)
        recording.calls.append(WireCall(time.time_ns(), request, failed, _form_of(reply)))
        if failed:
            self._fail(503 if refused else 500)
            return
        number = len(recording.calls)
        make = _chat_reply if is_chat else _responses_reply
        stream = _chat_stream if is_chat else _responses_stream
        if request.get("stream"):
            self._reply(200, stream(reply, number, request), "text/event-stream")
        else:
            self._reply(200, json.dumps(make(reply, number, request)).encode())

    def _answer_other(self, recording: Recording, raw: Json, api: OtherApi) -> None:
        request = {**api.as_chat(raw), **({"stream": True} if api.is_stream else {})}
        failed = FAILING in user_text(request["messages"])
        recording.calls.append(WireCall(time.time_ns(), request, failed))
        if failed:
            self._fail()
            return
        reply = _choose(request["messages"], request)
        whole = _chat_reply(reply, len(recording.calls), request)
        self._reply(200, api.answer(reply, whole), api.content_type)

    def _fail(self, status: int = 500) -> None:
        error = {"error": {"message": "upstream model crashed (fixed failure)", "type": "server_error"}}
        self._reply(status, json.dumps(error).encode())

    def _reply(self, status: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args: object) -> None:
        """Say nothing."""


def _choose(messages: Json, request: Json) -> Json:
    """The answer: a text, or the calls of a tool that is offered and has no result yet."""
    last = messages[-1]
    has_result = last.get("role") == "tool" or last.get("type") == "function_call_output"
    text = next((answer for words, answer in ANSWERS if words in user_text(messages)), "Please ask about kayaks.")
    tools = [each.get("function", each).get("name") for each in request.get("tools") or ()]
    step = next((step for step, question in QUESTIONS.items() if question in user_text(messages)), "")
    if step in TOOL_CALLS and not has_result and TOOL_CALL["name"] in tools:
        return [{**call, "arguments": json.dumps(call["arguments"])} for call in TOOL_CALLS[step]]
    structured = [name for name in tools if name != TOOL_CALL["name"]]
    if structured and request.get("tool_choice") not in (None, "auto", "none"):
        fields = {"answer": text}
        return [{"id": TOOL_CALL["id"], "name": structured[0], "arguments": json.dumps(fields)}]
    if (request.get("response_format") or {}).get("type") in {"json_object", "json_schema"}:
        return json.dumps({"answer": text})
    return text


def _form_of(reply: Json) -> str | None:
    """The JSON of an answer that fills a form, by a tool or as text."""
    if isinstance(reply, list):
        return None if reply[0]["name"] == TOOL_CALL["name"] else reply[0]["arguments"]
    return reply if reply.startswith("{") else None


def _usage(*, is_chat: bool) -> Json:
    names = ("prompt_tokens", "completion_tokens") if is_chat else ("input_tokens", "output_tokens")
    return {**dict(zip(names, USAGE, strict=True)), "total_tokens": sum(USAGE)}


def _call_of(call: Json) -> Json:
    return {
        "id": call["id"],
        "type": "function",
        "function": {"name": call["name"], "arguments": call["arguments"]},
    }


def _chat_reply(reply: Json, number: int, _request: Json) -> Json:
    is_tool = isinstance(reply, list)
    message = {
        "role": "assistant",
        "content": None if is_tool else reply,
        **({"tool_calls": [_call_of(call) for call in reply]} if is_tool else {}),
    }
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if is_tool else "stop"}
    return {
        "id": f"chatcmpl-drift-{number}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": _MODEL,
        "choices": [choice],
        "usage": _usage(is_chat=True),
    }


def _chat_stream(reply: Json, number: int, _request: Json) -> bytes:
    base = {
        "id": f"chatcmpl-drift-{number}",
        "object": "chat.completion.chunk",
        "created": int(time.time()),
        "model": _MODEL,
    }
    if isinstance(reply, list):
        calls = [{"index": index, **_call_of(call)} for index, call in enumerate(reply)]
        deltas: list[Json] = [{"role": "assistant", "tool_calls": [call]} for call in calls]
    else:
        middle = len(reply) // 2
        deltas = [{"role": "assistant", "content": reply[:middle]}, {"content": reply[middle:]}]
    chunks = [{**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    finish = "tool_calls" if isinstance(reply, list) else "stop"
    chunks.append({**base, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    chunks.append({**base, "choices": [], "usage": _usage(is_chat=True)})
    return b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in chunks) + b"data: [DONE]\n\n"


def _responses_reply(reply: Json, number: int, request: Json) -> Json:
    if isinstance(reply, list):
        output: Json = [
            {
                "type": "function_call",
                "id": f"fc_{number}_{index}",
                "call_id": call["id"],
                "status": "completed",
                "name": call["name"],
                "arguments": call["arguments"],
            }
            for index, call in enumerate(reply)
        ]
    else:
        part = {"type": "output_text", "text": reply, "annotations": []}
        item = {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed", "content": [part]}
        output = [item]
    usage = {
        **_usage(is_chat=False),
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    return {
        "id": f"resp_drift_{number}", "object": "response", "created_at": int(time.time()), "status": "completed", "error": None,
        "incomplete_details": None, "instructions": request.get("instructions"), "model": _MODEL, "output": output, "parallel_tool_calls": True, "tool_choice": "auto",
        "tools": request.get("tools", []), "temperature": 1.0, "top_p": 1.0, "metadata": {}, "usage": usage,
    }  # fmt: skip


def _responses_stream(reply: Json, number: int, request: Json) -> bytes:
    whole = _responses_reply(reply, number, request)
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    events: list[Json] = [{"type": "response.created", "response": begun}]
    for index, item in enumerate(whole["output"]):
        started = {**item, "status": "in_progress", **({"content": []} if "content" in item else {})}
        events.append({"type": "response.output_item.added", "output_index": index, "item": started})
        if isinstance(reply, str):
            place = {"item_id": item["id"], "output_index": index, "content_index": 0}
            part = {"type": "output_text", "text": "", "annotations": []}
            events += [
                {"type": "response.content_part.added", **place, "part": part},
                {"type": "response.output_text.delta", **place, "delta": reply, "logprobs": []},
                {"type": "response.output_text.done", **place, "text": reply, "logprobs": []},
                {"type": "response.content_part.done", **place, "part": item["content"][0]},
            ]
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    events.append({"type": "response.completed", "response": whole})
    lines = (
        f"event: {each['type']}\ndata: {json.dumps({**each, 'sequence_number': index})}\n\n"
        for index, each in enumerate(events)
    )
    return "".join(lines).encode()


__all__ = ["Recording", "WireCall", "stand_in", "text_of"]
