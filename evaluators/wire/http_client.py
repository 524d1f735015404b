"""HTTP to foreign servers: the only module that makes clients of aiohttp and urllib, and reads their answers."""

import os
import ssl
import zlib
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import KW_ONLY, InitVar, dataclass
from http.client import HTTPException
from time import monotonic
from typing import Any, TypeVar
from urllib import request as urllib_request

import aiohttp
from multidict import CIMultiDict

T = TypeVar("T")

LONGEST = 16 * 2**20
"""The most bytes of an answer, packed or unpacked, that are read unless a client sets another limit."""
_MOST_CONNECTIONS = 1000
_SUCCESS = range(200, 300)
_PIECE = 1 << 18
"""The most bytes of an answer in one piece."""
_WINDOW_BITS = {"gzip": 31, "x-gzip": 31, "deflate": 15}


class AnswerRefused(aiohttp.ClientPayloadError):
    """A response is larger than the limit, or has a Content-Encoding that was not asked for. The message says which."""


def in_requests(items: Iterable[T], size_of: Callable[[T], int], most: int, longest: int) -> Iterator[list[T]]:
    """The items in pieces of at most `most`, and of about `longest` bytes by their sizes: servers refuse large ones.

    An item that is larger is a piece of its own.
    """
    piece: list[T] = []
    length = 0
    for item in items:
        size = size_of(item)
        if piece and (len(piece) >= most or length + size > longest):
            yield piece
            piece, length = [], 0
        piece.append(item)
        length += size
    if piece:
        yield piece


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """An answer, read to its end. The names of its headers are case-insensitive."""

    status_code: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def is_success(self) -> bool:
        """Whether the status means success; a redirect does not, as no client follows it."""
        return self.status_code in _SUCCESS

    @property
    def content_type(self) -> str:
        """The media type without its parameters, in lower case; empty if none is named."""
        return self.headers.get("Content-Type", "").partition(";")[0].strip().lower()


class StreamedResponse:
    """An answer whose body is still to come."""

    def __init__(self, response: aiohttp.ClientResponse, longest: int) -> None:
        self._response = response
        self._longest = longest
        self.status_code = response.status
        """The status, as in `HttpResponse`."""

    @property
    def is_success(self) -> bool:
        """Whether the status means success."""
        return self.status_code in _SUCCESS

    async def whole(self) -> HttpResponse:
        """The answer, read to its end.

        Raises:
            AnswerRefused: it is longer than the client allows.
        """
        chunks: list[bytes] = []
        size, headers = 0, self._response.headers
        if "Content-Encoding" in headers:
            chunks = [piece async for piece in self.pieces(self._longest)]
        else:  # nearly always, and quicker than by pieces
            while chunk := await self._response.content.readany():
                size += len(chunk)
                _check(size, self._longest)
                chunks.append(chunk)
        return HttpResponse(self.status_code, headers, b"".join(chunks))

    async def pieces(self, longest: int | None = None) -> AsyncGenerator[bytes]:
        """The body, unpacked piece by piece.

        Raises:
            AnswerRefused: it is longer than `longest` bytes, packed or unpacked.
        """
        coding = self._response.headers.get("Content-Encoding", "")
        async for piece in bounded_pieces(self._response.content.iter_any(), coding, longest):
            yield piece


async def bounded_pieces(chunks: AsyncIterable[bytes], coding: str, longest: int | None) -> AsyncGenerator[bytes]:
    """A body that comes in chunks, unpacked (`gzip`). It raises the errors of `StreamedResponse.pieces`."""
    coding = coding.strip().lower()
    unpacker = None if coding in ("", "identity") else _Unpacker(coding)
    packed = unpacked = 0
    async for chunk in chunks:
        packed += len(chunk)
        for piece in (chunk,) if unpacker is None else unpacker.pieces(chunk):
            unpacked += len(piece)
            _check(unpacked, longest)
            yield piece
        _check(packed, longest)
    if unpacker is not None and packed:
        unpacker.end()


