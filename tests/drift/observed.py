"""The truth of a capture: what the model server saw, matched with spans by time. Nothing here reads a dialect."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from scenario import (
    ANSWERS,
    CONVERSATION,
    CONVERSATIONS,
    DOCUMENTS,
    QUESTIONS,
    TOOL_CALLS,
    USAGE,
    USER,
    text_of,
    user_text,
)
from stand_in import Recording, WireCall

Json = Any


@dataclass(frozen=True)
class RawSpan:
    """A span's place, time, and all of its text."""

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    start: int
    end: int
    text: str


def truth(name: str, versions: Mapping[str, str], recording: Recording) -> Json:
    """What the turns of a capture must come to: the content of `expected.json`."""
    spans = _spans(recording)
    calls = [_call(each, spans) for each in recording.calls]
    steps = [step for step in QUESTIONS if any(call["exchange"] == step for call in calls)]
    return {
        "dialect": name,
        "libraries": dict(versions),
        "counts": {"spans": len(spans), "llm_calls_on_wire": len(calls)},
        "llm_spans": calls,
        "exchanges": [_exchange(step, [each for each in calls if each["exchange"] == step], spans) for step in steps],
        "other_spans": _documents(spans),
    }


def _spans(recording: Recording) -> list[RawSpan]:
    texts = _log_texts(recording)
    spans: list[RawSpan] = []
    for signal, body in recording.exports:
        if signal != "traces":
            continue
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            for span in (each for scope in resource.scope_spans for each in scope.spans):
                text = _text([*span.attributes, *(pair for event in span.events for pair in event.attributes)])
                spans.append(
                    RawSpan(
                        span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex(), span.name,
                        span.start_time_unix_nano, span.end_time_unix_nano, text + texts.get(span.span_id.hex(), ""),
                    )
                )  # fmt: skip
    return spans


def _log_texts(recording: Recording) -> dict[str, str]:
    texts: dict[str, str] = {}
    for signal, body in recording.exports:
        if signal == "logs":
            for resource in ExportLogsServiceRequest.FromString(body).resource_logs:
                for record in (each for scope in resource.scope_logs for each in scope.log_records):
                    texts[record.span_id.hex()] = texts.get(record.span_id.hex(), "") + _plain(str(record))
    return texts


def _text(pairs: Iterable[Any]) -> str:
    """Keys and values as they are, without JSON's escapes where they are JSON in JSON."""
    return _plain("\n".join(f"{pair.key}={pair.value.string_value or pair.value}" for pair in pairs))


def _plain(text: str) -> str:
    for _ in range(3):
        text = text.replace('\\"', '"').replace("\\n", "\n").replace("\\\\", "\\")
    return text


def _call(wire: WireCall, spans: Sequence[RawSpan]) -> Json:
    raw = wire.body.get("messages") or wire.body.get("input")
    raw = [{"role": "user", "content": raw}] if isinstance(raw, str) else raw
    step = _step_of(user_text(raw))
    around = sorted(
        (each for each in spans if each.start <= wire.time <= each.end), key=lambda each: each.end - each.start
    )
    asking = {each.trace_id for each in spans if QUESTIONS[step] in each.text}  # HTTP's own spans may be in another
    around = [each for each in around if each.trace_id in asking] or around
    around = [each for each in around if each.trace_id == around[0].trace_id]
    own = around[0] if around else None
    in_trace = [each for each in spans if own and each.trace_id == own.trace_id]
    messages, system = _canonical(raw, wire.body.get("instructions"))
    has_result = raw[-1].get("role") == "tool" or raw[-1].get("type") == "function_call_output"
    is_tool = step in TOOL_CALLS and not has_result
    answer = "" if is_tool or wire.failed else wire.form or _answer(step)
    absent = _absent(messages, answer, own, in_trace)
    conversation = CONVERSATIONS.get(step, CONVERSATION)
    return {
        "step": step, "exchange": step, "span_id": own.span_id if own else None, "trace_id": own.trace_id if own else None,
        "span_name": own.name if own else None, "streaming": bool(wire.body.get("stream")), "system_prompt": system,
        "input_messages": messages, "output_messages": [] if wire.failed else [{"role": "assistant", "content": answer}],
        "usage": None if wire.failed else {"input_tokens": USAGE[0], "output_tokens": USAGE[1]},
        "error": {"http_status": 503 if step == "retry" else 500} if wire.failed else None, "conversation_id": conversation, "user_id": USER,
        "found_in_payload": absent or "all on this span or its log records",
        "conversation_id_at": [each.name for each in around if conversation in each.text],
        "user_id_in_payload": any(USER in each.text for each in around),
        "ancestor_span_ids": [each.span_id for each in around[1:]],
    }  # fmt: skip


