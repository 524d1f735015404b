"""The HTTP endpoint of a judge: its connection, made when it is first needed, and what a request brings.

The tracker of costs counts what its requests cost by the prices of its model.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import orjson

from evaluators.cases import Json
from evaluators.errors import JudgeError, JudgeUnavailable
from evaluators.judges.connection import Connecting, connection_problem
from evaluators.judges.error_mapping import HttpStatusError, to_judge_error
from evaluators.judges.notices import Notices
from evaluators.judges.usage import with_estimates
from evaluators.results import Usage

_LONGEST_WAIT = 60.0
"""Seconds that an endpoint is waited for at its word, before the same request is posted again."""


@dataclass(frozen=True, slots=True)
class EndpointReply:
    """The body of a response of status 200, and the share of the list price that its request costs."""

    content: bytes
    price_share: float = 1.0


class RequestOutdated(Exception):
    """The request was not sent: one of its shape was refused meanwhile, so it is to be made again, and posted again."""


class PostsRequests(Protocol):
    """The destination of a judge's requests."""

    async def aclose(self) -> None:
        """Close the connections."""
        ...

    async def connected(self) -> object:
        """Be ready: what takes time before the first request.

        Raises:
            JudgeUnavailable: it cannot be.
        """
        ...

    async def post(self, body: Mapping[str, Json], shape: Hashable = None) -> EndpointReply:
        """The response to a request. `shape` is what it has of what an endpoint may refuse; others have it, too.

        One without a shape is waited for by many others, and goes out at once.

        Raises:
            HttpStatusError: it has a status of an error.
            JudgeError: there is no response.
            RequestOutdated: it has to be made again.
        """
        ...


def at_once(endpoint: PostsRequests) -> PostsRequests:
    """The endpoint as it is: requests go out when they are posted."""
    return endpoint


class Endpoint:
    """Posts requests to one address. One event loop at a time; each has a connection of its own.

    `on_headers` is told the headers of each response. A request that is refused for now, as by 429 or 500, is posted
    again `retries` times. Close it with `aclose`; the end of `asyncio.run` closes it, too.
    """

    def __init__(
        self, connect: Callable[[], Connecting], on_headers: Callable[[Mapping[str, str]], None], retries: int = 0
    ) -> None:
        self._connect = connect
        self._on_headers = on_headers
        self._retries = retries
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connecting = asyncio.Lock()
        self._connection: Connecting | None = None
        self._lifetime: AsyncGenerator[None] | None = None

    async def aclose(self) -> None:
        """Close the connections."""
        if self._lifetime is not None:
            await self._lifetime.aclose()

    async def connected(self) -> Connecting:
        """The connection, made in a thread for the first question: reading certificates would hold the loop.

        Each event loop has its own: sockets of a loop that has ended are dead, and a script may well call `asyncio.run`
        or `evaluate_sync` twice with one judge.

        Raises:
            JudgeUnavailable: certificates or a proxy that the environment names cannot be used.
        """
        if self._loop is not (loop := asyncio.get_running_loop()):
            self._loop, self._connecting, self._connection = loop, asyncio.Lock(), None
        if self._connection is not None:
            return self._connection
        async with self._connecting:
            if self._connection is None:
                try:
                    connection = await asyncio.to_thread(self._connect)
                except (OSError, ValueError) as error:  # certificates or proxies that the environment names
                    raise JudgeUnavailable(f"no connection to the judge: {connection_problem(error)}") from None
                self._lifetime = _until_closed(connection)
                await anext(self._lifetime)
                self._connection = connection
            return self._connection

    async def post(self, body: Mapping[str, Json], shape: Hashable = None) -> EndpointReply:  # noqa: ARG002 - for those that gather
        """The response to a request.

        Raises:
            HttpStatusError: it has a status of an error.
            JudgeUnavailable: there is no response.
        """
        connection = await self.connected()
        content = orjson.dumps(body)
        attempt = 0
        while True:
            response = await connection.post(content)
            self._on_headers(response.headers)
            if response.is_success:
                return EndpointReply(response.content)
            refusal = HttpStatusError(response.status_code, response.headers, response.content)
            error = to_judge_error(refusal)
            if attempt >= self._retries or not isinstance(error, JudgeUnavailable):
                raise refusal
            attempt += 1
            await asyncio.sleep(min(error.retry_after or 0.0, _LONGEST_WAIT) + random.uniform(0.0, attempt / 2))


async def _until_closed(connection: Connecting) -> AsyncGenerator[None]:
    """Holds a connection open. `asyncio.run` ends the generators of its loop before the loop itself, and so closes the
    connection of a judge that nobody closed: nothing else is told in time that a loop ends.
    """
    try:
        yield
    finally:
        await connection.aclose()


@dataclass(frozen=True, slots=True)
class Prices:
    """US dollars per million tokens; what is cached and what is written into a cache costs as any input if None."""

    input: float | None
    output: float | None
    cached_input: float | None = None
    cache_write: float | None = None

    def cost(self, usage: Usage) -> float | None:
        """The cost of a request, in US dollars; None without prices."""
        if self.input is None or self.output is None:
            return None
        cached = min(usage.cached_input_tokens or 0, usage.input_tokens)
        written = min(usage.cache_write_tokens or 0, usage.input_tokens - cached)
        cached_price = self.input if self.cached_input is None else self.cached_input
        write_price = self.input if self.cache_write is None else self.cache_write
        tokens = (usage.input_tokens - cached - written) * self.input + usage.output_tokens * self.output
        return (tokens + cached * cached_price + written * write_price) / 1e6


class Billed(Protocol):
    """The billed part of one response."""

    @property
    def model(self) -> str | None:
        """The model that answered."""
        ...

    @property
    def fingerprint(self) -> str | None:
        """The build of that model."""
        ...

    @property
    def usage(self) -> Usage:
        """The billed usage."""
        ...


@dataclass(slots=True)
class CostTracker:
    """The cost of one question so far, over all its requests, and the last model that answered.

    The cost is None where no price is known, and 0 where nothing was paid.
    """

    prices: Prices
    notices: Notices
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = None
    model: str | None = None
    fingerprint: str | None = None

    def __post_init__(self) -> None:
        self.cost_usd = self.prices.cost(self.usage)

    def add(self, completion: Billed, question_tokens: int, answer_tokens: int, price_share: float = 1.0) -> None:
        """Add a request, of which a share of the list price is paid.

        `question_tokens` and `answer_tokens` are estimates, for a response that does not report them.
        """
        usage = with_estimates(completion.usage, question_tokens, answer_tokens)
        self.notices.look_at(usage)
        self.usage = self.usage + usage
        if (cost := self.prices.cost(usage)) is not None:
            self.cost_usd = (self.cost_usd or 0.0) + cost * price_share
        self.model = completion.model
        self.fingerprint = completion.fingerprint

    def attach(self, error: JudgeError) -> JudgeError:
        """The error, with the bill on it."""
        error.usage, error.cost_usd = self.usage, self.cost_usd
        return error
