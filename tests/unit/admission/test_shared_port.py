"""A port of several processes, here of several listeners of one: connections are divided evenly, and none is lost."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from typing import Any

import pytest
import uvloop

from collector.admission import shared_port
from collector.admission.listener import Address, listening
from collector.admission.shared_port import SharedPort

RUNS = pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])


class Naming(asyncio.Protocol):
    """Says who has taken the connection."""

    def __init__(self, name: bytes) -> None:
        self._name = name

    def connection_made(self, transport: Any) -> None:
        transport.write(self._name)


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def taken_by(self) -> int:
        """Who has it, once it is known."""
        async with asyncio.timeout(30):
            return int(await self.reader.readexactly(1))

    async def close(self) -> None:
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()


@pytest.fixture
def ends() -> Iterator[list[SharedPort]]:
    made = SharedPort.among(3)
    with closing(made[0]):
        yield made


@asynccontextmanager
async def taking(end: SharedPort, number: int, port: int, most: int = 100) -> AsyncIterator[int]:
    def named(_address: str) -> Naming:
        return Naming(b"%d" % number)

    async with listening(named, address=Address("page", "127.0.0.1", port), max_connections=most, shared=end) as bound:
        yield bound


async def connect(port: int) -> Client:
    return Client(*await asyncio.open_connection("127.0.0.1", port))


async def connected(port: int, number: int) -> list[tuple[int, Client]]:
    """So many connections, one after the other."""
    made: list[tuple[int, Client]] = []
    for _ in range(number):
        client = await connect(port)
        made.append((await client.taken_by(), client))
    return made


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.01)


def shares(made: list[tuple[int, Client]]) -> list[int]:
    return sorted(sum(by == number for by, _ in made) for number in range(3))


@RUNS
def test_each_connection_goes_to_who_has_the_fewest(run, ends: list[SharedPort]) -> None:
    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            port = await stack.enter_async_context(taking(ends[0], 0, 0))
            for number in (1, 2):
                await stack.enter_async_context(taking(ends[number], number, port))
            made = await connected(port, 9)
            assert shares(made) == [3, 3, 3]
            left = [client for by, client in made if by == 1]
            for client in left:
                await client.close()
            await until(lambda: ends[1]._mine[shared_port._OPEN] == 0)
            again = await connected(port, 3)
            assert shares(again) == [0, 0, 3]
            assert {by for by, _ in again} == {1}
            for _, client in [*made, *again]:
                await client.close()

    run(scenario())


@RUNS
def test_many_at_once_are_divided_evenly(run, ends: list[SharedPort]) -> None:
    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            port = await stack.enter_async_context(taking(ends[0], 0, 0))
            for number in (1, 2):
                await stack.enter_async_context(taking(ends[number], number, port))
            clients = await asyncio.gather(*(connect(port) for _ in range(60)))
            by = [await each.taken_by() for each in clients]
            assert sorted(by.count(number) for number in range(3)) == [20, 20, 20]
            for each in clients:
                await each.close()

    run(scenario())


@RUNS
def test_who_does_not_listen_yet_or_any_more_gets_nothing(run, ends: list[SharedPort]) -> None:
    async def scenario() -> None:
        async with taking(ends[0], 0, 0) as port:
            alone = await connected(port, 4)
            assert {by for by, _ in alone} == {0}
            async with taking(ends[2], 2, port):
                both = await connected(port, 4)
                assert {by for by, _ in both} == {2}
            after = await connected(port, 2)
            assert {by for by, _ in after} == {0}
            for _, client in [*alone, *both, *after]:
                await client.close()

    run(scenario())


def hang(end: SharedPort) -> None:
    """A process that listens, and does nothing else from now on."""
    end.start(lambda connection: pytest.fail("nothing was to be taken"))
    asyncio.get_running_loop().remove_reader(end._inbox)


def test_what_was_handed_on_and_not_taken_is_closed_with_who_was_to_take_it(ends: list[SharedPort]) -> None:
    async def scenario() -> None:
        async with taking(ends[0], 0, 0) as port:
            hang(ends[1])
            first = await connected(port, 1)
            waiting = await connect(port)
            await until(lambda: ends[0]._mine[shared_port._RECEIVED + 1 + 1] == 1)
            ends[1].stop()
            async with asyncio.timeout(30):
                with suppress(ConnectionError):
                    assert await waiting.reader.read() == b""
            later = await connected(port, 2)
            assert [by for by, _ in later] == [0, 0]
            for client in (waiting, *(each for _, each in [*first, *later])):
                await client.close()

    asyncio.run(scenario())


def test_a_process_that_ended_without_a_word_gets_nothing(ends: list[SharedPort]) -> None:
    async def scenario() -> None:
        async with taking(ends[0], 0, 0) as port:
            hang(ends[1])
            ends[0].leave_others()  # as all of them did, and it is gone
            made = await connected(port, 4)
            assert {by for by, _ in made} == {0}
            for _, client in made:
                await client.close()

    asyncio.run(scenario())


def test_a_process_that_takes_nothing_does_not_stop_the_others(ends: list[SharedPort]) -> None:
    """As many as the system lets wait for it wait; the others are taken here."""

    async def scenario() -> None:
        ends[0]._ends[1][1].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        async with taking(ends[0], 0, 0, most=5000) as port:
            hang(ends[1])
            ends[1].add(-(10**6))  # and seems to have the fewest for ever
            clients = [await connect(port) for _ in range(100)]
            async with asyncio.timeout(30):
                assert await clients[-1].reader.readexactly(1) == b"0"
            ends[1].stop()
            for each in clients:
                await each.close()

    asyncio.run(scenario())


def test_a_process_without_descriptors_gets_nothing_for_a_while(
    ends: list[SharedPort], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The system closes a connection for which there is none left, and hands on the rest of the message."""
    monkeypatch.setattr(shared_port, "PAUSE", 1000.0)

    async def scenario() -> None:
        async with taking(ends[0], 0, 0) as port, taking(ends[1], 1, port):
            ends[0]._ends[1][1].send(b"+")
            await until(lambda: caplog.records)
            at_first = await connected(port, 3)
            assert {by for by, _ in at_first} == {0}
            monkeypatch.setattr(shared_port, "PAUSE", 0.0)
            ends[0]._ends[1][1].send(b"+")
            await until(lambda: len(caplog.records) == 2 and ends[1]._mine[shared_port._LISTENS])
            later = await connected(port, 3)
            assert {by for by, _ in later} == {1}
            for _, client in [*at_first, *later]:
                await client.close()

    asyncio.run(scenario())
    assert "no descriptor is left" in caplog.text


def test_who_had_no_descriptors_and_has_stopped_since_stays_away(
    ends: list[SharedPort], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(shared_port, "PAUSE", 0.05)

    async def scenario() -> None:
        async with taking(ends[1], 1, 0):
            for _ in range(3):
                ends[0]._ends[1][1].send(b"+")
            await until(lambda: len(caplog.records) == 3)
        over = asyncio.Event()
        asyncio.get_running_loop().call_later(0.1, over.set)  # behind all pauses
        await over.wait()
        assert ends[1]._mine[shared_port._LISTENS] == 0

    asyncio.run(scenario())
