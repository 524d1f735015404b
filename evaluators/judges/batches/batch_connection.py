"""The HTTP connection to a provider's batches.

It imports the openai client, so that nobody imports it at the top of a module.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any

import aiohttp
import httpx2
import orjson
from openai import DefaultAioHttpClient

from evaluators.errors import JudgeUnavailable, NoCompletion
from evaluators.judges.apis.payload import mapping
from evaluators.judges.error_mapping import HttpStatusError

_SILENCE = 60.0
"""Seconds without a byte after which a call has failed."""
_PAGE_LIMIT = 16 * 2**20
_LINE_LIMIT = 32 * 2**20
_LOST = (aiohttp.ClientError, httpx2.HTTPError, OSError, ValueError)


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
        # Redirects would carry the key and the judged text to where nobody configured them to go.
        self._http = DefaultAioHttpClient(
            timeout=_SILENCE, follow_redirects=False, verify=ssl_context or True, proxy=proxy
        )
        self._base_url = base_url.rstrip("/")
        self._headers = {**headers, "Accept-Encoding": "identity"}
        self._fresh_headers = fresh_headers

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def get(self, path: str, **parameters: str) -> dict[str, Any]:
        """The object at a path.

        Raises:
            HttpStatusError: it was refused.
            JudgeUnavailable: there is no response, or something else.
        """
        return await self._call(self._request("GET", path, params=parameters))

    async def post(self, path: str, content: bytes) -> dict[str, Any]:
        """The answer to a JSON body; errors as those of `get`."""
        return await self._call(self._request("POST", path, content=content, headers=_JSON))

    async def upload(self, path: str, name: str, content: bytes, **fields: str) -> dict[str, Any]:
        """The answer to a form with a file; errors as those of `get`."""
        file = {"file": (name, content, "application/jsonl")}
        return await self._call(self._request("POST", path, data=fields, files=file))

    async def lines(self, path: str) -> AsyncGenerator[dict[str, Any]]:
        """The objects of a file of JSON lines, as they come; errors as those of `get`."""
        try:
            response = await self._http.send(self._request("GET", path), stream=True)
            try:
                if not response.is_success:
                    raise HttpStatusError(response.status_code, response.headers, await response.aread())
                async with aclosing(_split(response)) as lines:
                    async for line in lines:
                        yield mapping(orjson.loads(line))
            finally:
                await response.aclose()
        except _LOST as error:
            raise JudgeUnavailable(f"no connection to the judge: {type(error).__name__}") from None

    def _request(self, method: str, path: str, *, headers: Mapping[str, str] | None = None, **parts: Any) -> Any:
        every = {**self._headers, **(headers or {})}
        if self._fresh_headers is not None:
            every |= self._fresh_headers()
        return self._http.build_request(method, self._base_url + path, headers=every, **parts)

    async def _call(self, request: Any) -> dict[str, Any]:
        try:
            async with asyncio.timeout(10 * _SILENCE):
                response = await self._http.send(request)
        except _LOST as error:
            raise JudgeUnavailable(f"no connection to the judge: {type(error).__name__}") from None
        if not response.is_success:
            raise HttpStatusError(response.status_code, response.headers, response.content)
        if len(response.content) > _PAGE_LIMIT:
            raise NoCompletion(f"the response is larger than {_PAGE_LIMIT} bytes")
        try:
            return mapping(orjson.loads(response.content))
        except orjson.JSONDecodeError:
            raise NoCompletion("the endpoint answered with something that is not JSON") from None


_JSON = {"Content-Type": "application/json"}


async def _split(response: httpx2.Response) -> AsyncGenerator[bytes]:
    """The lines of a response, without what a line may not be: longer than any answer."""
    parts: list[bytes] = []
    async for chunk in response.aiter_bytes():
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
