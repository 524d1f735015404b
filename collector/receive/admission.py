"""How much may be on its way into the spans log at once."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from prometheus_client import Gauge

from collector.errors import Overloaded


class Place:
    """One request's share of what may be pending."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self.bytes = 0

    def take(self, count: int) -> None:
        """Take room for so many more bytes.

        Raises:
            Overloaded: there is none.
        """
        self._admission.take(count)
        self.bytes += count


class Admission:
    """Bounds the requests that are read but not yet durable, by number and by bytes.

    `pending` counts the bytes of all receivers together.
    """

    def __init__(self, *, max_requests: int, max_bytes: int, retry_after: float, pending: Gauge) -> None:
        self._max_requests = max_requests
        self._max_bytes = max_bytes
        self._retry_after = retry_after
        self._pending = pending
        self._requests = 0
        self._bytes = 0

    @contextmanager
    def place(self) -> Generator[Place]:
        """A place, given back at the end.

        Raises:
            Overloaded: all are taken.
        """
        if self._requests >= self._max_requests:
            raise Overloaded("too many requests are being taken in", retry_after=self._retry_after)
        self._requests += 1
        place = Place(self)
        try:
            yield place
        finally:
            self._requests -= 1
            self._bytes -= place.bytes
            self._pending.dec(place.bytes)

    def take(self, count: int) -> None:
        """Take room for so many more bytes.

        Raises:
            Overloaded: there is none.
        """
        if self._bytes + count > self._max_bytes:
            raise Overloaded("too many bytes are being taken in", retry_after=self._retry_after)
        self._bytes += count
        self._pending.inc(count)
