"""The requests of evaluations that wait for batches: their names, and the tasks that wait for each answer.

An evaluation that waits for hours need not stay in memory: when all its requests are in batches it can be cancelled,
and run again when answers are there. The journal has its earlier questions, by names that are the same in each run.
"""

import asyncio
import hashlib
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar

from evaluators.errors import JudgeError
from evaluators.results import Usage

_DIGITS = 32

_CURRENT: "ContextVar[OwnedRequests | None]" = ContextVar("requests", default=None)


class OwnedRequests:
    """The requests of one run of an evaluation, or of a pack. `on_change` is called when it may have come to rest."""

    def __init__(self, owner: str, on_change: Callable[[], None] = lambda: None) -> None:
        self.owner = owner_name(owner)
        self.waiting: dict[str, asyncio.Future[None]] = {}
        """Requests that are in submitted batches, each with a future that ends with its batch."""
        self._on_change = on_change
        self._numbers: dict[str, int] = {}
        self._posts = 0

    @property
    def at_rest(self) -> bool:
        """Whether the evaluation only waits for submitted batches."""
        return 0 < self._posts == len(self.waiting)

    def name(self, digest: str) -> str:
        """The name of the next request with this content. Equal requests are numbered in this run."""
        number = self._numbers[digest] = self._numbers.get(digest, 0) + 1
        return f"{self.owner}-{digest[:16]}-{number}"

    def wait(self, name: str, answered: asyncio.Future[None]) -> None:
        """A request is in a submitted batch."""
        self.waiting[name] = answered
        self._on_change()

    @contextmanager
    def posting(self) -> Generator[None]:
        """A context around the posting of a request."""
        self._posts += 1
        try:
            yield
        finally:
            self._posts -= 1
            self._on_change()

    @contextmanager
    def current(self) -> Generator[None]:
        """A context whose requests belong to this object, also the requests of tasks that begin in it."""
        token = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(token)


def owner_name(owner: str) -> str:
    """The prefix of the names of an evaluation's requests: 32 hex digits."""
    return hashlib.sha256(owner.encode()).hexdigest()[:_DIGITS]


def current_requests() -> OwnedRequests | None:
    """The requests of the running evaluation; None outside of `current`."""
    return _CURRENT.get()


class RequestWaits:
    """The requests of one endpoint that wait for an answer, by name."""

    def __init__(self) -> None:
        self._waiting: dict[str, asyncio.Future[None]] = {}
        self._owners: dict[str, OwnedRequests] = {}

    async def wait(self, name: str, requests: OwnedRequests | None, *, submitted: bool) -> None:
        """Wait until a request is woken.

        Raises:
            Exception: the request failed.
        """
        waiting = self._waiting.setdefault(name, asyncio.get_running_loop().create_future())
        if requests is None:
            await asyncio.shield(waiting)
        else:
            await self._wait_as(requests, name, waiting, submitted=submitted)

    async def _wait_as(
        self, requests: OwnedRequests, name: str, waiting: asyncio.Future[None], *, submitted: bool
    ) -> None:
        """Wait for a request of an evaluation, which may rest as soon as its batch is submitted."""
        self._owners[name] = requests
        if submitted:
            requests.wait(name, waiting)
        try:
            await asyncio.shield(waiting)
        finally:
            if self._owners.get(name) is requests:
                del self._owners[name]
            requests.waiting.pop(name, None)

    def let_rest(self, names: Iterable[str]) -> None:
        """These requests are in a submitted batch."""
        for name in names:
            requests, waiting = self._owners.get(name), self._waiting.get(name)
            if requests is not None and waiting is not None:
                requests.wait(name, waiting)

    def wake(self, names: Iterable[str], error: Exception | None = None) -> None:
        """Let these requests look for their answers, or fail."""
        for name in names:
            waiting = self._waiting.pop(name, None)
            if waiting is None or waiting.done():
                continue
            if error is None:
                waiting.set_result(None)
            else:
                waiting.set_exception(billed_to_nobody(error))


def billed_to_nobody(error: Exception) -> Exception:
    """A copy of the error for another question, without the bill."""
    return error.with_bill(Usage(), None) if isinstance(error, JudgeError) else error
