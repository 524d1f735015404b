"""The page's API as the tools read it.

Read-only commands of evalstream, each in its own process with a deadline.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
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


_DEADLINE = 120.0
"""Seconds."""
_LONGEST = 100_000
"""Characters of an answer; an agent reads no more of it at once."""


class CommandRunner:
    """Runs commands with one configuration file."""

    def __init__(self, config: Path) -> None:
        self._config = config

    async def run(self, command: str, options: Mapping[str, str | None], flags: Sequence[str] = ()) -> str:
        """A command's output, with its error message if it fails. Values are no options, whatever they begin with."""
        words = [f"{name}={value}" for name, value in options.items() if value is not None]
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "collector.cli", command, f"--config={self._config}", *words, *flags,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        try:
            async with asyncio.timeout(_DEADLINE):
                written, _ = await process.communicate()
        except TimeoutError:
            return f"`evalstream {command}` took longer than {_DEADLINE:g} s and was ended; narrow what you ask"
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        text = written.decode(errors="replace").strip()
        return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}\n[cut after {_LONGEST:,} characters]"
