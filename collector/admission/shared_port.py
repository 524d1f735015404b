"""A port that several processes of one command listen on: each connection goes to the one that has the fewest.

The system picks a process by a hash of the addresses. Senders of telemetry keep their few connections for days, so
what a hash makes uneven stays so.
"""

from __future__ import annotations

import asyncio
import mmap
import socket
from collections.abc import Callable, Sequence

_LISTENS, _OPEN, _RECEIVED = range(3)
"""Of a process: whether it listens, how many connections it has, how many it has received from others so far; behind
these, how many it has handed to each process. Each number has one writer."""


class SharedPort:
    """What one process of several has of a port that all of them listen on.

    All are made by one process, which then forks: they have memory and sockets in common.
    """

    def __init__(
        self, number: int, rows: Sequence[memoryview[int]], ends: Sequence[tuple[socket.socket, socket.socket]]
    ) -> None:
        """See `among`."""
        self._number = number
        self._rows = rows
        self._mine = rows[number]
        self._ends = ends
        self._inbox = ends[number][0]

    @classmethod
    def among(cls, processes: int) -> list[SharedPort]:
        """The part of each of so many processes, to be made before they are forked."""
        width = _RECEIVED + 1 + processes
        cells = memoryview(mmap.mmap(-1, 8 * width * processes)).cast("q")
        rows = [cells[width * each : width * (each + 1)] for each in range(processes)]
        ends = [socket.socketpair() for _ in range(processes)]
        for each in (end for pair in ends for end in pair):
            each.setblocking(False)
        return [cls(each, rows, ends) for each in range(processes)]

    def count(self, change: int) -> None:
        """So many connections were opened here, or have ended."""
        self._mine[_OPEN] += change

    def hand_on(self, connection: socket.socket) -> bool:
        """Give a connection to a process that has fewer than this one; whether that was done. It is not closed here."""
        fewest = min(range(len(self._rows)), key=self._load)
        if self._load(fewest) >= self._load(self._number):
            return False
        try:
            socket.send_fds(self._ends[fewest][1], [b"+"], [connection.fileno()])
        except OSError:  # too many are on their way
            return False
        self._mine[_RECEIVED + 1 + fewest] += 1
        return True

    def start(self, take: Callable[[socket.socket], object]) -> None:
        """Take part, and give what others hand on to `take`, until `stop`."""
        asyncio.get_running_loop().add_reader(self._inbox, self._receive, take)
        self._mine[_LISTENS] = 1

    def stop(self) -> None:
        """Have no part any more. Whoever was handed on and not taken is closed, and connects again."""
        self._mine[_LISTENS] = 0
        asyncio.get_running_loop().remove_reader(self._inbox)
        while connection := self._next():
            connection.close()

    def close(self) -> None:
        """Close what is common, in this process: the parts of the others, too."""
        for each in (end for pair in self._ends for end in pair):
            each.close()

    def _receive(self, take: Callable[[socket.socket], object]) -> None:
        if connection := self._next():
            take(connection)

    def _next(self) -> socket.socket | None:
        """The next connection that was handed to this process."""
        try:
            _, received, _, _ = socket.recv_fds(self._inbox, 1, 1)
        except OSError:
            return None
        self._mine[_RECEIVED] += 1
        return socket.socket(fileno=received[0]) if received else None

    def _load(self, process: int) -> float:
        """The connections that a process has, with those on their way to it."""
        row = self._rows[process]
        handed = sum(each[_RECEIVED + 1 + process] for each in self._rows)
        return row[_OPEN] + handed - row[_RECEIVED] if row[_LISTENS] else float("inf")
