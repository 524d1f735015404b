"""The page's API as the tools read it."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, cast

import aiohttp

from collector.errors import EvalstreamError
from evaluators.wire.http_client import HttpClient
from evaluators.wire.outside_json import read_outside

Document = dict[str, Any]
_WITHIN = 30.0
"""Seconds for an answer."""


class PageUnavailable(EvalstreamError):
    """The page does not answer, or refuses. The message says what to do, and nothing that was asked."""


class PageReader:
    """Reads from the page at an address, with a token where it needs one."""

    def __init__(self, address: str, token: str | None) -> None:
        self.address = address.rstrip("/")
        self._token = token

    async def status(self, token: str | None) -> int:
        """How the page answers who has this token. Raises PageUnavailable."""
        status, _ = await self._get("/api/overview", {}, token)
        return status

    async def get(self, path: str, query: Mapping[str, str | None] | None = None) -> Document:
        """An answer of the page. Raises PageUnavailable."""
        known = {name: value for name, value in (query or {}).items() if value is not None}
        status, body = await self._get(path, known, self._token)
        try:
            answer: Any = read_outside(body)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise PageUnavailable(f"what answers at {self.address} is not evalstream's page; correct --page")
        document = cast("Document", answer)
        if status == HTTPStatus.UNAUTHORIZED:
            raise PageUnavailable("the page needs a token; set EVALSTREAM_PAGE_TOKEN or --token-file")
        if status != HTTPStatus.OK:
            raise PageUnavailable(f"the page answers {status}: {document.get('error', 'without a reason')}")
        return document

    async def _get(self, path: str, query: Mapping[str, str], token: str | None) -> tuple[int, bytes]:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        url = self.address + path
        try:
            async with HttpClient(timeout=_WITHIN) as client:
                answer = await client.request("GET", url, params=query, headers=headers)
        except (aiohttp.ClientError, OSError) as error:
            raise PageUnavailable(
                f"no page answers at {self.address} ({type(error).__name__}); start `evalstream run` with a page, or "
                "correct --page"
            ) from None
        return answer.status_code, answer.content
