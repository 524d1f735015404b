"""A chat completions endpoint on loopback, with as little work as possible: for the judge's path and its peers.

Answers after `latency` seconds with a reason of about fifty tokens and the score 8. Where logprobs are asked for, each
token comes with as many alternatives as are asked for; where tools are offered, the first is called, its arguments made
from its schema.
Bodies are kept by what was asked, so that the server is no bottleneck. Standard library only.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import re
from collections.abc import Iterator
from contextlib import contextmanager

REASON = "The answer says what was asked, names the period and the condition, and adds nothing that is wrong. " * 2
_SCHEMA_TEXT = {
    "answer_key": "no_key_0",
    "reason": REASON.strip(),
    "explanation": REASON.strip(),
    "score": 8,
    "pass": True,
    "steps": ["Look."],
}


def filled(schema, root=None):
    """A value that a JSON Schema allows."""
    root = root or schema
    if "$ref" in schema:
        return filled(root["$defs"][schema["$ref"].rpartition("/")[2]], root)
    if "enum" in schema:
        return schema["enum"][0]
    if "anyOf" in schema:
        return filled(schema["anyOf"][0], root)
    if "properties" in schema:
        return {
            name: _SCHEMA_TEXT.get(name, filled(each, root))
            if not (name == "score" and "enum" in each)
            else filled(each, root)
            for name, each in schema["properties"].items()
        }
    return {"number": 0.8, "integer": 8, "boolean": True, "array": [], "null": None}.get(
        schema.get("type"), REASON.strip()
    )


def body_of(request):
    message = {"role": "assistant", "content": None, "refusal": None}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    schema = (request.get("response_format") or {}).get("json_schema", {}).get("schema")
    if request.get("tools"):
        function = request["tools"][0]["function"]
        call = {"name": function["name"], "arguments": json.dumps(filled(function["parameters"]))}
        message["tool_calls"] = [{"id": "call_1", "type": "function", "function": call}]
        choice["finish_reason"] = "tool_calls"
    else:
        answer = filled(schema) if schema else {"reason": REASON.strip(), "score": 8}
        for entry in (answer, *answer.values()) if isinstance(answer, dict) else ():
            if isinstance(entry, dict) and isinstance(entry.get("score"), float | int):
                entry["score"] = 8
        message["content"] = json.dumps(answer)
        pieces = re.findall(r" ?\w+|\W", message["content"])
        if request.get("logprobs"):
            choice["logprobs"] = {
                "content": [_token(piece, request.get("top_logprobs", 0)) for piece in pieces],
                "refusal": None,
            }
    usage = {"prompt_tokens": 700, "completion_tokens": 50, "total_tokens": 750}
    made = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "system_fingerprint": "f"}
    return json.dumps({**made, "choices": [choice], "usage": usage}).encode()


def _token(piece, most):
    others = [str(n) for n in range(11)] if piece.strip().isdigit() else [f"word{n}" for n in range(19)]
    top = [{"token": piece, "logprob": -0.5, "bytes": list(piece.encode())}]
    top += [
        {"token": each, "logprob": -4.0 - n, "bytes": list(each.encode())}
        for n, each in enumerate(others)
        if each != piece
    ]
    return {"token": piece, "logprob": -0.5, "bytes": list(piece.encode()), "top_logprobs": top[:most]}


def _kind(body):
    """What the answer depends on, without parsing: parsing each request would make the server the bottleneck."""
    packed = body.count(_PACKED)
    most = _MOST.search(body)
    return most and most[1], b'"tools"' in body, b'"json_schema"' in body, packed


_MOST = re.compile(rb'"top_logprobs": ?(\d+)')
_PACKED = b'{\\"answer_key\\": \\"'
_KEY = re.compile(rb'answer_key\\": \\"([0-9a-f]{8})')
_PACKED_KEY = re.compile(rb'\{\\"answer_key\\": \\"([0-9a-f]{8})')
_KEY_PLACE = b"no_key_0"  # as long as a key, so that the body's length stays, and one token


def _with_key(body, answer):
    """The answer to a question that ends in a key carries it; that to a pack the keys of all its questions.

    So do the tokens that spell it, each of which has its text twice: as what was written, and among the alternatives.
    """
    if _PACKED in body:
        *parts, last = answer.split(_KEY_PLACE)
        keys = [match[1] for match in _PACKED_KEY.finditer(body)]
        places = keys + [key for key in keys for _ in range(2)]
        return b"".join(part + key for part, key in zip(parts, places, strict=False)) + last
    at = body.rfind(b"answer_key\\")
    found = _KEY.match(body, at) if at >= 0 else None
    return answer.replace(_KEY_PLACE, found[1]) if found else answer


async def _serve(pipe, latency):
    known = {}

    async def handle(reader, writer):
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                if b"transfer-encoding: chunked" in head:
                    raise AssertionError("no peer sends chunks")
                length = re.search(rb"content-length: (\d+)", head)
                body = await reader.readexactly(int(length[1])) if length else b""
                kind = _kind(body)
                if kind not in known:
                    answer = body_of(json.loads(body or b"{}"))
                    start = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(
                        answer
                    )
                    known[kind] = start + answer
                await asyncio.sleep(latency)
                writer.write(_with_key(body, known[kind]))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, limit=2**22)
    pipe.send(server.sockets[0].getsockname()[1])
    await server.serve_forever()


def _run(pipe, latency):
    import uvloop

    uvloop.run(_serve(pipe, latency))


@contextmanager
def serving(latency: float) -> Iterator[str]:
    """Serve from a process of its own; gives the base URL."""
    context = multiprocessing.get_context("spawn")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(sending, latency), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{receiving.recv()}/v1"
    finally:
        process.terminate()
        process.join()
