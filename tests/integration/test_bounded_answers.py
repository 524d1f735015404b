"""No answer of at most 16 MiB on the wire takes more than 256 MiB or five seconds, whoever reads it.

Each reader runs in its own process, which says what it took: the peak of its memory above what it began with, and its
CPU time.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

MOST_MIB, MOST_SECONDS = 256, 5.0
WIRE = 16 << 20
CODE = """
import asyncio, json, sys, time
from openai import AsyncOpenAI
from evaluators import OpenAIJudge, Prompt
from evaluators.scale import Reply
from evaluators.judges.apis.responses import RESPONSES
from evaluators.judges.apis.anthropic import ANTHROPIC
from evaluators.judges.batches.batch_connection import BatchConnection
from evaluators.judges.batches.openai_batches import OpenAIBatches
from evaluators.judges.batches.results import BatchState
from evaluators.judges.client_connection import fast_http
from evaluators.judges.embeddings import EmbeddingJudge
from evaluators.embeddings import Embeddings
from collector.commands.fetch.api_reader import ApiReader, LONGEST, TIMEOUT
from collector.commands.fetch.langfuse import otlp_request
from collector.backoff import Backoff
from collector.alerting.watch.notifier import AlertInstance, Notifier
from collector.export.otlp import OtlpExporter, OtlpExportSettings
from collector.export.exporter import ExportContext
from collector.telemetry.registry import Telemetry
from evaluators.wire.http_client import HttpClient

class ScoreReply(Reply):
    reason: str
    score: int

def memory():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024

async def judge(url, api, client=None):
    options = {"api": api} if api else {}
    options |= {"client": client} if client else {"base_url": url, "api_key": "k"}
    async with OpenAIJudge("m", timeout=60, retries=0, **options) as judge:
        await judge.ask(Prompt("How good?", {"answer": "fine"}), ScoreReply, logprobs=True)

async def batch(url):
    connection = BatchConnection(url, {})
    try:
        await connection.get("/batches")
    except Exception as error:
        print(repr(error)[:200], file=sys.stderr)
    async for line in connection.lines("/files/1/content"):
        pass

async def openai_batch(url):
    batches = OpenAIBatches(AsyncOpenAI(base_url=url, api_key="k", http_client=fast_http()), "/chat/completions")
    try:
        await batches.check()
    except Exception as error:
        print(repr(error)[:200], file=sys.stderr)
    async for line in batches.results(BatchState(status="completed", ended=True, results=("1",))):
        pass

async def embeddings(url):
    judge = EmbeddingJudge("m", base_url=url, api_key="k", timeout=60)
    await judge.ask(Prompt("", {"texts": ["a", "b"]}), Embeddings)

async def fetch(url):
    async with HttpClient(timeout=TIMEOUT, longest=LONGEST) as client:
        api = ApiReader("It", url, {}, client, backoff=Backoff(deadline=0.0), say=print)
        otlp_request(api.document(await api.get("/x")).get("data") or [])

async def alert(url):
    async with HttpClient(timeout=30) as client:
        await Notifier(client, Telemetry(), 15.0, url, url).notify([AlertInstance({"a": "b"}, {})], 1.0)

WAYS = {
    "chat": lambda url: judge(url, None), "responses": lambda url: judge(url, RESPONSES),
    "anthropic": lambda url: judge(url, ANTHROPIC), "batch": batch,
    "openai batch": openai_batch, "embeddings": embeddings, "fetch": fetch,
    "alert": alert, "client": lambda url: judge(url, None, lambda: AsyncOpenAI(base_url=url, api_key="k")),
}
way, url = sys.argv[1:]
before, began = memory(), time.process_time()  # the peak of this process alone: that of `getrusage` has its parent's
try:
    asyncio.run(WAYS[way](url))
    outcome = "read"
except Exception as error:
    outcome = f"{type(error).__name__}: {error}"[:200]
