"""How fast the OTLP/HTTP receiver is, and what a span costs: `.venv/bin/python tests/bench/otlp_http.py`.

The sender runs in a process of its own; CPU is that of the receiver's process alone. Requests come over 16 kept-alive
connections on loopback. A span has 12 attributes and 2 kB of messages, a trace 3 spans.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import multiprocessing
import random
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import uvloop
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.logs.log import Log
from collector.logs.memory import MemoryLog
from collector.logs.sqlite import SqliteLog
from collector.receive.otlp_http import OtlpHttpReceiver, OtlpHttpSettings
from collector.telemetry.registry import Telemetry

CONNECTIONS = 16
SECONDS = 4.0
WORDS = [f"word{number}" for number in range(3000)]


def request_of(traces: int, seed: int) -> bytes:
    chance = random.Random(seed)
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    resource.resource.attributes.add(key="service.name").value.string_value = "shop"
    scope = resource.scope_spans.add()
    for _ in range(traces):
        trace = chance.randbytes(16)
        for _ in range(3):
            span = scope.spans.add(trace_id=trace, span_id=chance.randbytes(8), name="chat gpt-4.1")
            span.start_time_unix_nano, span.end_time_unix_nano = 1_777_896_000 * 10**9, 1_777_896_001 * 10**9
            for name in ("input", "output"):
                text = " ".join(chance.choices(WORDS, k=125))
                message = json.dumps([{"role": "user", "parts": [{"type": "text", "content": text}]}])
                span.attributes.add(key=f"gen_ai.{name}.messages").value.string_value = message
            for number in range(10):
                span.attributes.add(key=f"gen_ai.attribute.{number}").value.string_value = f"value {number}"
    return request.SerializeToString()


def send(port: int, traces: int, compressed: bool, pipe) -> None:
    uvloop.run(_send(port, traces, compressed, pipe))


async def _send(port: int, traces: int, compressed: bool, pipe) -> None:
    bodies = [request_of(traces, seed) for seed in range(8)]
    headers = {"Content-Type": "application/x-protobuf"}
    if compressed:
        bodies = [gzip.compress(body) for body in bodies]
        headers["Content-Encoding"] = "gzip"
    waits: list[float] = []

    async def sender(session: aiohttp.ClientSession, number: int, until: float) -> None:
        while (started := time.perf_counter()) < until:
            body = bodies[number % len(bodies)]
            async with session.post(f"http://127.0.0.1:{port}/v1/traces", data=body, headers=headers) as answer:
                assert answer.status == 200, answer.status
            waits.append(time.perf_counter() - started)

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        until = time.perf_counter() + SECONDS
        await asyncio.gather(*(sender(session, number, until) for number in range(CONNECTIONS)))
    waits.sort()
    pipe.send((len(waits), waits[len(waits) // 2], waits[len(waits) * 99 // 100], len(bodies[0])))


@asynccontextmanager
async def log_of(kind: str) -> AsyncIterator[Log]:
    if kind == "memory":
        yield MemoryLog("spans", 4)
        return
    with tempfile.TemporaryDirectory() as folder:
        logs = await SqliteLog.open(Path(folder) / "bench.db", ["spans"], 4)
        yield logs["spans"]
        await logs["spans"].close()


async def measure(kind: str, traces: int, compressed: bool) -> None:
    context = multiprocessing.get_context("spawn")
    receiving, sending = context.Pipe(duplex=False)
    async with log_of(kind) as log:
        receiver = OtlpHttpReceiver(OtlpHttpSettings(port=0), log, Telemetry())
        async with receiver.serve() as port:
            sender = context.Process(target=send, args=(port, traces, compressed, sending))
            before = time.process_time()
            sender.start()
            count, median, slow, size = await asyncio.to_thread(receiving.recv)
            cpu = time.process_time() - before
            sender.join()
    spans = 3 * traces
    print(
        f"{kind:7} {'gzip' if compressed else 'plain':5} {spans:4} spans, {size / 1024:6.1f} KiB a request: "
        f"{count / SECONDS:7.0f} requests/s {count * spans / SECONDS:8.0f} spans/s  "
        f"{1e6 * cpu / count:7.0f} µs CPU/request {1e6 * cpu / count / spans:6.1f} µs CPU/span  "
        f"median {1e3 * median:5.1f} ms, p99 {1e3 * slow:5.1f} ms"
    )


async def main() -> None:
    for kind in ("memory", "sqlite"):
        for traces in (1, 33):
            for compressed in (False, True):
                await measure(kind, traces, compressed)


if __name__ == "__main__":
    uvloop.run(main())
