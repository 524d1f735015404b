"""The HTTP connections of a judge to one endpoint."""

import errno
import io
import socket
import ssl
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

from evaluators.errors import JudgeUnavailable, JudgeUnreachable, NoCompletion
from evaluators.wire.http_client import AnswerRefused, HttpClient, HttpResponse, with_environment_authorities

_LONG = 1 << 20
"""The body size, in bytes, above which aiohttp warns of writing the body at once."""


def proxy_for(url: str, proxy: str | None) -> str | None:
    """The proxy to an address: the given proxy, else the environment's proxy for the address, if any.

    Raises:
        JudgeUnavailable: the environment names a proxy that is not HTTP.
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


def body_of(content: bytes) -> bytes | io.BytesIO:
    """The content for a session: a long one is written piece by piece, so that it does not hold the loop."""
    return content if len(content) <= _LONG else io.BytesIO(content)


HEADERS = {"content-type": "application/json", "accept": "application/json", "accept-encoding": "identity"}
_NO_TIMEOUT = aiohttp.ClientTimeout()
"""Only the judge has a deadline: a session's timeout would start again with each packet."""


class Connection:
    """Posts requests to one path of an endpoint, in one event loop. Close it with `aclose`.

    Raises:
        OSError: the certificates that the environment names cannot be read. JudgeUnavailable: the proxy that it names
        cannot be used.
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
        self._client = HttpClient(
            {**HEADERS, **in_lower_case(headers)},
            timeout=_NO_TIMEOUT,
            ssl_context=with_environment_authorities(ssl_context),
            proxy=proxy_for(base_url, proxy),
        )
        self._fresh_headers = fresh_headers

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def post(self, content: bytes) -> HttpResponse:
        """The response to a request's JSON, read to its end, whatever its status.

        Raises:
            JudgeUnreachable: there is no connection.
            JudgeUnavailable: it broke.
            NoCompletion: the response is larger than any answer.
        """
        fresh = None if self._fresh_headers is None else in_lower_case(self._fresh_headers())
        with as_judge_errors():
            return await self._client.request("POST", self._url, data=body_of(content), headers=fresh)


@contextmanager
def as_judge_errors() -> Generator[None]:
    """Turn a connection's errors into a judge's errors: see `Connection.post`."""
    try:
        yield
    except AnswerRefused as error:
        raise NoCompletion(str(error)) from None
    except (aiohttp.ClientError, OSError, ValueError) as error:  # the last is its error for invalid headers
        raise no_connection(error) from None


def no_connection(error: BaseException) -> JudgeUnavailable:
    """The judge's error for an error of its connection."""
    kind = JudgeUnavailable if unreachable(error) is None else JudgeUnreachable
    return kind(f"no connection to the judge: {connection_problem(error)}")


class Connecting(Protocol):
    """The connection of a judge to one path of an endpoint."""

    async def aclose(self) -> None:
        """Close its resources."""

    async def post(self, content: bytes) -> HttpResponse:
        """The response to a request's JSON, read to its end, whatever its status. It raises the errors of
        `Connection.post`.
        """
        ...


def in_lower_case(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers by names that are equal where they mean the same."""
    return {name.lower(): value for name, value in headers.items()}


_NOBODY_THERE = {
    errno.ECONNREFUSED: "connection refused",
    errno.EHOSTUNREACH: "no route to the host",
    errno.ENETUNREACH: "no route to its network",
}


def unreachable(error: BaseException) -> str | None:
    """Why there is no connection, if an early retry would be of little use; None for any other error. Causes of the
    error tell.
    """
    for exception in _causes(error):
        if isinstance(exception, socket.gaierror):
            return "its host's name cannot be looked up"
        if isinstance(exception, ssl.SSLError) and (reason := getattr(exception, "reason", None)):
            return f"TLS failed ({reason})"
        if isinstance(exception, OSError) and exception.errno in _NOBODY_THERE:
            return _NOBODY_THERE[exception.errno]
    return None


def connection_problem(error: BaseException) -> str:
    """Why there is no answer, in words: why no connection came about, else what broke."""
    if (reason := unreachable(error)) is not None:
        return reason
    if any("timeout" in type(cause).__name__.lower() for cause in _causes(error)):
        return "no answer in time"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return "a header, certificate or proxy cannot be used" if isinstance(error, ValueError) else "it broke"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
