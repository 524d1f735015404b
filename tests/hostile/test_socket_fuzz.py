"""Fuzzers over real sockets: whatever a sender or a judge says, and however it is cut, comes to a documented end."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import random
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from chat_server import completion, rating
from test_fuzz import JSON, mutated, valid

from collector.logs.memory import MemoryLog
from collector.receive.otlp_http import OtlpHttpReceiver, OtlpHttpSettings
from collector.receive.otlp_ingest import IngestRules
from collector.redact.open_redactor import Redactors
from collector.redact.patterns import find
from collector.redact.redactor import Redactor
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import RECEIVE_PENDING_BYTES
from evaluators import GEval, OpenAIJudge
from evaluators.evaluation import evaluate
from evaluators.results import Failure, Score
from evaluators.testing import a_moment, a_turn, with_answer_key

CONNECTIONS, QUESTIONS, AT_ONCE = 400, 400, 50
ANSWERS = {200, 400, 404, 405, 408, 413, 415, 431, 503}
"""What OTLP/HTTP may be answered with; no token is asked for here."""
FAILURES = {
    "judge_unavailable", "judge_timeout", "judge_rate_limited", "judge_rejected",
    "judge_reply_invalid", "judge_reply_truncated", "judge_refused", "judge_error", "judge_denied", "judge_no_completion",
}  # fmt: skip


async def many(work, count: int) -> None:
    """Do something so often, some of it at once."""
    places = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        async with places:
            await work(number)

    await asyncio.gather(*map(one, range(count)))


def chunked(chance: random.Random, body: bytes) -> bytes:
    pieces, at = [], 0
    while at < len(body):
        size = chance.randint(1, 60)
        piece = body[at : at + size]
        said = len(piece) if chance.random() < 0.97 else chance.choice([0, len(piece) + 1, 10**12])
        pieces.append(b"%x\r\n%s\r\n" % (said, piece))
        at += size
    return b"".join(pieces) + (b"0\r\n\r\n" if chance.random() < 0.9 else b"")


def message(chance: random.Random, start: bytes, headers: list[bytes], body: bytes) -> bytes:
    """An HTTP message, most of the time with the right length, now and then with a byte or two changed in its head."""
    if chance.random() < 0.3:
        headers, body = [*headers, b"Transfer-Encoding: chunked"], chunked(chance, body)
    else:
        said = len(body) if chance.random() < 0.9 else chance.choice([0, 1, len(body) + 5, 10**13, -1])
        headers = [*headers, b"Content-Length: %d" % said]
    head = b"\r\n".join([start, *headers, b"", b""])
    return (mutated(chance, head) if chance.random() < 0.15 else head) + body


async def trickle(chance: random.Random, writer: asyncio.StreamWriter, data: bytes) -> None:
    """Send in a few pieces, cut anywhere."""
    cuts = sorted(chance.randrange(len(data) + 1) for _ in range(chance.randint(0, 4)))
    for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        writer.write(data[start:end])
        await writer.drain()
        await asyncio.sleep(0)


async def closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


def request_of(chance: random.Random) -> bytes:
    body = chance.choice((valid(), JSON, b""))
    if chance.random() < 0.6:
        body = mutated(chance, body)
    headers = [
        b"Host: x",
        b"Content-Type: " + chance.choice((b"application/x-protobuf", b"application/json", b"text/plain")),
    ]
    if chance.random() < 0.2:
        packed = gzip.compress(body)
        body = mutated(chance, packed) if chance.random() < 0.5 else packed
        headers.append(b"Content-Encoding: gzip")
    path = chance.choice((b"/v1/traces", b"/v1/traces", b"/v1/logs", b"/v1/metrics"))
    start = chance.choice((b"POST", b"POST", b"POST", b"PUT")) + b" " + path + b" HTTP/1.1"
    return message(chance, start, headers, body)


async def test_senders_of_anything_are_answered_or_hung_up_on(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    telemetry, spans = Telemetry(), MemoryLog("spans", 2)
    settings = OtlpHttpSettings(port=0, body_deadline=0.3, idle_timeout=0.5, max_body_bytes=4096, stop_grace=1.0)
    receiver = OtlpHttpReceiver(
        settings, spans, telemetry, rules=IngestRules(redactors=Redactors(Redactor((find,), b"a key")))
    )
    statuses: Counter[int] = Counter()
    async with receiver.serve() as port:

        async def talk(number: int) -> None:
            chance = random.Random(number)
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            said = b"".join(request_of(chance) for _ in range(chance.randint(1, 4)))  # one behind the other
            with suppress(ConnectionError):
                await trickle(chance, writer, said)
                if chance.random() < 0.3:
                    writer.write_eof()
            answer = b""
            with suppress(ConnectionError):
                async with asyncio.timeout(60):
                    answer = await reader.read()  # up to the end: it always comes
            await closed(writer)
            statuses.update(int(each) for each in re.findall(rb"HTTP/1\.[01] (\d{3}) ", answer))

        await many(talk, CONNECTIONS)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(
            b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
            % len(JSON)
        )
        writer.write(JSON)
        async with asyncio.timeout(60):
            assert (await reader.readline()).split()[1] == b"200"
        await closed(writer)
    assert set(statuses) <= ANSWERS
    assert statuses[200] > 20
    assert statuses[400] > 20
    assert telemetry.gauge(RECEIVE_PENDING_BYTES)._value.get() == 0
    assert [each.getMessage() for each in caplog.records if "failed" in each.getMessage()] == []
    kept = [record async for batch in spans.read(0, 0) for record in batch]
    assert not any(b"ada@example.com" in record.value for record in kept)


def reply_of(chance: random.Random, question: bytes) -> bytes | None:
    """A judge's answer to a question; None for one that never comes to an end."""
    kind = chance.randrange(10)
    if kind == 0:
        return chance.randbytes(chance.randint(0, 200))
    if kind == 1:
        return None
    asked = json.loads(question)["messages"][-1]["content"]
    body = json.dumps(completion(with_answer_key(asked, rating(chance.randint(0, 10))))).encode()
    if kind == 2:
        odd = chance.choice(
            (None, [], {}, "", 1, {"choices": []}, {"choices": [None]}, {"choices": [{"message": None}]}, {"error": {}})
        )
        body = json.dumps(odd).encode()
    elif kind == 3:
        content = chance.choice(
            ('{"score": NaN}', '{"score": 1e999}', '{"score": "11/10"}', "[" * 5000, "x" * 300_000, "\ud800")
        )
        body = json.dumps(completion(content)).encode()
    elif kind < 8:
        body = mutated(chance, body)
    headers = [b"Content-Type: " + chance.choice((b"application/json", b"text/html", b"\xff"))]
    if chance.random() < 0.1:
        headers.append(b"Content-Encoding: gzip")
        body = mutated(chance, gzip.compress(body)) if chance.random() < 0.7 else gzip.compress(body)
    if chance.random() < 0.05:
        headers.append(b"X-Long: " + b"a" * 100_000)
    if chance.random() < 0.1:
        headers.append(b"Retry-After: " + chance.choice((b"3600", b"-1", b"soon", b"1e99")))
    status = chance.choice(
        (b"200 OK",) * 8
        + (b"429 No", b"500 No", b"302 Found\r\nLocation: http://127.0.0.1:1/", b"401 No", b"999 What", b"100 Continue")
    )
    return message(chance, b"HTTP/1.1 " + status, headers, body)