def _absent(messages: Sequence[Json], answer: str, own: RawSpan | None, others: Sequence[RawSpan]) -> dict[str, str]:
    """Which of the texts are not on the call's own span, and whether another span of its trace has them."""
    wanted = {f"input_messages[{index}].content": each["content"] for index, each in enumerate(messages)}
    wanted["output_messages[0].content"] = answer
    places: dict[str, str] = {}
    for key, text in wanted.items():
        if text and not (own and _contains(own.text, text)):
            places[key] = "trace" if any(_contains(each.text, text) for each in others) else "absent"
    return places


def _contains(haystack: str, text: str) -> bool:
    """Whether a text is there, also in the two pieces in which the stand-in streams it."""
    middle = len(text) // 2
    pieces = (text[:middle], text[middle:])
    return any(all(each in haystack for each in form) for form in ((text,), (text.replace('\\"', '"'),), pieces))


def _canonical(raw: Sequence[Json], instructions: str | None) -> tuple[list[Json], str | None]:
    system, messages = instructions, []
    for each in raw:
        role, kind = each.get("role"), each.get("type")
        if role in {"system", "developer"}:
            system = text_of(each["content"])
        elif kind == "function_call_output" or role == "tool":
            messages.append({"role": "tool", "content": text_of(each.get("output", each.get("content")))})
        elif kind == "function_call":
            messages.append({"role": "assistant", "content": ""})
        elif role:
            messages.append({"role": role, "content": text_of(each.get("content"))})
    return messages, system


def _step_of(text: str) -> str:
    return next((step for step, question in QUESTIONS.items() if question in text), "turn1")


def _answer(step: str) -> str:
    return next((answer for words, answer in ANSWERS if words in QUESTIONS[step]), "")


def _exchange(step: str, calls: Sequence[Json], spans: Sequence[RawSpan]) -> Json:
    last, failed = calls[-1], step == "fail"
    answer = last["output_messages"][0]["content"] if last["output_messages"] else ""
    return {
        "exchange": step, "conversation_id": last["conversation_id"], "user": QUESTIONS[step], "failed": failed,
        "trace_ids": sorted({each["trace_id"] for each in calls if each["trace_id"]}),
        "assistant": None if failed else answer,
        "retrieval_context": [dict(each) for each in DOCUMENTS] if step == "rag" else [],
        "tool_calls": [
            {key: call[key] for key in ("id", "name", "arguments", "result")} for call in TOOL_CALLS.get(step, ())
        ],
        "llm_span_ids": [each["span_id"] for each in calls], "final_llm_span_id": last["span_id"],
        "other_spans_carrying_the_answer": sorted(
            each.span_id for each in spans if not failed and answer in each.text and each.span_id != last["span_id"]
        ),
    }  # fmt: skip


def _documents(spans: Sequence[RawSpan]) -> list[Json]:
    """The spans that carry retrieved documents beside the prompt."""
    return [
        {"span_id": each.span_id, "attribute_keys": ["documents"]} for each in spans if "retriev" in each.name.lower()
    ]


def as_json(value: Json) -> str:
    """As a payload's truth is written."""
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"
