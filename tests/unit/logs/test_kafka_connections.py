"""How connections to brokers are read, written and waited for, without a broker."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaTCPTransport

from collector.logs.kafka.workarounds import (
    RECEIVED_AT_ONCE,
    poll_in_one_thread,
    read_last_answers,
    received,
    wait_in_thread,
    write_at_once,
)


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    for each in (ours, theirs):
        each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * RECEIVED_AT_ONCE)
    yield ours, theirs
    ours.close()
    theirs.close()


@pytest.fixture
def network() -> Iterator[NetworkSelector]:
    made = NetworkSelector()
    yield made
    made.close()


def transport_of(network: NetworkSelector, ours: socket.socket, theirs: list[bytes | Exception | None]) -> Any:
    """A connection as a client makes it; what it receives, and why it ended, is added to `theirs`."""

    async def build() -> KafkaTCPTransport:
        return KafkaTCPTransport(network, ours)

    manager = SimpleNamespace(_build_transport=build)
    read_last_answers(manager)
    write_at_once(manager)
    transport = asyncio.run(manager._build_transport())
    transport.set_protocol(SimpleNamespace(data_received=theirs.append, connection_lost=theirs.append, _sensors=None))
    return transport


def test_all_that_is_there_is_read_and_nothing_is_no_end(pair) -> None:
    ours, theirs = pair
    assert received(ours) == (b"", None)
    for size in (1, 5000, RECEIVED_AT_ONCE, RECEIVED_AT_ONCE + 1):
        sender = threading.Thread(target=theirs.sendall, args=(b"x" * size,))
        sender.start()
        got = 0
        while got < size:
            data, error = received(ours)
            assert error is None
            got += len(data)
        sender.join()
        assert got == size


def test_the_end_of_a_connection_is_told_and_so_is_what_broke_it(pair) -> None:
    ours, theirs = pair
    theirs.close()
    data, error = received(ours)
    assert data == b""
    assert "disconnected" in str(error)
    ours.close()
    data, error = received(ours)
    assert data == b""
    assert isinstance(error, Exception)


def test_what_came_before_the_end_is_read_before_it(network, pair) -> None:
    ours, theirs = pair
    got: list[Any] = []
    transport = transport_of(network, ours, got)
    theirs.sendall(b"a" * RECEIVED_AT_ONCE)  # so that the end is met in the same reading
    theirs.close()
    transport.resume_reading()
    for _ in range(20):
        network.poll(timeout_ms=10)
    *data, end = got
    assert b"".join(data) == b"a" * RECEIVED_AT_ONCE
    assert "disconnected" in str(end)


def test_a_request_is_written_in_the_round_that_begins_it(network, pair) -> None:
    ours, theirs = pair
    transport = transport_of(network, ours, [])
    transport.write(b"request")
    network.poll(timeout_ms=0)
    theirs.setblocking(False)
    assert theirs.recv(100) == b"request"
    transport.write(b"and another")
    network.poll(timeout_ms=0)
    assert theirs.recv(100) == b"and another"


def test_what_does_not_fit_follows_in_order(network, pair) -> None:
    ours, theirs = pair
    transport = transport_of(network, ours, [])
    sent = b"".join(number.to_bytes(4, "big") for number in range(2_000_000))
    transport.write(sent[:5_000_000])
    transport.write(sent[5_000_000:])
    got = bytearray()
    theirs.settimeout(0.05)
    while len(got) < len(sent):
        network.poll(timeout_ms=0)
        got += theirs.recv(1 << 20)
    assert got == sent


def test_a_connection_that_breaks_while_it_is_written_to_ends(network, pair) -> None:
    ours, theirs = pair
    got: list[Any] = []
    transport = transport_of(network, ours, got)
    theirs.close()
    transport.write(b"request")
    network.poll(timeout_ms=0)
    assert transport.is_closing()
    assert len(got) == 1
    assert isinstance(got[0], Exception)


def consumer_over(network: NetworkSelector, asked: list[float | None], *, knows: bool) -> Any:
    coordinator = SimpleNamespace(
        coordinator_unknown=lambda: not knows, ensure_coordinator_ready=lambda wait: bool(asked.append(wait))
    )
    return SimpleNamespace(_net=network, _coordinator=coordinator)


def test_the_thread_that_polls_does_all_and_another_can_wake_it(network) -> None:
    network.start()
    consumer = consumer_over(network, [], knows=True)
    poll_in_one_thread(consumer)
    assert not [each for each in threading.enumerate() if each.name.startswith("kafka-io")]

    async def in_which_thread() -> int:
        return threading.get_ident()

    assert network.run(in_which_thread) == threading.get_ident()
    woken: list[int] = []
    other = threading.Timer(0.05, lambda: network.call_soon_threadsafe(lambda: woken.append(threading.get_ident())))
    other.start()
    while not woken:
        wait_in_thread(consumer, 60)
    assert woken == [threading.get_ident()]
    other.join()


@pytest.mark.parametrize("knows", [True, False])
def test_a_coordinator_is_looked_for_when_it_is_unknown(network, knows: bool) -> None:
    asked: list[float | None] = []
    consumer = consumer_over(network, asked, knows=knows)
    poll_in_one_thread(consumer)
    assert consumer._coordinator.ensure_coordinator_ready(timeout_ms=250) is knows
    assert asked == ([] if knows else [250])
