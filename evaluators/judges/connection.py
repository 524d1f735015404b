"""The HTTP connections of a judge to one endpoint."""

from __future__ import annotations

import errno
import io
import os
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

from evaluators.errors import JudgeUnavailable, JudgeUnreachable, NoCompletion

_MOST_CONNECTIONS = 1000
_LONG = 1 << 20
"""Bytes of a body beyond which aiohttp warns of one that is written at once."""


def trusting(ssl_context: ssl.SSLContext | None) -> ssl.SSLContext | None:
    """The given context, else one with the certificates that the environment names; None for the usual authorities.

    Raises:
        OSError: they cannot be read.
    """
    file, folder = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    if ssl_context is not None or not (file or folder):
        return ssl_context
    return ssl.create_default_context(cafile=file or None, capath=folder or None)


def proxy_for(url: str, proxy: str | None) -> str | None:
    """The proxy to an address: the given one, else that which the environment names for it, if any.

    Raises:
        JudgeUnavailable: the environment names one of another kind than HTTP.
    """
    if proxy is None:
        parts = urlsplit(url)
        named = getproxies()
        proxy = None if proxy_bypass(parts.netloc) else named.get(parts.scheme) or named.get("all")
    if not proxy:
        return None
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    if not proxy.lower().startswith(("http://", "https://")):
        kind = proxy.partition(":")[0]
        raise JudgeUnavailable(
            f"no connection to the judge: the environment names a proxy of the kind {kind}, and only HTTP proxies are "
            "spoken to; name one with the judge's key `proxy`, or put the judge's host into NO_PROXY"
        )
    return proxy


def is_success(status: int) -> bool:
    """Whether the status of a response says so; a redirect is none, as nobody is followed elsewhere."""
    return 200 <= status < 300


def body_of(content: bytes) -> bytes | io.BytesIO:
    """The content as a session takes it: what is long is written piece by piece, and does not hold the loop."""
    return content if len(content) <= _LONG else io.BytesIO(content)


def open_session(
    headers: Mapping[str, str], *, ssl_context: ssl.SSLContext | None, proxy: str | None, timeout: aiohttp.ClientTimeout
) -> aiohttp.ClientSession:
    """A session of the running event loop, without cookies. Close it.

    The proxy is given and not left to the session, which would look into `.netrc` for each request, too.
    """
    connector = aiohttp.TCPConnector(ssl=ssl_context or True, limit=_MOST_CONNECTIONS)
    return aiohttp.ClientSession(
        connector=connector, cookie_jar=aiohttp.DummyCookieJar(), headers=headers, proxy=proxy, timeout=timeout
    )


_BODY_LIMIT = 16 * 2**20
_HEADERS = {"content-type": "application/json", "accept": "application/json", "accept-encoding": "identity"}
_NO_TIMEOUT = aiohttp.ClientTimeout()
"""The deadline is the judge's alone: one of the session would start again with each packet."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A response, read to its end. Its headers are found in any case."""

    status_code: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def is_success(self) -> bool:
        """Whether the status says so."""
        return is_success(self.status_code)


class Connection:
    """Posts requests to one path of an endpoint, in one event loop. Close it with `aclose`.

    Raises:
        OSError: the certificates that the environment names cannot be read.
        JudgeUnavailable: the proxy that it names is none that can be used.
    """

    def __init__(
        self,
        base_url: str,
        path: str,
        headers: Mapping[str, str],
        ssl_context: ssl.SSLContext | None = None,
        proxy: str | None = None,
        fresh_headers: Callable[[], Mapping[str, str]] | None = None,
    ) -> None:
        self._url = base_url.rstrip("/") + path
        self._headers = {**_HEADERS, **_in_lower_case(headers)}
        self._ssl_context = trusting(ssl_context)
        self._proxy = proxy_for(base_url, proxy)
        self._fresh_headers = fresh_headers
        self._session: aiohttp.ClientSession | None = None

    async def aclose(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    async def post(self, content: bytes) -> HttpResponse:
        """The response to a request's JSON, read to its end, whatever its status.

        Raises:
            JudgeUnreachable: there is no connection.
            JudgeUnavailable: it broke.
            NoCompletion: the response is larger than any answer.
        """
        if self._session is None:
            self._session = open_session(
                self._headers, ssl_context=self._ssl_context, proxy=self._proxy, timeout=_NO_TIMEOUT
            )
        fresh = None if self._fresh_headers is None else _in_lower_case(self._fresh_headers())
        try:
            # Redirects would carry the key and the judged text to where nobody configured them to go.
            async with self._session.post(
                self._url, data=body_of(content), headers=fresh, allow_redirects=False
            ) as response:
                return HttpResponse(response.status, response.headers, await _body_of(response))
        except (aiohttp.ClientError, OSError, ValueError) as error:  # the last is what it says of headers that are none
            if (reason := _unreachable(error)) is not None:
                raise JudgeUnreachable(f"no connection to the judge: {reason}") from None
            raise JudgeUnavailable(f"no connection to the judge: {type(error).__name__}") from None


def _in_lower_case(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


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
    for exception in _causes(error):
        if isinstance(exception, socket.gaierror):
            return "its host's name cannot be looked up"
        if isinstance(exception, ssl.SSLError) and (reason := getattr(exception, "reason", None)):
            return f"TLS failed ({reason})"
        if isinstance(exception, OSError) and exception.errno in _NOBODY_THERE:
            return _NOBODY_THERE[exception.errno]
    return None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
