"""The requests of one evaluation that waits for batches: their names, and what it waits for.

An evaluation that waits for hours need not stay in memory: when all its requests are in batches it can be cancelled,
and run again when answers are there. The journal has what it asked before, by names that are the same in each run.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar

_DIGITS = 32

_CURRENT: ContextVar[OwnedRequests | None] = ContextVar("requests", default=None)


class OwnedRequests:
    """The requests of one run of an evaluation, or of a pack. `on_change` is called when it may have come to rest."""

    def __init__(self, owner: str, on_change: Callable[[], None] = lambda: None) -> None:
        self.owner = owner_name(owner)
        self.waiting: dict[str, asyncio.Future[None]] = {}
        """Requests that are in submitted batches, and what ends when such a batch does."""
        self._on_change = on_change
        self._numbers: dict[str, int] = {}
        self._posts = 0

    @property
    def at_rest(self) -> bool:
        """Whether everything that it does is to wait for submitted batches."""
        return 0 < self._posts == len(self.waiting)

    def name(self, digest: str) -> str:
        """The name of the next request with this content. Equal ones are told apart by their number in this run."""
        number = self._numbers[digest] = self._numbers.get(digest, 0) + 1
        return f"{self.owner}-{digest[:16]}-{number}"

    def wait(self, name: str, answered: asyncio.Future[None]) -> None:
        """A request is in a submitted batch."""
        self.waiting[name] = answered
        self._on_change()

    @contextmanager
    def posting(self) -> Generator[None]:
        """While a request is being posted."""
        self._posts += 1
        try:
            yield
        finally:
            self._posts -= 1
            self._on_change()

    @contextmanager
    def current(self) -> Generator[None]:
        """Requests that are posted within are these; so are those of tasks that begin within."""
        token = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(token)


def owner_name(owner: str) -> str:
    """The prefix of the names of an evaluation's requests: 32 hex digits."""
    return hashlib.sha256(owner.encode()).hexdigest()[:_DIGITS]


def current_requests() -> OwnedRequests | None:
    """The requests of the evaluation that runs; None where nobody has said."""
    return _CURRENT.get()
