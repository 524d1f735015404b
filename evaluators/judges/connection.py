"""The openai client's HTTP connections to one endpoint.

The openai package takes longer to import than all the rest of a judge, so nothing imports this module at its top: see
`OpenAIJudge`, which has it imported in a thread.
"""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, cast

import aiohttp
import httpx2
from openai import AsyncOpenAI, DefaultAioHttpClient

from evaluators.errors import JudgeUnavailable, JudgeUnreachable, NoCompletion

_BODY_LIMIT = 16 * 2**20
_JSON_HEADERS = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
_NO_TIMEOUT = aiohttp.ClientTimeout()
_Send: TypeAlias = Callable[..., AbstractAsyncContextManager[aiohttp.ClientResponse]]


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A response, read to its end. Its headers are found in any case."""

    status_code: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def is_success(self) -> bool:
        """Whether the status says so."""
        return 200 <= self.status_code < 300


class Connection:
    """Posts requests to one path of an endpoint. Made in any thread, used in one event loop. Close it with `aclose`."""

    def __init__(
        self,
        base_url: str,
        path: str,
        headers: Mapping[str, str],
        ssl_context: ssl.SSLContext | None = None,
        proxy: str | None = None,
        fresh_headers: Callable[[], Mapping[str, str]] | None = None,
    ) -> None:
        self._http = DefaultAioHttpClient(
            timeout=None, follow_redirects=False, base_url=base_url, verify=ssl_context or True, proxy=proxy
        )
        self._client = AsyncOpenAI(
            base_url=base_url,
            api_key="none",  # what authorizes is among the headers
            max_retries=0,
            timeout=None,
            http_client=self._http,
            default_headers=dict(headers),
        )
        self._url = httpx2.URL(base_url.rstrip("/") + path)
        self._fresh_headers = fresh_headers
        self._headers: Mapping[str, str] = {}
        self._send: _Send | None = None

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def post(self, content: bytes) -> HttpResponse:
        """The response to a request's JSON, read to its end, whatever its status.

        Raises:
            JudgeUnreachable: there is no connection.
            JudgeUnavailable: it broke.
            NoCompletion: the response is larger than any answer.
        """
        try:
            if self._send is None:
                self._send = self._sender()
            async with self._send(data=content, headers=self._headers_of_now()) as response:
                return HttpResponse(response.status, response.headers, await _body_of(response))
        except (aiohttp.ClientError, httpx2.HTTPError, OSError, ValueError) as error:
            # the last is what it says of headers that are none
            if (reason := _unreachable(error)) is not None:
                raise JudgeUnreachable(f"no connection to the judge: {reason}") from None
            raise JudgeUnavailable(f"no connection to the judge: {type(error).__name__}") from None

    def _sender(self) -> _Send:
        """Sends by the session that the client would send by, with its certificates and its proxy.

        The client makes options, address, headers, request and response again each time, and passes a body through
        five iterators: that costs as much CPU as the session itself.
        """
        http: Any = self._http
        transport = http._transport_for_url(self._url)  # noqa: SLF001 - it has no other way to say who has the proxy
        transport.client = session = transport.get_client()  # the client closes it
        every: dict[str, Any] = {**self._client.default_headers, **_JSON_HEADERS}
        self._headers = {name.lower(): value for name, value in every.items() if isinstance(value, str)}
        # Redirects would carry the key and the judged text to where nobody configured them to go. The deadline is the
        # judge's alone, for the client's would start again with each packet.
        options = {"allow_redirects": False, "timeout": _NO_TIMEOUT, **_through(transport.proxy)}
        return cast("_Send", partial(session.post, str(self._url), **options))

    def _headers_of_now(self) -> Mapping[str, str]:
        if self._fresh_headers is None:
            return self._headers
        return {**self._headers, **{name.lower(): value for name, value in self._fresh_headers().items()}}


def _through(proxy: httpx2.Proxy | None) -> Mapping[str, Any]:
    """The session's options for a proxy."""
    if proxy is None:
        return {}
    auth = aiohttp.BasicAuth(*proxy.auth) if proxy.auth else None
    return {"proxy": str(proxy.url), "proxy_auth": auth, "proxy_headers": proxy.headers}


async def _body_of(response: aiohttp.ClientResponse) -> bytes:
    left = _BODY_LIMIT
    chunks: list[bytes] = []
    while chunk := await response.content.readany():
        left -= len(chunk)
        if left < 0:
            raise NoCompletion(f"the response is larger than {_BODY_LIMIT} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


_NOBODY_THERE = {
    errno.ECONNREFUSED: "connection refused",
    errno.EHOSTUNREACH: "no route to the host",
    errno.ENETUNREACH: "no route to its network",
}


def _unreachable(error: BaseException) -> str | None:
    """Why no connection came about, where asking again soon is of little use; None if it is anything else.

    What an error was made of tells.
    """
    for each in _causes(error):
        if isinstance(each, socket.gaierror):
            return "its host's name cannot be looked up"
        if isinstance(each, ssl.SSLError) and (reason := getattr(each, "reason", None)):
            return f"TLS failed ({reason})"
        if isinstance(each, OSError) and each.errno in _NOBODY_THERE:
            return _NOBODY_THERE[each.errno]
    return None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
