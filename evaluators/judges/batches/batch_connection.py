"""The HTTP connection to a provider's batches."""

import asyncio
import io
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import KW_ONLY, InitVar, dataclass
from typing import Any

import aiohttp

from evaluators.errors import JudgeUnavailable, NoCompletion
from evaluators.judges.answer_places import mapping
from evaluators.judges.apis.payload import parsed
from evaluators.judges.connection import body_of, connection_problem, proxy_for
from evaluators.judges.error_mapping import HttpStatusError
from evaluators.wire.http_client import AnswerTooLarge, HttpClient, StreamedResponse, trusting
from evaluators.wire.outside_json import read_outside

_SILENCE = 60.0
"""Seconds without a byte after which a call has failed."""
_TIMEOUT = aiohttp.ClientTimeout(sock_connect=_SILENCE, sock_read=_SILENCE)
_LINE_LIMIT = 16 * 2**20
_MOST_LINES = 20_000
"""Lines of a result, of which a batch has as many as requests, at most 5,000."""
_LOST = (aiohttp.ClientError, OSError, ValueError)


@dataclass(eq=False, repr=False)
class BatchConnection:
    """Calls to one endpoint. Close it with `aclose`."""

    base_url: InitVar[str]
    headers: Mapping[str, str]
    _: KW_ONLY
    ssl_context: ssl.SSLContext | None = None
    proxy: str | None = None
    fresh_headers: Callable[[], Mapping[str, str]] | None = None

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
            HttpStatusError: it was refused.
            JudgeUnavailable: there is no response, or something else.
        """
        return await self._call("GET", path, params=parameters)

    async def post(self, path: str, content: bytes) -> dict[str, Any]:
        """The answer to a JSON body; errors as those of `get`."""
        return await self._call("POST", path, data=body_of(content), headers=_JSON)

    async def upload(self, path: str, name: str, content: bytes, **fields: str) -> dict[str, Any]:
        """The answer to a form with a file; errors as those of `get`."""
        form = aiohttp.FormData(fields)
        form.add_field("file", io.BytesIO(content), filename=name, content_type="application/jsonl")
        return await self._call("POST", path, data=form)

    async def lines(self, path: str) -> AsyncGenerator[dict[str, Any]]:
        """The objects of a file of JSON lines, as they come; errors as those of `get`."""
        try:
            async with self._stream("GET", path) as response:
                if not response.is_success:
                    answer = await response.whole()
                    raise HttpStatusError(answer.status_code, answer.headers, answer.content)
                async with aclosing(_split(response)) as lines:
                    async for line in lines:
                        yield mapping(read_outside(line))
        except _LOST as error:
            raise JudgeUnavailable(f"no connection to the judge: {connection_problem(error)}") from None

    def _stream(
        self, method: str, path: str, *, headers: Mapping[str, str] | None = None, **parts: Any
    ) -> AbstractAsyncContextManager[StreamedResponse]:
        if self._client is None:
            context, proxy = trusting(self.ssl_context), proxy_for(self._base_url, self.proxy)
            self._client = HttpClient(
                {**self.headers, "Accept-Encoding": "identity"}, timeout=_TIMEOUT, ssl_context=context, proxy=proxy
            )
        every = dict(headers or {})
        if self.fresh_headers is not None:
            every |= self.fresh_headers()
        return self._client.stream(method, self._base_url + path, headers=every, **parts)

    async def _call(self, method: str, path: str, **parts: Any) -> dict[str, Any]:
        try:
            async with asyncio.timeout(10 * _SILENCE), self._stream(method, path, **parts) as response:
                answer = await response.whole()
        except AnswerTooLarge as error:
            raise NoCompletion(str(error)) from None
        except _LOST as error:
            raise JudgeUnavailable(f"no connection to the judge: {connection_problem(error)}") from None
        if not answer.is_success:
            raise HttpStatusError(answer.status_code, answer.headers, answer.content)
        return mapping(parsed(answer.content))


_JSON = {"Content-Type": "application/json"}


async def _split(response: StreamedResponse) -> AsyncGenerator[bytes]:
    """The lines of a response, without what a line may not be: longer than any answer."""
    parts: list[bytes] = []
    count = 0
    async for chunk in response.pieces():
        *whole, rest = chunk.split(b"\n")
        count += len(whole)
        if count > _MOST_LINES:
            raise ValueError("a result has more lines than any batch")
        for line in whole:
            text = b"".join([*parts, line]).strip()
            parts = []
            if text:
                yield text
        parts.append(rest)
        if sum(map(len, parts)) > _LINE_LIMIT:
            raise ValueError("a line of a result is too long")
    if last := b"".join(parts).strip():
        yield last
