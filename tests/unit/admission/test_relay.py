"""What is relayed arrives, on the event loop that the service runs on and on the one that tests run on."""

from __future__ import annotations

import asyncio

import pytest
import uvloop

from collector.admission.listener import Address, listening
from collector.admission.relay import Relay


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"answer to " + await reader.readexactly(8))
    writer.close()


async def _sent_at_once() -> list[bytes]:
    """The answers to senders that write before their connection to the server is open."""
    async with Relay.open() as relay:
        server = await asyncio.start_unix_server(_answer, str(relay.path))
        address = Address("page", "127.0.0.1", 0)
        async with server, listening(relay.end_of, address=address, max_connections=100) as port:
            answers: list[bytes] = []
            for number in range(20):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"sender%02d" % number)
                async with asyncio.timeout(60):
                    answers.append(await reader.read())
                writer.close()
                await writer.wait_closed()
            return answers


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_what_is_sent_at_once_arrives(run) -> None:
    assert run(_sent_at_once()) == [b"answer to sender%02d" % number for number in range(20)]