print(json.dumps([memory() - before, time.process_time() - began, outcome]))
"""


def completion(logprobs: bytes) -> bytes:
    return b'{"choices":[{"message":{"content":"{}"},"logprobs":{"content":[' + logprobs + b"]}}]}"


def many(piece: bytes, size: int = WIRE - 200) -> bytes:
    return b",".join([piece] * (size // (len(piece) + 1)))


ATTACKS: Mapping[str, Callable[[], bytes]] = {
    "a million empty tokens": lambda: completion(many(b"{}", 3 << 20)),
    "empty tokens": lambda: completion(many(b"{}")),
    "tokens": lambda: completion(many(b'{"token":"a"}')),
    "odd tokens": lambda: completion(many(b'{"token":1}', 6 << 20)),
    "5 million empty choices": lambda: b'{"choices":[' + many(b"{}") + b"]}",
    "half a million choices": lambda: b'{"choices":[' + many(b"{}", 1 << 20) + b"]}",
    "deep": lambda: b'{"choices":' + b"[" * (8 << 20) + b"]" * (8 << 20) + b"}",
    "deep objects": lambda: b'{"a":' * (2 << 20) + b"1" + b"}" * (2 << 20),
    "numbers": lambda: b'{"data":[' + many(b"1") + b"]}",
    "vectors": lambda: b'{"data":[{"embedding":[' + many(b"0.1") + b"]}]}",
    "names": lambda: b'{"choices":{' + b",".join(b'"%x":0' % n for n in range(1_500_000)) + b"}}",
    "wide text": lambda: '{"choices":[{"message":{"content":"😀'.encode() + b"a" * (15 << 20) + b'"}}]}',
    "escapes": lambda: b'{"choices":[{"message":{"content":"' + rb"\ud83d" * (2 << 20) + b'"}}]}',
    "spaces": lambda: b" " * WIRE,
    "an error of quotes": lambda: b'{"error":"' + rb"\"" * (8 << 20) + b'"}',
    "lines": lambda: b"{}\n" * (WIRE // 3),
    "observations": lambda: b'{"data":[' + many(b'{"id":"a","traceId":"b","metadata":{"a":[]}}') + b"]}",
    "a bomb": lambda: b"\0" * (1 << 30),
}
"""Made by the test that needs one: together they are 1.3 GB, which each process that collects this module would hold."""
READERS = ("chat", "responses", "anthropic", "batch", "openai batch", "embeddings", "fetch", "alert", "client")


@asynccontextmanager
async def answering(body: bytes, *, packed: bool, status: int = 200) -> AsyncIterator[str]:
    headers = {"Content-Type": "application/json", **({"Content-Encoding": "gzip"} if packed else {})}
    content = gzip.compress(body, 1) if packed else body

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=content, headers=headers, status=status)

    application = web.Application(client_max_size=1 << 26)
    application.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def taken(reader: str, body: bytes, *, packed: bool, status: int = 200) -> tuple[float, float, str]:
    async with answering(body, packed=packed, status=status) as url:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", CODE, reader, url, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        out, err = await process.communicate()
    assert process.returncode == 0, err.decode()[-2000:]
    mib, seconds, outcome = json.loads(out.splitlines()[-1])
    print(f"{reader:<11} {mib:6.0f} MiB {seconds:6.2f} s  {outcome[:90]}")
    return mib, seconds, outcome


@pytest.mark.long
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("attack", ATTACKS)
async def test_a_chat_completion(attack: str, packed: bool) -> None:
    mib, seconds, outcome = await taken("chat", ATTACKS[attack](), packed=packed)
    assert mib < MOST_MIB, outcome
    assert seconds < MOST_SECONDS, outcome


@pytest.mark.nightly
@pytest.mark.parametrize("reader", READERS[1:])
@pytest.mark.parametrize("attack", ATTACKS)
async def test_every_reader(reader: str, attack: str) -> None:
    mib, seconds, outcome = await taken(reader, ATTACKS[attack](), packed=True)
    assert mib < MOST_MIB, outcome
    assert seconds < MOST_SECONDS, outcome


@pytest.mark.long
@pytest.mark.parametrize("attack", ["deep objects", "an error of quotes", "wide text", "names"])
async def test_a_refusal(attack: str) -> None:
    mib, seconds, outcome = await taken("chat", ATTACKS[attack](), packed=True, status=400)
    assert mib < MOST_MIB, outcome
    assert seconds < MOST_SECONDS, outcome
