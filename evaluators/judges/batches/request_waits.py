"""The waiters for the answer to each request."""

import asyncio
from collections.abc import Iterable

from evaluators.errors import JudgeError
from evaluators.judges.batches.owned_requests import OwnedRequests
from evaluators.results import Usage


class RequestWaits:
    """The requests of one endpoint that wait for an answer, by name."""

    def __init__(self) -> None:
        self._waiting: dict[str, asyncio.Future[None]] = {}
        self._owners: dict[str, OwnedRequests] = {}

    async def wait(self, name: str, requests: OwnedRequests | None, *, submitted: bool) -> None:
        """Wait until a request is woken.

        Raises:
            Exception: it failed.
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
    """The error for another question."""
    return error.with_bill(Usage(), None) if isinstance(error, JudgeError) else error
