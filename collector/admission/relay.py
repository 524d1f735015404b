"""A listener in front of a server that accepts by itself and knows no shares: it relays bytes, and says from whom.

The server listens on a socket file in a private folder. Each connection to it has a name of its own, under which the
server asks for the address of the client behind it. The relayed bytes are not inspected: TLS passes through.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import cast

DESCRIPTORS = 3
"""The file descriptors that a connection takes: its own, and both ends of the one that it is relayed to."""
_READ_BYTES = 64 * 1024
"""The bytes of a sender that the system may hold, which is about what is read at once and waits here."""


class Relay:
    """Relays connections to the server at `path`."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "s"
        self._folder = folder
        self._numbers = itertools.count()
        self._addresses: dict[str, str] = {}
        self._ends: set[_RelayedEnd] = set()
        self._none_left = asyncio.Event()
        self._none_left.set()

    @classmethod
    @asynccontextmanager
    async def open(cls) -> AsyncGenerator[Relay]:
        """A relay with a folder of its own.

        Raises:
            OSError: there is no folder for temporary files.
        """
        with tempfile.TemporaryDirectory(prefix="evalstream-") as folder:
            relay = cls(Path(folder))
            try:
                yield relay
            finally:
                await relay.close()

    def end_of(self, sender: str) -> _RelayedEnd:
        """The end of a connection from a sender's address; the listener in front opens it."""
        return _RelayedEnd(self, sender)

    def address_of(self, name: str) -> str | None:
        """The address for which the connection of a name is relayed; None if there is none."""
        return self._addresses.get(name)

    async def connect(self, near: _RelayedEnd, address: str) -> tuple[str, _RelayedEnd]:
        """Connect to the server for an address; gives the connection's name, to be forgotten, and its end.

        Raises:
            OSError: the server does not listen any more.
        """
        name = str(self._folder / str(next(self._numbers)))
        far = _RelayedEnd(self, address, near)
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.setblocking(False)
            connection.bind(name)
            self._addresses[name] = address
            await asyncio.get_running_loop().sock_connect(connection, str(self.path))
            await asyncio.get_running_loop().create_unix_connection(lambda: far, sock=connection)
        except BaseException:
            connection.close()
            self.forget(name)
            raise
        finally:
            with suppress(OSError):
                os.unlink(name)  # noqa: PTH108 - the name stays the connection's
        return name, far

    async def close(self) -> None:
        """Close every connection that is left."""
        await asyncio.gather(*filter(None, [end.abort() for end in list(self._ends)]), return_exceptions=True)
        await self._none_left.wait()

    def opened(self, end: _RelayedEnd) -> None:
        """An end is open."""
        self._ends.add(end)
        self._none_left.clear()

    def closed(self, end: _RelayedEnd) -> None:
        """An end is closed."""
        self._ends.discard(end)
        if not self._ends:
            self._none_left.set()

    def forget(self, name: str) -> None:
        """A connection has ended."""
        self._addresses.pop(name, None)


class _RelayedEnd(asyncio.Protocol):
    """One end of a relayed connection. The near one, of the sender, opens the far one."""

    def __init__(self, relay: Relay, address: str, other: _RelayedEnd | None = None) -> None:
        self._relay = relay
        self._address = address
        self._other = other
        self.transport: asyncio.Transport | None = None
        self._opening: asyncio.Task[None] | None = None
        self._name: str | None = None
        self._early = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast("asyncio.Transport", transport)  # uvloop's are no subclasses
        self.transport = transport
        self._relay.opened(self)
        transport.set_write_buffer_limits(high=0)  # what cannot be passed on is not read
        if self._other is None:
            transport.pause_reading()
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _READ_BYTES)
            self._opening = asyncio.create_task(self._open(transport))

    async def _open(self, transport: asyncio.Transport) -> None:
        try:
            self._name, self._other = await self._relay.connect(self, self._address)
        except OSError:
            transport.abort()
        else:
            if transport.is_closing():  # the sender has gone meanwhile
                self.connection_lost(None)
            else:
                self.data_received(self._early)
                self._early = b""
                transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        if self._other is None and self.transport is not None:
            # uvloop begins to read after `connection_made`, though that has paused it
            self._early += data
            self.transport.pause_reading()
            return
        if (other := self._other_transport()) is not None:
            other.write(data)

    def pause_writing(self) -> None:
        if (other := self._other_transport()) is not None:
            other.pause_reading()

    def resume_writing(self) -> None:
        if (other := self._other_transport()) is not None:
            other.resume_reading()

    def _other_transport(self) -> asyncio.Transport | None:
        transport = self._other.transport if self._other is not None else None
        return None if transport is None or transport.is_closing() else transport

    def close(self) -> None:
        """Close this end, after what is written."""
        if self.transport is not None:
            self.transport.close()

    def abort(self) -> asyncio.Task[None] | None:
        """Close this end at once; gives what opened the other end, to be waited for."""
        if self._opening is not None:
            self._opening.cancel()
        if self.transport is not None:
            self.transport.abort()
        return self._opening

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._relay.closed(self)
        if self._other is not None:
            self._other.close()
        if self._name is not None:
            self._relay.forget(self._name)
