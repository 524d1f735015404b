"""What of pictures and the like reaches a log: nothing beyond a bound, and nothing else is touched."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import time

import pytest
from made_up import Trace, chat

from collector.otlp.decode import request_from_protobuf
from collector.otlp.inline_media import LEAST, may_hold_media, omit_from_json, omit_from_request, parse_content

PNG = b"\x89PNG\r\n\x1a\n" + random.Random(7).randbytes(6000)
TEXT = base64.b64encode(PNG).decode()
MARK = f"omitted-sha256-{hashlib.sha256(PNG).hexdigest()}-{len(PNG)}"


def in_message(content: str) -> str:
    return json.dumps([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": content}}]}])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"data:image/png;base64,{TEXT}", f"data:image/png;base64,{MARK}"),
        (f'{{"inline_data": {{"mime_type": "image/png", "data": "{TEXT}"}}}}', f'"data": "{MARK}"'),
        (f"{{'source': {{'type': 'base64', 'data': '{TEXT}'}}}}", f"'data': '{MARK}'"),
        (f'{{"type": "blob", "content": "{TEXT}"}}', f'"content": "{MARK}"'),  # by its first bytes
        (json.dumps(json.dumps({"data": TEXT})), f'\\"data\\": \\"{MARK}\\"'),
        (json.dumps({"data": "\n".join(TEXT[at : at + 76] for at in range(0, len(TEXT), 76))}), f'"data": "{MARK}"'),
        (json.dumps({"data": TEXT}).replace("/", "\\/"), f'"data": "{MARK}"'),
        (TEXT, MARK),
    ],
    ids=["data url", "gemini", "python repr", "blob", "json in json", "broken lines", "escaped slashes", "bare"],
)
@pytest.mark.parametrize("before", ["", "words before it, " * 150], ids=["first", "later"])
def test_content_beyond_the_bound_becomes_hash_and_size(text: str, expected: str, before: str) -> None:
    body, count = omit_from_json((before + text).encode(), 0)
    assert count == 1
    assert expected in body.decode()
    assert TEXT[:40] not in body.decode()
    assert omit_from_json((before + text).encode(), len(PNG)) == ((before + text).encode(), 0)


@pytest.mark.parametrize(
    "text",
    [
        "ACGT" * 3000,
        "a" * 10_000,
        "\n".join(["word"] * 3000),
        json.dumps({"content": "ACGT" * 3000}),
        json.dumps({"token": "x" * 5000}),
        "deadbeef" * 1000,
        f"data:image/png;base64,{TEXT[: LEAST - 600]}",
        "",
    ],
    ids=["genes", "letters", "lines", "message", "secret", "hex", "icon", "nothing"],
)
def test_what_is_no_content_stays(text: str) -> None:
    assert omit_from_json(text.encode(), 0) == (text.encode(), 0)


def test_what_an_omission_says_is_read_like_the_content() -> None:
    content, omitted = parse_content(TEXT), parse_content(MARK)
    assert content is not None
    assert omitted is not None
    assert (omitted.size, omitted.sha256, omitted.data) == (content.size, content.sha256, None)
    assert parse_content("__REDACTED__") is None
    assert parse_content("no base64, these are words") is None


def test_a_request_in_protobuf() -> None:
    trace = Trace().span(
        1, "chat", chat("Hello", "Hi", **{"gen_ai.input.messages": in_message(f"data:image/png;base64,{TEXT}")})
    )
    body = trace.spans.SerializeToString()
    request = request_from_protobuf(body, "traces")
    assert omit_from_request(request, body, 0) == 1
    stored = request.SerializeToString()
    assert MARK.encode() in stored
    assert len(stored) < 1500
    assert omit_from_request(request_from_protobuf(body, "traces"), body, len(PNG)) == 0


def test_bytes_in_a_log_record() -> None:
    trace = Trace().span(1, "chat", chat("Hello", "Hi"))
    trace.record(1, "gen_ai.client.inference.operation.details", None, {"gen_ai.input.messages": [{"content": PNG}]})
    body = trace.logs.SerializeToString()
    request = request_from_protobuf(body, "logs")
    assert omit_from_request(request, body, 0) == 1
    assert MARK.encode() in request.SerializeToString()


@pytest.mark.parametrize(
    "unit", [b"a", b"a/", b"\\n", b"ab ", TEXT.encode()[:1100] + b" ", b'"data": "' + b"A" * 2100 + b'" '],
    ids=["letters", "slashes", "escapes", "words", "just too short", "many"],
)  # fmt: skip
def test_it_takes_time_that_grows_with_the_text(unit: bytes) -> None:
    def seconds(size: int) -> float:
        text = unit * (size // len(unit))
        started = time.process_time()
        omit_from_json(text, 0)
        return time.process_time() - started

    small = min(seconds(250_000) for _ in range(3))
    large = min(seconds(1_000_000) for _ in range(3))
    assert large < 12 * small + 0.05


def test_a_request_of_words_is_hardly_looked_at() -> None:
    body = b"The quick brown fox jumps over the lazy dog. " * 100_000
    started = time.process_time()
    assert not may_hold_media(body)
    assert time.process_time() - started < 0.1  # 4.5 MB; 1 ms a megabyte
