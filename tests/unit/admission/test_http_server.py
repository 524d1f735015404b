"""Connections beyond the cap, on the event loop that the service runs on and on the one that tests run on."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvloop
from aiohttp import web
from test_access import make_certificates

from collector.admission.listener import Address, serving


async def _beyond_the_cap() -> bytes:
    """What a third connection is told where one address may hold two of four."""
    settings = {"max_connections": 4, "idle_timeout": 30.0, "stop_grace": 1.0}
    async with serving(web.Application(), address=Address("page", "127.0.0.1", 0), **settings) as port:
        opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        for reader, writer in opened:  # an answer each: they are taken
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await reader.readline()).startswith(b"HTTP/1.1 404")
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        async with asyncio.timeout(60):
            told = await reader.read()
        for _, each in (*opened, (reader, writer)):
            each.close()
    return told


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_a_connection_too_many_has_interval_to_come_again(run, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        told = run(_beyond_the_cap())
    assert told.startswith(b"HTTP/1.1 503 ")
    assert b"Retry-After: 5" in told
    assert caplog.records == []


@asynccontextmanager
async def open_connections(
    port: int, count: int, address: str = "127.0.0.1"
) -> AsyncIterator[list[asyncio.Task[bytes]]]:
    """Connections that send nothing; gives for each the task that ends when it is closed."""
    opened = [await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0)) for _ in range(count)]
    yield [asyncio.create_task(reader.read()) for reader, _ in opened]
    for _, writer in opened:
        writer.close()


async def closed(tasks: list[asyncio.Task[bytes]], count: int) -> None:
    async with asyncio.timeout(60):
        while sum(task.done() for task in tasks) < count:
            await asyncio.sleep(0.01)


SETTINGS = {
    "address": Address("page", "127.0.0.1", 0),
    "max_connections": 8,
    "idle_timeout": 30.0,
    "stop_grace": 1.0,
}


async def test_idle_connections_of_one_address_leave_the_others_theirs():
    refused: list[None] = []
    async with (
        serving(web.Application(), on_refused=lambda: refused.append(None), **SETTINGS) as port,
        open_connections(port, 20, "127.0.0.2") as tasks,
    ):
        await closed(tasks, 16)
        assert len(refused) == 16
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 404")
        writer.close()


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_connections_count_before_the_handshake_and_no_longer_than_they_last(run, tmp_path: Path) -> None:
    make_certificates(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "ours.pem", tmp_path / "ours.key")
    trusting = ssl.create_default_context(cafile=tmp_path / "ours-ca.pem")

    async def attack() -> None:
        async with serving(web.Application(), ssl_context=context, **SETTINGS) as port:
            for _ in range(3):
                async with open_connections(port, 12) as tasks:
                    await closed(tasks, 8)
                    assert sum(task.done() for task in tasks) == 8
                for _, writer in [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]:
                    writer.write(b"not a handshake\r\n\r\n")
                    writer.close()
            for _ in range(8):  # one at a time: each gives its place back
                async with asyncio.timeout(60):
                    reader, writer = await _handshake(port, trusting)
                writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                assert (await reader.readline()).startswith(b"HTTP/1.1 404")
                writer.close()

    run(attack())


async def _handshake(port: int, context: ssl.SSLContext) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection as soon as there is a place for it: those that have gone are seen a moment later."""
    while True:
        try:
            return await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost")
        except OSError:
            await asyncio.sleep(0.01)


async def test_a_handshake_has_a_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("collector.admission.listener.HANDSHAKE_DEADLINE", 0.1)
    make_certificates(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "ours.pem", tmp_path / "ours.key")
    async with serving(web.Application(), ssl_context=context, **SETTINGS) as port, open_connections(port, 4) as tasks:
        await closed(tasks, 4)
