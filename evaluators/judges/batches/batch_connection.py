"""The HTTP connection to a provider's batches."""

from __future__ import annotations

import asyncio
import io
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any

import aiohttp
import orjson

from evaluators.errors import JudgeUnavailable, NoCompletion
from evaluators.judges.apis.payload import mapping
from evaluators.judges.connection import body_of, is_success, open_session, proxy_for, trusting
from evaluators.judges.error_mapping import HttpStatusError

_SILENCE = 60.0
"""Seconds without a byte after which a call has failed."""
_TIMEOUT = aiohttp.ClientTimeout(sock_connect=_SILENCE, sock_read=_SILENCE)
_PAGE_LIMIT = 16 * 2**20
_LINE_LIMIT = 32 * 2**20
_LOST = (aiohttp.ClientError, OSError, ValueError)


class BatchConnection:
    """Calls to one endpoint. Close it with `aclose`."""

    def __init__(
        self,
        base_url: str,
        headers: Mapping[str, str],
        *,
        ssl_context: ssl.SSLContext | None = None,
        proxy: str | None = None,
        fresh_headers: Callable[[], Mapping[str, str]] | None = None,
    ) -> None:
        self._base_url = base_url.rstrip("/")
        self._headers = {**headers, "Accept-Encoding": "identity"}
        self._ssl_context = ssl_context
        self._proxy = proxy
        self._fresh_headers = fresh_headers
        self._session: aiohttp.ClientSession | None = None

    async def aclose(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

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
            async with self._request("GET", path) as response:
                if not is_success(response.status):
                    raise HttpStatusError(response.status, response.headers, await response.read())
                async with aclosing(_split(response)) as lines:
                    async for line in lines:
                        yield mapping(orjson.loads(line))
        except _LOST as error:
            raise JudgeUnavailable(f"no connection to the judge: {type(error).__name__}") from None

    def _request(
        self, method: str, path: str, *, headers: Mapping[str, str] | None = None, **parts: Any
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        if self._session is None:
            context, proxy = trusting(self._ssl_context), proxy_for(self._base_url, self._proxy)
            self._session = open_session({}, ssl_context=context, proxy=proxy, timeout=_TIMEOUT)
        every = {**self._headers, **(headers or {})}
        if self._fresh_headers is not None:
            every |= self._fresh_headers()
        # Redirects would carry the key and the judged text to where nobody configured them to go.
        return self._session.request(method, self._base_url + path, headers=every, allow_redirects=False, **parts)

    async def _call(self, method: str, path: str, **parts: Any) -> dict[str, Any]:
        try:
            async with asyncio.timeout(10 * _SILENCE), self._request(method, path, **parts) as response:
                content = await response.read()
        except _LOST as error:
            raise JudgeUnavailable(f"no connection to the judge: {type(error).__name__}") from None
        if not is_success(response.status):
            raise HttpStatusError(response.status, response.headers, content)
        if len(content) > _PAGE_LIMIT:
            raise NoCompletion(f"the response is larger than {_PAGE_LIMIT} bytes")
        try:
            return mapping(orjson.loads(content))
        except orjson.JSONDecodeError:
            raise NoCompletion("the endpoint answered with something that is not JSON") from None


_JSON = {"Content-Type": "application/json"}


async def _split(response: aiohttp.ClientResponse) -> AsyncGenerator[bytes]:
    """The lines of a response, without what a line may not be: longer than any answer."""
    parts: list[bytes] = []
    async for chunk in response.content.iter_any():
        *whole, rest = chunk.split(b"\n")
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
