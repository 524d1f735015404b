"""How connections to brokers are read, written and waited for, without a broker."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import KafkaConnectionError
from kafka.future import Future
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaTCPTransport

from collector.logs.kafka.workarounds import (
    close_failed_connections,
    keep_refreshing_metadata,
    poll_in_one_thread,
    read_last_answers,
    wait_in_thread,
)

SENT = 64 << 10


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    for each in (ours, theirs):
        each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    yield ours, theirs
    ours.close()
    theirs.close()


@pytest.fixture
def network() -> Iterator[NetworkSelector]:
    made = NetworkSelector()
    yield made
    made.close()


def transport_of(
    network: NetworkSelector, ours: socket.socket, theirs: list[bytes | Exception | None], *, repaired: bool = True
) -> Any:
    """A connection as a client makes it; what it receives, and why it ended, is added to `theirs`."""

    async def build() -> KafkaTCPTransport:
        return KafkaTCPTransport(network, ours)

    manager = SimpleNamespace(_build_transport=build)
    if repaired:
        read_last_answers(manager)
    transport = asyncio.run(manager._build_transport())
    transport.set_protocol(SimpleNamespace(data_received=theirs.append, connection_lost=theirs.append, _sensors=None))
    return transport


@pytest.mark.parametrize("repaired", [True, False])
def test_what_came_before_the_end_is_read_before_it(network, pair, repaired: bool) -> None:
    """kafka-python drops it; when this fails without the workaround, `read_last_answers` can go."""
    ours, theirs = pair
    got: list[Any] = []
    transport = transport_of(network, ours, got, repaired=repaired)
    theirs.sendall(b"a" * SENT)  # so that the end is met in the same reading
    theirs.close()
    transport.resume_reading()
    for _ in range(20):
        network.poll(timeout_ms=10)
    *data, end = got
    assert b"".join(data) == (b"a" * SENT if repaired else b"")
    assert "disconnected" in str(end)


@pytest.mark.parametrize("repaired", [True, False])
def test_metadata_are_refreshed_after_a_refresh_that_another_began_and_that_failed(
    network: NetworkSelector, repaired: bool
) -> None:
    """kafka-python never refreshes them again; when this fails without the workaround, `keep_refreshing_metadata` can
    go. A consumer stood still for good after an outage of its brokers: it asked by an old epoch of the leader.
    """
    manager: Any = KafkaConnectionManager(network)
    cluster, asked = manager.cluster, list[object]()
    if repaired:
        keep_refreshing_metadata(cluster)

    async def refresh(node_id: object = None) -> None:
        asked.append(node_id)
        cluster._need_update, cluster._last_successful_refresh_ms = False, time.monotonic() * 1000

    cluster.refresh_metadata = refresh
    manager._bootstrap_future = Future().success(None)
    cluster._refresh_future = Future()  # of another
    cluster.request_update()
    network.poll(timeout_ms=10)
    cluster._refresh_future.failure(KafkaConnectionError("the broker died"))
    give_up_at = time.monotonic() + 2.0
    while not asked and time.monotonic() < (give_up_at if repaired else give_up_at - 1.5):
        network.poll(timeout_ms=10)
        cluster.request_update()
    assert bool(asked) == repaired
    cluster.close()
    network.poll(timeout_ms=10)


@pytest.fixture
def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@pytest.fixture
def port_without_tls() -> Iterator[int]:
    """A port whose server sends words in clear to each who connects."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.sendall(b"220 ready\r\n")
                    connection.recv(1 << 12)

        answering = threading.Thread(target=answer, daemon=True)
        answering.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        answering.join()


def _open_files() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


@pytest.mark.long
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
@pytest.mark.parametrize(
    ("fixture", "repaired"), [("closed_port", False), ("closed_port", True), ("port_without_tls", True)]
)
def test_connections_that_fail_are_closed_without_the_garbage_collector(
    network: NetworkSelector, request: pytest.FixtureRequest, fixture: str, repaired: bool, host: str
) -> None:
    """kafka-python leaves them open; when this fails without the workaround, `close_failed_connections` can go."""
    port = request.getfixturevalue(fixture)
    protocol = {"security_protocol": "SSL", "ssl_context": ssl.create_default_context()}
    manager: Any = KafkaConnectionManager(network, **(protocol if fixture == "port_without_tls" else {}))
    if repaired:
        close_failed_connections(manager)

    async def connect() -> None:
        with pytest.raises(KafkaConnectionError):
            await manager._build_transport(SimpleNamespace(host=host, port=port))

    gc.collect()
    gc.disable()
    try:
        before = _open_files()
        for _ in range(10):
            manager.run(connect)
        left = _open_files() - before
    finally:
        gc.enable()
        with warnings.catch_warnings(action="ignore"):
            gc.collect()
    assert left < 5 if repaired else left >= 10, "one each time; threads of other tests open and close a few"


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
