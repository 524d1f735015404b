"""Other providers' APIs on the stand-in server: their requests as a chat's, and a chat's answer as theirs.

Each is a pair of pure functions, so that the server has one place that decides what is answered.
"""

from __future__ import annotations

import binascii
import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from scenario import TOOL_CALL, USAGE

Json = Any
_MODEL = "gemini-2.5-flash"


@dataclass(frozen=True)
class OtherApi:
    """A provider's API: how its path ends, its request as a chat's, its answer, and its stream with the content type."""

    ending: str
    is_stream: bool
    as_chat: Callable[[Json], Json]
    answer: Callable[[Json, Json], bytes]
    content_type: str


def find_api(path: str) -> OtherApi | None:
    """The API that a path belongs to."""
    return next((each for each in _APIS if path.endswith(each.ending)), None)


def _gemini_as_chat(request: Json) -> Json:
    messages: list[Json] = []
    system = request.get("systemInstruction") or request.get("system_instruction")
    if system:
        messages.append({"role": "system", "content": _gemini_text(system)})
    for content in request["contents"]:
        role = "assistant" if content.get("role") == "model" else "user"
        for part in content["parts"]:
            if "functionResponse" in part:
                response = json.dumps(part["functionResponse"]["response"])
                messages.append({"role": "tool", "content": response, "tool_call_id": TOOL_CALL["id"]})
            elif "functionCall" in part:
                call = part["functionCall"]
                function = {"name": call["name"], "arguments": json.dumps(call["args"])}
                messages.append({"role": "assistant", "content": "", "tool_calls": [{"function": function}]})
        text = _gemini_text(content)
        if text:
            messages.append({"role": role, "content": text})
    declared = [each for tool in request.get("tools") or () for each in tool.get("functionDeclarations", ())]
    return {"messages": messages, "tools": [{"function": each} for each in declared]}


def _gemini_text(content: Json) -> str:
    return "".join(part.get("text", "") for part in content["parts"])


def _gemini_chunk(part: Json, *, last: bool = True) -> Json:
    usage = {"promptTokenCount": USAGE[0], "candidatesTokenCount": USAGE[1], "totalTokenCount": sum(USAGE)}
    candidate = {
        "content": {"role": "model", "parts": [part]},
        "index": 0,
        **({"finishReason": "STOP"} if last else {}),
    }
    return {"candidates": [candidate], "modelVersion": _MODEL, "responseId": "resp-drift", "usageMetadata": usage}


def _gemini_part(reply: Json) -> Json:
    if isinstance(reply, str):
        return {"text": reply}
    return {"functionCall": {"name": reply[0]["name"], "args": json.loads(reply[0]["arguments"])}}


def _gemini_answer(reply: Json, _whole: Json) -> bytes:
    return json.dumps(_gemini_chunk(_gemini_part(reply))).encode()


def _gemini_stream(reply: Json, _whole: Json) -> bytes:
    if isinstance(reply, str):
        middle = len(reply) // 2
        chunks = [_gemini_chunk({"text": reply[:middle]}, last=False), _gemini_chunk({"text": reply[middle:]})]
    else:
        chunks = [_gemini_chunk(_gemini_part(reply))]
    return b"".join(b"data: " + json.dumps(each).encode() + b"\r\n\r\n" for each in chunks)


def _same(request: Json) -> Json:
    return request


def _sagemaker_answer(_reply: Json, whole: Json) -> bytes:
    return json.dumps(whole).encode()


def _sagemaker_stream(reply: Json, _whole: Json) -> bytes:
    middle = len(reply) // 2
    parts = [{"choices": [{"index": 0, "delta": {"content": each}}]} for each in (reply[:middle], reply[middle:])]
    return b"".join(_event_message("PayloadPart", json.dumps(each).encode() + b"\n") for each in parts)


def _event_message(name: str, payload: bytes) -> bytes:
    """A message of AWS's event streams: lengths, checksum, headers, payload, checksum."""
    pairs = ((":message-type", "event"), (":event-type", name), (":content-type", "application/octet-stream"))
    headers = b"".join(
        bytes([len(key)]) + key.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()
        for key, value in pairs
    )
    prelude = struct.pack(">II", len(headers) + len(payload) + 16, len(headers))
    prelude += struct.pack(">I", binascii.crc32(prelude))
    message = prelude + headers + payload
    return message + struct.pack(">I", binascii.crc32(message))


_APIS = (
    OtherApi(":generateContent", False, _gemini_as_chat, _gemini_answer, "application/json"),
    OtherApi(":streamGenerateContent", True, _gemini_as_chat, _gemini_stream, "text/event-stream"),
    OtherApi("/invocations", False, _same, _sagemaker_answer, "application/json"),
    OtherApi("/invocations-response-stream", True, _same, _sagemaker_stream, "application/vnd.amazon.eventstream"),
)
