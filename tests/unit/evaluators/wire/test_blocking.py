"""The client for threads that have no event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from evaluators.wire.http_client import LONGEST, ask_blocking


@asynccontextmanager
async def answering(head: str, piece: bytes, pause: float = 0.0) -> AsyncIterator[str]:
    """A server that sends a piece of its answer again and again."""

    ended = asyncio.Event()

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            writer.write(f"HTTP/1.1 200 OK\r\n{head}\r\n\r\n".encode())
            while True:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(pause)
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        ended.set()

    async with await asyncio.start_server(answer, "127.0.0.1") as server:
        yield "http://{}:{}/metrics".format(*server.sockets[0].getsockname())
        await asyncio.wait_for(ended.wait(), 5)


async def ask(url: str, within: float) -> bytes:
    return await asyncio.to_thread(ask_blocking, url, None, {}, timeout=within, proxied=False)


async def test_an_answer_that_never_ends_is_none() -> None:
    """Each piece came within the time, so `rejudge` and `check` would have waited for as long as pieces came."""
    began = time.monotonic()
    async with answering("Connection: close", b"# HELP\n", 0.02) as url:
        with pytest.raises(TimeoutError):
            await ask(url, 0.3)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    ("head", "piece", "length"),
    [("Content-Length: 200000", b"x" * 200_000, 200_000), ("Connection: close", b"x" * 100_000, LONGEST)],
)
async def test_an_answer_has_all_of_its_body_up_to_the_limit(head: str, piece: bytes, length: int) -> None:
    async with answering(head, piece) as url:
        assert await ask(url, 30.0) == b"x" * length


async def test_an_answer_in_chunks_is_put_together() -> None:
    async with answering("Transfer-Encoding: chunked", b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n") as url:
        assert await ask(url, 5.0) == b"abcde"