@asynccontextmanager
async def answering(seeds: random.Random) -> AsyncIterator[str]:
    """A server that reads a request and answers anything."""

    handlers: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        handlers.add(task)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                await answer(random.Random(seeds.random()), reader, writer)
        finally:
            await closed(writer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    for task in handlers:
        task.cancel()
    await asyncio.gather(*handlers, return_exceptions=True)


async def answer(chance: random.Random, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: (\d+)", head)
    question = await reader.readexactly(int(length[1]) if length else 0)
    said = reply_of(chance, question)
    if said is not None:
        await trickle(chance, writer, said)
        return
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        writer.write(b"8000\r\n" + b" " * 0x8000 + b"\r\n")
        await writer.drain()
        await asyncio.sleep(0.01)


async def test_judges_that_answer_anything_give_a_score_or_a_failure_with_its_type() -> None:
    evaluator = GEval(
        name="right", evaluation_steps=["Say whether it is right."], evaluation_params=["input", "actual_output"]
    )
    ends: Counter[str] = Counter()
    async with answering(random.Random(5)) as url, OpenAIJudge("m", base_url=url, api_key="k", timeout=2.0) as judge:

        async def ask(_number: int) -> None:
            async with asyncio.timeout(60):
                outcome = (await evaluate(evaluator, a_turn("Is it?", "It is."), judge, now=a_moment)).outcome
            assert isinstance(outcome, (Score, Failure))
            if isinstance(outcome, Score):
                assert 0.0 <= outcome.value <= 1.0
            ends[outcome.type if isinstance(outcome, Failure) else "scored"] += 1

        await many(ask, QUESTIONS)
    assert set(ends) <= FAILURES | {"scored"}
    assert min(ends[each] for each in ("scored", "judge_no_completion", "judge_unavailable", "judge_denied")) > 5, ends