@dataclass(eq=False, repr=False)
class HttpClient(AbstractAsyncContextManager["HttpClient"]):
    """Requests to foreign servers: no request follows a redirect or keeps a cookie, and each answer is bounded.

    A redirect would take the key and the judged text to an address that no configuration names. `longest` is the most
    bytes of an answer that is not read by pieces. The proxy is an argument: a session that finds its proxy itself also
    reads `.netrc` for each request. Close it with `aclose`, or use it as an async context manager. One event loop at a
    time.
    """

    headers: InitVar[Mapping[str, str] | None] = None
    _: KW_ONLY
    timeout: InitVar[aiohttp.ClientTimeout | float]
    longest: int = LONGEST
    ssl_context: ssl.SSLContext | None = None
    proxy: str | None = None
    socket: str | None = None

    def __post_init__(self, headers: Mapping[str, str] | None, timeout: aiohttp.ClientTimeout | float) -> None:
        self._headers = CIMultiDict({"Accept-Encoding": "gzip"})
        self._headers.update(headers or {})
        self._timeout = timeout if isinstance(timeout, aiohttp.ClientTimeout) else aiohttp.ClientTimeout(total=timeout)
        self._session: aiohttp.ClientSession | None = None

    async def __aexit__(self, *_error: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, **options: Any
    ) -> HttpResponse:
        """The answer, whatever its status. `options` are aiohttp's `data`, `params`, `timeout`.

        Raises:
            aiohttp.ClientError: there is no answer; AnswerRefused is such an error. OSError: there is no answer, for
            instance after a timeout. ValueError: the address or a header is invalid.
        """
        async with self._send(method, url, headers, options) as response:
            return await StreamedResponse(response, self.longest).whole()

    @asynccontextmanager
    async def stream(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, **options: Any
    ) -> AsyncGenerator[StreamedResponse]:
        """The answer, to be read by pieces. It raises the errors of `request`."""
        async with self._send(method, url, headers, options) as response:
            yield StreamedResponse(response, self.longest)

    def _send(
        self, method: str, url: str, headers: Mapping[str, str] | None, options: Mapping[str, Any]
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        if self._session is None:
            self._session = self._open()
        return self._session.request(method, url, headers=headers, allow_redirects=False, **options)

    def _open(self) -> aiohttp.ClientSession:
        connector: aiohttp.BaseConnector
        if self.socket is None:
            connector = aiohttp.TCPConnector(ssl=self.ssl_context or True, limit=_MOST_CONNECTIONS)
        else:
            connector = aiohttp.UnixConnector(path=self.socket)
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=self._headers,
            proxy=self.proxy,
            timeout=self._timeout,
            auto_decompress=False,  # which unpacks without a limit
        )


def _check(size: int, longest: int | None) -> None:
    if longest is not None and size > longest:
        raise AnswerRefused(f"the response is larger than {longest} bytes")


class _Unpacker:
    """Unpacks a body piece by piece, so that a small body cannot fill the memory."""

    def __init__(self, coding: str) -> None:
        if coding not in _WINDOW_BITS:
            raise AnswerRefused("the response has a Content-Encoding that was not asked for")
        self._decoder = zlib.decompressobj(_WINDOW_BITS[coding])

    def pieces(self, chunk: bytes) -> Iterator[bytes]:
        """A part of the body, unpacked. Bytes after the packed body's end are ignored.

        Raises:
            aiohttp.ClientPayloadError: it is damaged.
        """
        try:
            while chunk and not self._decoder.eof:
                if piece := self._decoder.decompress(chunk, _PIECE):
                    yield piece
                chunk = self._decoder.unconsumed_tail
        except zlib.error:
            raise aiohttp.ClientPayloadError("the response does not match its Content-Encoding") from None

    def end(self) -> None:
        """Raise aiohttp.ClientPayloadError if the body ends before its packed content is complete."""
        if not self._decoder.eof:
            raise aiohttp.ClientPayloadError("the response ends too early")


def with_environment_authorities(ssl_context: ssl.SSLContext | None) -> ssl.SSLContext | None:
    """The given context, else one with the certificates that the environment names; None for the usual authorities.

    Raises:
        OSError: they cannot be read.
    """
    file, folder = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    if ssl_context is not None or not (file or folder):
        return ssl_context
    return ssl.create_default_context(cafile=file or None, capath=folder or None)


class _NoRedirects(urllib_request.HTTPRedirectHandler):
    """A redirect is the answer."""

    def redirect_request(self, *_: Any, **_named: Any) -> None:
        """None: it is not followed."""


def ask_blocking(
    url: str,
    data: bytes | None,
    headers: Mapping[str, str],
    *,
    timeout: float,
    ssl_context: ssl.SSLContext | None = None,
    proxied: bool = True,
) -> bytes:
    """The body of a successful answer, at most `LONGEST` bytes of it, for threads that have no event loop.

    The `timeout` (s) is for the connection, for the header, and for the body as a whole.

    Raises:
        urllib.error.HTTPError: the status is no success; a redirect is none. OSError: there is no answer.
    """
    proxies = urllib_request.ProxyHandler(None if proxied else {})
    opener = urllib_request.build_opener(proxies, _NoRedirects, urllib_request.HTTPSHandler(context=ssl_context))
    question = urllib_request.Request(url, data, dict(headers))  # noqa: S310 - http and https are checked
    try:
        with opener.open(question, timeout=timeout) as answer:
            body, ends = bytearray(), monotonic() + timeout
            while piece := answer.read1(min(_PIECE, LONGEST - len(body))):
                body += piece
                if monotonic() > ends:
                    raise TimeoutError("the answer does not come to its end")
            return bytes(body)
    except HTTPException as error:
        raise OSError(f"the server does not answer in HTTP ({type(error).__name__})") from None
