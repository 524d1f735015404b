"""Judges behind an HTTP endpoint: their settings, their connection, their time and their bill.

The connection is made when it is first needed. The cost of a request follows from the prices of its model; a kind of
warning about an endpoint is said at most once an hour.
"""

import asyncio
import logging
import math
import os
import random
import re
import time
from collections.abc import AsyncGenerator, Callable, Hashable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, Self, TypedDict

import orjson

from evaluators.asking.sight import BLIND, Sight
from evaluators.cases import Json
from evaluators.errors import JudgeError, JudgeUnavailable
from evaluators.judges.apis.chat import CHAT
from evaluators.judges.apis.deciding import DecidingApi, DecisionReply
from evaluators.judges.apis.decisions import DECISIONS
from evaluators.judges.apis.writing import WritingApi, key_of
from evaluators.judges.completions import Completion, with_estimates
from evaluators.judges.connection import Connecting, Connection, connection_problem
from evaluators.judges.error_mapping import HttpStatusError, to_judge_error
from evaluators.results import Usage

if TYPE_CHECKING:
    import ssl

    from openai import AsyncOpenAI


logger = logging.getLogger(__name__)

_HOUR = 3600.0
_PLAIN_HEADER = re.compile(r"(?i)version|beta|organi[sz]ation|project|region|^accept|^content-|user-agent")
"""Names of headers whose values are not secret."""


class Notices:
    """Warnings about one judge. They hold no judged text."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._last_times: dict[str, float] = {}

    def warn(self, kind: str, words: str) -> None:
        """Warn, unless a warning of this kind was given within the hour."""
        now = time.monotonic()
        if now - self._last_times.get(kind, -math.inf) >= _HOUR:
            self._last_times[kind] = now
            logger.warning("judge %s: %s", self._model, words)

    def warn_of_estimates(self) -> None:
        """Warn once of tokens that had to be estimated."""
        if "usage" not in self._last_times:
            self.warn("usage", _ESTIMATED)


_ESTIMATED = (
    "the endpoint reports no usable number of tokens (usage); tokens and cost of such answers are estimated from the "
    "texts, and budgets charge the estimates"
)


_LONGEST_WAIT = 60.0
"""The longest wait, in seconds, that an endpoint may ask for before the same request is posted again."""


@dataclass(frozen=True, slots=True)
class EndpointReply:
    """The body of a response of status 200, and the share of the list price that its request costs."""

    content: bytes
    price_share: float = 1.0


class RequestOutdated(Exception):
    """The request was not sent, as another request of its shape was refused meanwhile: make it again, and post it
    again.
    """


class PostsRequests(Protocol):
    """The destination of a judge's requests."""

    async def aclose(self) -> None:
        """Close the connections."""

    async def connected(self) -> object:
        """Do the slow preparations before the first request.

        Raises:
            JudgeUnavailable: it cannot be.
        """
        ...

    async def post(self, body: Mapping[str, Json], shape: Hashable = None) -> EndpointReply:
        """The response to a request. `shape` stands for the features of the request that an endpoint may refuse; many
        requests share a shape. A request without a shape goes out at once, as many other requests wait for it.

        Raises:
            HttpStatusError: it has a status of an error.
            JudgeError: there is no response.
            RequestOutdated: it has to be made again.
        """
        ...


def at_once(endpoint: PostsRequests) -> PostsRequests:
    """The endpoint unchanged: requests go out when they are posted."""
    return endpoint


class Endpoint:
    """Posts requests to one address. One event loop at a time; each has a connection of its own.

    `on_headers` is told the headers of each response. A request that is refused for now, as by 429 or 500, is posted
    again `retries` times. Close it with `aclose`; so does the end of `asyncio.run`.
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
    connection of a judge that was left open: nothing else is told in time that a loop ends.
    """
    async with aclosing(connection):
        yield


@dataclass(frozen=True, slots=True)
class Prices:
    """US dollars per million tokens; if None, tokens read from or written into a cache cost as much as other input."""

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


@dataclass(slots=True)
class CostTracker:
    """The cost of one question so far, over all its requests, and the last model that answered. The cost is None if no
    price is known, and 0 if nothing was paid.
    """

    prices: Prices
    notices: Notices
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = None
    model: str | None = None
    fingerprint: str | None = None

    def __post_init__(self) -> None:
        self.cost_usd = self.prices.cost(self.usage)

    def add(
        self, reply: Completion | DecisionReply, question_tokens: int, answer_tokens: int, price_share: float = 1.0
    ) -> None:
        """Add a request that costs a share of its list price.

        `question_tokens` and `answer_tokens` are estimates, for a response that does not report them.
        """
        usage = with_estimates(reply.usage, question_tokens, answer_tokens)
        if usage.estimated_calls:
            self.notices.warn_of_estimates()
        self.usage += usage
        if (cost := self.prices.cost(usage)) is not None:
            self.cost_usd = (self.cost_usd or 0.0) + cost * price_share
        self.model = reply.model
        self.fingerprint = reply.fingerprint

    def attach(self, error: JudgeError) -> JudgeError:
        """The error, with the bill on it."""
        error.usage, error.cost_usd = self.usage, self.cost_usd
        return error


Headers = Mapping[str, str]


def as_it_is(connection: Connecting) -> Connecting:
    """The connection, unwrapped."""
    return connection


def _ignore(_headers: Headers) -> None: ...


