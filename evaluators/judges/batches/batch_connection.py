"""The HTTP connection to a provider's batches, and the reading of their results."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import KW_ONLY, InitVar, dataclass
from typing import Any

import aiohttp

from evaluators.judges.answer_places import mapping
from evaluators.judges.apis.payload import parsed
from evaluators.judges.connection import as_judge_errors, body_of, proxy_for
from evaluators.judges.error_mapping import HttpStatusError
from evaluators.wire.http_client import AnswerRefused, HttpClient, StreamedResponse, with_environment_authorities
from evaluators.wire.outside_json import read_outside

SILENCE = 60.0
"""Seconds without a byte after which a call has failed."""
DEADLINE = 600.0
"""Seconds after which a call has failed, except a call for results."""
_TIMEOUT = aiohttp.ClientTimeout(sock_connect=SILENCE, sock_read=SILENCE)
_LINE_LIMIT = 16 * 2**20
_MOST_LINES = 20_000
"""The most lines of a result: a batch has a line for each request, at most 5,000."""


@dataclass(eq=False, repr=False)
class BatchConnection:
    """Calls to one endpoint. Close it with `aclose`."""

    base_url: InitVar[str]
    headers: Mapping[str, str]
    _: KW_ONLY
    ssl_context: ssl.SSLContext | None = None
    proxy: str | None = None
    fresh_headers: Callable[[], Mapping[str, str]] = dict

    def __post_init__(self, base_url: str) -> None:
        self._base_url = base_url.rstrip("/")
        self._client: HttpClient | None = None

    async def aclose(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()

    async def get(self, path: str, **parameters: str) -> dict[str, Any]:
        """The object at a path.

        Raises:
            HttpStatusError: it was refused. JudgeUnavailable: there is no response, or no JSON object in it.
        """
        return await self._call("GET", path, params=parameters)

    async def post(self, path: str, content: bytes) -> dict[str, Any]:
        """The answer to a JSON body. It raises the errors of `get`."""
        return await self._call("POST", path, data=body_of(content))

    async def lines(self, path: str) -> AsyncGenerator[dict[str, Any]]:
        """The objects of a file of JSON lines, as they arrive. It raises the errors of `get`."""
        with as_judge_errors():
            async with self._stream("GET", path) as response:
                await _raise_refusal(response)
                async with aclosing(json_lines(response.pieces())) as lines:
                    async for line in lines:
                        yield line

    async def _call(self, method: str, path: str, **parts: Any) -> dict[str, Any]:
        with as_judge_errors():
            async with asyncio.timeout(DEADLINE), self._stream(method, path, **parts) as response:
                await _raise_refusal(response)
                answer = await response.whole()
        return mapping(parsed(answer.content))

    def _stream(self, method: str, path: str, **parts: Any) -> AbstractAsyncContextManager[StreamedResponse]:
        if self._client is None:
            context, proxy = with_environment_authorities(self.ssl_context), proxy_for(self._base_url, self.proxy)
            headers = {**self.headers, "Accept-Encoding": "identity", "Content-Type": "application/json"}
            self._client = HttpClient(headers, timeout=_TIMEOUT, ssl_context=context, proxy=proxy)
        return self._client.stream(method, self._base_url + path, headers=self.fresh_headers(), **parts)


async def _raise_refusal(response: StreamedResponse) -> None:
    if not response.is_success:
        answer = await response.whole()
        raise HttpStatusError(answer.status_code, answer.headers, answer.content)


async def json_lines(pieces: AsyncIterable[bytes]) -> AsyncGenerator[dict[str, Any]]:
    """The objects of JSON lines that arrive in pieces; the length of a line is bounded.

    Raises:
        AnswerRefused: a line is too long, or there are too many.
        ValueError: a line is no JSON.
    """
    parts: list[bytes] = []
    count = 0
    async for piece in pieces:
        *whole, rest = piece.split(b"\n")
        count += len(whole)
        if count > _MOST_LINES:
            raise AnswerRefused("a result has more lines than any batch")
        for line in whole:
            text = b"".join([*parts, line]).strip()
            parts = []
            if text:
                yield mapping(read_outside(text))
        parts.append(rest)
        if sum(map(len, parts)) > _LINE_LIMIT:
            raise AnswerRefused("a line of a result is too long")
    if last := b"".join(parts).strip():
        yield mapping(read_outside(last))
