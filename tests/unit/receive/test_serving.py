"""Connections beyond the cap, on the event loop that the service runs on and on the one that tests run on."""

from __future__ import annotations

import asyncio
import logging

import pytest
import uvloop
from aiohttp import web

from collector.receive.serving import serving


async def _beyond_the_cap() -> bytes:
    """What a third connection is told where two are taken."""
    settings = {"max_connections": 2, "idle_timeout": 30.0, "stop_grace": 1.0}
    async with serving(web.Application(), host="127.0.0.1", port=0, **settings) as port:
        opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        for reader, writer in opened:  # an answer each: they are taken
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await reader.readline()).startswith(b"HTTP/1.1 404")
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        async with asyncio.timeout(20):
            told = await reader.read()
        for _, each in (*opened, (reader, writer)):
            each.close()
    return told


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_a_connection_too_many_is_told_to_come_again(run, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        told = run(_beyond_the_cap())
    assert told.startswith(b"HTTP/1.1 503 ")
    assert b"Retry-After: 5" in told
    assert caplog.records == []