class EndpointOptions(TypedDict, total=False):
    """The keyword arguments that all judges behind endpoints take: see `OpenAIJudge`."""

    base_url: str | None
    api_key: str | None
    timeout: float
    input_price: float | None
    output_price: float | None
    cached_input_price: float | None
    cache_write_price: float | None
    headers: Headers | None
    fresh_headers: Callable[[], Headers] | None
    extra_body: Mapping[str, Json] | None
    ssl_context: "ssl.SSLContext | None"
    proxy: str | None
    on_headers: Callable[[Headers], None]
    client: "AsyncOpenAI | Callable[[], AsyncOpenAI] | None"
    retries: int
    tracing: Callable[[Connecting], Connecting]


class DecidingOptions(EndpointOptions, total=False):
    """The keyword arguments of `DecisionJudge`."""

    api: DecidingApi


class WritingOptions(EndpointOptions, total=False):
    """The keyword arguments of `OpenAIJudge`."""

    api: WritingApi
    temperature: float
    max_tokens: int | None
    top_logprobs: int | None
    optional: Mapping[str, Json] | None
    answer_key: bool
    subject_first: bool
    sight: Sight
    posting: Callable[[Endpoint], PostsRequests]
    secret: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointSettings:
    """The values of `EndpointOptions`, with defaults."""

    base_url: str | None = None
    api_key: str | None = None
    timeout: float = 60.0
    input_price: float | None = None
    output_price: float | None = None
    cached_input_price: float | None = None
    cache_write_price: float | None = None
    headers: Headers | None = None
    fresh_headers: Callable[[], Headers] | None = None
    extra_body: Mapping[str, Json] | None = None
    ssl_context: "ssl.SSLContext | None" = None
    proxy: str | None = None
    on_headers: Callable[[Headers], None] = _ignore
    client: "AsyncOpenAI | Callable[[], AsyncOpenAI] | None" = None
    retries: int = 2
    tracing: Callable[[Connecting], Connecting] = as_it_is

    @property
    def prices(self) -> Prices:
        """The prices of the model's tokens."""
        return Prices(self.input_price, self.output_price, self.cached_input_price, self.cache_write_price)

    def connection(self, base_url: str, path: str, headers: Headers) -> Connecting:
        """Open a connection to a path of the endpoint; configured headers replace `headers` of the same name."""
        if self.client is not None:
            from evaluators.judges.client_connection import ClientConnection

            own = callable(self.client)
            client = self.client() if callable(self.client) else self.client
            return self.tracing(ClientConnection(client, path, self.headers or {}, self.fresh_headers, own=own))
        every = {**headers, **(self.headers or {})}
        return self.tracing(Connection(base_url, path, every, self.ssl_context, self.proxy, self.fresh_headers))

    def address(self, api: WritingApi | DecidingApi) -> str:
        """The base URL: as given, of the environment, or the vendor's."""
        return self.base_url or os.environ.get(f"{api.vendor}_BASE_URL") or api.base_url

    def endpoint(self, api: WritingApi | DecidingApi) -> Endpoint:
        """The endpoint of a wire format; a missing address or key comes from the environment or is the vendor's.

        Raises:
            ValueError: there is no key.
        """
        base_url = self.address(api)
        headers: Headers = {} if self.client is not None else api.headers(key_of(api.vendor, self.api_key))
        return Endpoint(lambda: self.connection(base_url, api.path, headers), self.on_headers, self.retries)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidingSettings(EndpointSettings):
    """The values of `DecidingOptions`, with defaults."""

    api: DecidingApi = DECISIONS
    output_price: float | None = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WritingSettings(EndpointSettings):
    """The values of `WritingOptions`, with defaults."""

    api: WritingApi = CHAT
    temperature: float = 0.0
    max_tokens: int | None = None
    top_logprobs: int | None = None
    optional: Mapping[str, Json] | None = None
    answer_key: bool = True
    subject_first: bool = False
    sight: Sight = BLIND
    posting: Callable[[Endpoint], PostsRequests] = at_once
    secret: bytes | None = None


class EndpointJudge:
    """A judge behind an endpoint. Close it with `aclose`, or use it as an async context manager."""

    def __init__(self, model: str, settings: EndpointSettings, endpoint: PostsRequests) -> None:
        self._model = model
        self._timeout = settings.timeout
        self._prices = settings.prices
        self._notices = Notices(model)
        self._extra_body = dict(settings.extra_body or {})
        self._fresh_headers = settings.fresh_headers or dict[str, str]
        secret_headers = [value for name, value in (settings.headers or {}).items() if not _PLAIN_HEADER.search(name)]
        self._secrets = [settings.api_key or "", *secret_headers]
        self._endpoint = endpoint

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._endpoint.aclose()

    def _refused(self, error: HttpStatusError, question: str) -> JudgeError:
        """The judge's error for a refusal; the endpoint may quote the question and the key in it."""
        sent = [*self._secrets, *self._fresh_headers().values()]
        return to_judge_error(error, question, [value.rpartition(" ")[2] for value in sent])

    @asynccontextmanager
    async def _billed(self) -> AsyncGenerator[CostTracker]:
        """A question within its time; an error carries the bill."""
        bill = CostTracker(self._prices, self._notices)
        await self._endpoint.connected()  # not the endpoint's time
        sent = hash(frozenset(self._fresh_headers().items()))
        try:
            async with asyncio.timeout(self._timeout):
                yield bill
        except TimeoutError:
            error = JudgeUnavailable(f"no answer within {self._timeout:g} s", type="judge_timeout")
            raise bill.attach(error) from None
        except JudgeError as error:
            error.sent = sent
            raise bill.attach(error) from None
