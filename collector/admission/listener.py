"""A listener that counts every connection from its beginning to its end, within shares by address.

It serves an aiohttp application, protected against hostile and slow clients.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import NamedTuple

from aiohttp import web

from collector.admission.fair_limit import FairLimit, LimitReached, address_key
from collector.admission.shared_port import PAUSE, SharedPort
from collector.errors import ConfigError

logger = logging.getLogger(__name__)

HANDSHAKE_DEADLINE = 10.0
"""Seconds for a TLS handshake."""

NewProtocol = Callable[[str], asyncio.Protocol]
"""Makes the protocol of a connection from an address."""


class Address(NamedTuple):
    """A host and a port to listen on, and the section of the configuration that names them."""

    section: str
    host: str
    port: int


def ignore(*_: object) -> None:
    """Do nothing: the default callback."""


@asynccontextmanager
async def listening(
    new_protocol: NewProtocol,
    *,
    address: Address,
    max_connections: int,
    ssl_context: ssl.SSLContext | None = None,
    refusal: bytes = b"",
    on_refused: Callable[[], object] = ignore,
    shared: SharedPort | None = None,
) -> AsyncGenerator[int]:
    """Listen until the context ends; yields the port. Open connections stay open.

    If the port is `shared`, other processes of the command listen there, too, and connections are divided evenly.

    Of `max_connections`, which count from before the TLS handshake, an address may hold as many as it leaves free;
    others are closed, after `refusal`.

    Raises:
        ConfigError: the address cannot be bound.
    """
    limit = FairLimit(max_connections, "connections", on_change=shared.add if shared else ignore)
    acceptor = _Acceptor(new_protocol, limit, ssl_context, refusal, on_refused, shared)
    sockets = await _bind(address, backlog=min(max_connections, 1024), share_port=shared is not None)
    try:
        acceptor.start(sockets)
        yield sockets[0].getsockname()[1]
    finally:
        await acceptor.stop(sockets)


@dataclass(eq=False, repr=False)
class _Acceptor:
    """Accepts connections within a limit that counts each from its beginning to its end.

    Why not `create_server`: it accepts whatever comes, and does not say when a handshake has failed.
    """

    new_protocol: NewProtocol
    limit: FairLimit
    ssl_context: ssl.SSLContext | None
    refusal: bytes
    on_refused: Callable[[], object]
    shared: SharedPort | None

    def __post_init__(self) -> None:
        self._accepting: list[asyncio.Task[None]] = []
        self._handshakes: set[asyncio.Task[None]] = set()

    def start(self, sockets: list[socket.socket]) -> None:
        """Accept connections until `stop`."""
        if self.shared is not None:
            self.shared.start(self._take_handed)
        self._accepting = [asyncio.create_task(self._accept(sock)) for sock in sockets]

    async def stop(self, sockets: list[socket.socket]) -> None:
        """Stop listening; connections that are open stay."""
        if self.shared is not None:
            self.shared.stop()
        tasks = [*self._accepting, *self._handshakes]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for sock in sockets:
            sock.close()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, address = await loop.sock_accept(listening)
            except OSError as error:  # no descriptor is left, or the client has gone already
                logger.warning("a connection could not be accepted (%s)", error.strerror)
                await asyncio.sleep(PAUSE)
                continue
            try:
                if self.shared is not None and self.shared.try_hand_on(connection):
                    connection.close()
                else:
                    self._take(connection, address[0])
            except Exception:  # about one connection; the next ones are to be accepted
                logger.exception("a connection could not be taken")
                connection.close()

    def _take_handed(self, connection: socket.socket) -> None:
        """Take what another process has accepted."""
        try:
            connection.setblocking(False)
            address = connection.getpeername()[0]
        except OSError:  # the client has gone already
            connection.close()
        else:
            self._take(connection, address)

    def _take(self, connection: socket.socket, address: str) -> None:
        key = address_key(address)
        try:
            self.limit.take(key, 1)
        except LimitReached:
            self.on_refused()
            self._refuse(connection)
            return
        task = asyncio.create_task(self._open(connection, address, key))
        self._handshakes.add(task)
        task.add_done_callback(self._handshakes.discard)

    def _refuse(self, connection: socket.socket) -> None:
        """Ask a client to come again, and close."""
        with suppress(OSError), connection:
            if self.refusal:
                connection.send(self.refusal)
                connection.shutdown(socket.SHUT_WR)

    async def _open(self, connection: socket.socket, address: str, key: str) -> None:
        """Hand a connection to its protocol; its unit of the limit is returned at its end."""
        protocol = _LimitedConnection(self.new_protocol(address), lambda: self.limit.give_back(key, 1))
        deadline = HANDSHAKE_DEADLINE if self.ssl_context else None
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: protocol, connection, ssl=self.ssl_context, ssl_handshake_timeout=deadline
            )
        except (OSError, TimeoutError):  # SSLError is an OSError
            connection.close()
        finally:
            if not protocol.connected:
                self.limit.give_back(key, 1)


class _LimitedConnection(asyncio.Protocol):
    """A protocol that reports the end of its connection."""

    def __init__(self, inner: asyncio.Protocol, on_lost: Callable[[], object]) -> None:
        self.connected = False
        self._inner = inner
        self._on_lost = on_lost
        self.data_received = inner.data_received  # a call less for every piece
        self.eof_received = inner.eof_received
        self.pause_writing = inner.pause_writing
        self.resume_writing = inner.resume_writing

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.connected = True
        self._inner.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._on_lost()
        self._inner.connection_lost(exc)


async def require_free(addresses: Iterable[Address]) -> None:
    """See that nobody else listens there.

    Raises:
        ConfigError: one cannot be bound.
    """
    for address in addresses:
        for sock in await _bind(address, backlog=None, share_port=False):
            sock.close()


async def _bind(at: Address, *, backlog: int | None, share_port: bool) -> list[socket.socket]:
    """Sockets that are bound to every address of the host. With `backlog` they listen.

    Raises:
        ConfigError: one cannot be bound.
    """
    passive, loop = socket.AI_PASSIVE, asyncio.get_running_loop()
    sockets: list[socket.socket] = []
    try:
        infos = await loop.getaddrinfo(at.host, at.port, type=socket.SOCK_STREAM, flags=passive)
        for family, kind, protocol, _, address in dict.fromkeys(infos):
            each = socket.socket(family, kind, protocol)
            sockets.append(each)
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if share_port:
                each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if family == socket.AF_INET6:
                each.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            each.bind(address)
            if backlog is not None:
                each.listen(backlog)
            each.setblocking(False)
    except OSError as error:
        for sock in sockets:
            sock.close()
        raise ConfigError(
            f"{at.section}: {at.host}:{at.port} cannot be listened on ({error.strerror}); write another "
            f"{at.section}.port (0: any free one)"
        ) from error
    return sockets


_REFUSAL = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@asynccontextmanager
async def serving(
    application: web.Application,
    *,
    address: Address,
    max_connections: int,
    idle_timeout: float,
    stop_grace: float,
    ssl_context: ssl.SSLContext | None = None,
    on_refused: Callable[[], object] = ignore,
    shared: SharedPort | None = None,
) -> AsyncGenerator[int]:
    """Serve until left; gives the port. On leaving, new connections are refused and running requests may end.

    Bodies reach the application as sent, not decompressed. A connection that is idle, or sends its headers slowly, is
    closed after `idle_timeout` (s); running requests have `stop_grace` (s). Of `max_connections`, which count from
    before the TLS handshake, an address may hold as many as it leaves free; others are refused. For `shared` see
    `listening`.

    Raises:
        ConfigError: the address cannot be bound.
    """
    runner = web.AppRunner(
        application,
        access_log=None,
        auto_decompress=False,
        keepalive_timeout=idle_timeout,
        lingering_time=2.0,
        shutdown_timeout=stop_grace,
    )
    await runner.setup()
    try:
        server = runner.server
        assert server is not None
        opened = listening(
            lambda _address: server(),
            address=address,
            max_connections=max_connections,
            ssl_context=ssl_context,
            refusal=b"" if ssl_context else _REFUSAL,
            on_refused=on_refused,
            shared=shared,
        )
        async with opened as bound:
            yield bound
    finally:
        await runner.cleanup()
