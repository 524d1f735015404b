"""The openai client's HTTP connections to one endpoint.

The openai package takes longer to import than all the rest of a judge, so nothing imports this module at its top: see
`OpenAIJudge`, which has it imported in a thread.
"""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any

import aiohttp
import httpx2
from openai import AsyncOpenAI, DefaultAioHttpClient

from evaluators.errors import JudgeUnavailable, JudgeUnreachable, NoCompletion

_BODY_LIMIT = 16 * 2**20
_CHUNK = 2**20
"""Bytes of a body that are taken at once, if that many have come."""
_JSON_HEADERS = {"Content-Type": "application/json", "Accept-Encoding": "identity"}


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
        # Redirects would carry the key and the judged text to where nobody configured them to go. The deadline is the
        # judge's alone, for the client's would start again with each packet.
        self._http = DefaultAioHttpClient(
            timeout=None,
            follow_redirects=False,
            event_hooks={"response": [_limit_body]},
            base_url=base_url,
            verify=ssl_context or True,
            proxy=proxy,
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
        self._headers: httpx2.Headers | None = None
        self._fresh_headers = fresh_headers

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def post(self, content: bytes) -> httpx2.Response:
        """The response to a request's JSON, read to its end, whatever its status.

        Raises:
            JudgeUnreachable: there is no connection.
            JudgeUnavailable: it broke.
            NoCompletion: the response is larger than any answer.
        """
        try:
            return await self._http.send(self._request_of(content))
        except (aiohttp.ClientError, httpx2.HTTPError, OSError, ValueError) as error:
            # some pass through the client unchanged; the last is what it says of headers that are none
            if (reason := _unreachable(error)) is not None:
                raise JudgeUnreachable(f"no connection to the judge: {reason}") from None
            raise JudgeUnavailable(f"no connection to the judge: {type(error).__name__}") from None
        except _TooLarge:
            raise NoCompletion(f"the response is larger than {_BODY_LIMIT} bytes") from None

    def _request_of(self, content: bytes) -> httpx2.Request:
        """The request, made of parts that are the same every time.

        The client would make them for each request, which costs as much CPU as everything else in a call.
        """
        if self._headers is None:
            every: dict[str, Any] = {**self._client.default_headers, **_JSON_HEADERS}
            self._headers = httpx2.Headers({name: value for name, value in every.items() if isinstance(value, str)})
        headers = self._headers
        if self._fresh_headers is not None:
            headers = self._headers.copy()
            headers.update(dict(self._fresh_headers()))
        return httpx2.Request("POST", self._url, headers=headers, content=content)


_NOBODY_THERE = {
    errno.ECONNREFUSED: "connection refused",
    errno.EHOSTUNREACH: "no route to the host",
    errno.ENETUNREACH: "no route to its network",
}


def _unreachable(error: BaseException) -> str | None:
    """Why no connection came about, where asking again soon is of little use; None if it is anything else.

    The client's own errors do not tell: to it a refused connection is a timeout. What they were made of does.
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


class _TooLarge(Exception):
    """A response beyond the limit."""


class _LimitedBody(httpx2.AsyncByteStream):
    """A response's body that ends in an error where it goes beyond the limit."""

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        # In one piece: the client would pass each of many small ones through three more iterators.
        left = _BODY_LIMIT
        chunks: list[bytes] = []
        async for chunk in self._stream:
            left -= len(chunk)
            if left < 0:
                raise _TooLarge("too large")
            chunks.append(chunk)
        yield b"".join(chunks)

    async def aclose(self) -> None:
        await self._stream.aclose()


async def _limit_body(response: httpx2.Response) -> None:
    """Called between the headers and the body."""
    stream: Any = response.stream
    transport: Any = getattr(stream, "_stream", None)
    if hasattr(transport, "CHUNK_SIZE"):  # 16 kB, into which it would cut up what has come
        transport.CHUNK_SIZE = _CHUNK
    response.stream = _LimitedBody(stream)
