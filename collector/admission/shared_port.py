"""A port that several processes of one command listen on: each connection goes to the one that has the fewest.

The system picks a process by a hash of the addresses. Senders of telemetry keep their few connections for days, so
an uneven choice stays uneven.
"""

from __future__ import annotations

import asyncio
import logging
import mmap
import os
import socket
from collections.abc import Callable, Sequence

logger = logging.getLogger(__name__)

PAUSE = 0.5
"""Seconds for which a process that has no descriptor left accepts nothing."""

_LISTENS, _OPEN, _RECEIVED = range(3)
"""Of a process: whether it listens, how many connections it has, how many it has received from others so far; behind
these, how many it has handed to each process. Each number has one writer."""


class SharedPort:
    """The share of one process in a port that several processes listen on.

    All are made by one process, which then forks: they have memory and sockets in common.
    """

    def __init__(
        self, number: int, rows: Sequence[memoryview[int]], ends: Sequence[tuple[socket.socket, socket.socket]]
    ) -> None:
        """See `among`."""
        self._number = number
        self._rows = rows
        self._mine = rows[number]
        self._ends = ends  # of each process: where it receives, and where the others send
        self._inbox = ends[number][0]
        self._paused: asyncio.TimerHandle | None = None

    @classmethod
    def among(cls, processes: int) -> list[SharedPort]:
        """One share for each of so many processes; make them before the processes are forked."""
        width = _RECEIVED + 1 + processes
        cells = memoryview(mmap.mmap(-1, 8 * width * processes)).cast("q")
        rows = [cells[width * process : width * (process + 1)] for process in range(processes)]
        ends = [socket.socketpair() for _ in range(processes)]
        for sock in (end for pair in ends for end in pair):
            sock.setblocking(False)
        return [cls(process, rows, ends) for process in range(processes)]

    def leave_others(self) -> None:
        """Close the ends at which the others receive, so that a connection that waits there is closed when its process
        ends.

        To be called after the fork, in the process to which this share belongs.
        """
        for number, (inbox, _) in enumerate(self._ends):
            if number != self._number:
                inbox.close()

    def close(self) -> None:
        """Close all of what is common, in this process."""
        for sock in (end for pair in self._ends for end in pair):
            sock.close()

    def add(self, change: int) -> None:
        """Note that so many more connections are open in this process."""
        self._mine[_OPEN] += change

    def try_hand_on(self, connection: socket.socket) -> bool:
        """Give a connection to a process that has fewer than this one; whether that was done. It is not closed here."""
        fewest = min(range(len(self._rows)), key=self._load)
        if self._load(fewest) >= self._load(self._number):
            return False
        try:
            socket.send_fds(self._ends[fewest][1], [b"+"], [connection.fileno()])
        except OSError:  # too many are on their way, or it has just stopped
            return False
        self._mine[_RECEIVED + 1 + fewest] += 1
        return True

    def start(self, take: Callable[[socket.socket], object]) -> None:
        """Take part, and give what others hand on to `take`, until `stop`."""
        asyncio.get_running_loop().add_reader(self._inbox, self._receive, take)
        self._mine[_LISTENS] = 1

    def stop(self) -> None:
        """Give up the share. A connection that was handed on and not taken is closed, and its client connects again."""
        self._cease()
        asyncio.get_running_loop().remove_reader(self._inbox)
        self._inbox.close()

    def _receive(self, take: Callable[[socket.socket], object]) -> None:
        try:
            _, received, _, _ = socket.recv_fds(self._inbox, 1, 1)
        except OSError:
            return
        self._mine[_RECEIVED] += 1
        if not received:  # the system has closed the connection
            logger.warning("a connection could not be accepted (no descriptor is left)")
            self._cease()  # gets nothing from others for a while
            self._paused = asyncio.get_running_loop().call_later(PAUSE, self._mine.__setitem__, _LISTENS, 1)
        elif connection := _socket_of(received[0]):
            take(connection)

    def _cease(self) -> None:
        self._mine[_LISTENS] = 0
        if self._paused is not None:
            self._paused.cancel()

    def _load(self, process: int) -> float:
        """The connections that a process has, with those on their way to it."""
        row = self._rows[process]
        handed = sum(each[_RECEIVED + 1 + process] for each in self._rows)
        return row[_OPEN] + handed - row[_RECEIVED] if row[_LISTENS] else float("inf")


def _socket_of(descriptor: int) -> socket.socket | None:
    """The socket of a descriptor; None if its client has gone already."""
    try:
        return socket.socket(fileno=descriptor)
    except OSError:
        os.close(descriptor)
        return None
