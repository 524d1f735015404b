"""The settings of judges behind endpoints, and the keyword arguments that make them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from evaluators.asking.sight import BLIND, Sight
from evaluators.cases import Json
from evaluators.judges.apis.chat import CHAT
from evaluators.judges.apis.deciding import DecidingApi
from evaluators.judges.apis.decisions import DECISIONS
from evaluators.judges.apis.writing import WritingApi, key_of
from evaluators.judges.connection import Connecting, Connection
from evaluators.judges.endpoint import Endpoint, PostsRequests, Prices, at_once

if TYPE_CHECKING:
    import ssl

    from openai import AsyncOpenAI

Headers = Mapping[str, str]


def as_it_is(connection: Connecting) -> Connecting:
    """The connection, with nothing around it."""
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
    ssl_context: ssl.SSLContext | None
    proxy: str | None
    on_headers: Callable[[Headers], None]
    client: AsyncOpenAI | Callable[[], AsyncOpenAI] | None
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
    ssl_context: ssl.SSLContext | None = None
    proxy: str | None = None
    on_headers: Callable[[Headers], None] = _ignore
    client: AsyncOpenAI | Callable[[], AsyncOpenAI] | None = None
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

    def endpoint(self, api: WritingApi | DecidingApi) -> Endpoint:
        """The endpoint of a wire format; a missing address or key comes from the environment or is the vendor's.

        Raises:
            ValueError: there is no key.
        """
        base_url = self.base_url or os.environ.get(f"{api.vendor}_BASE_URL") or api.base_url
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
