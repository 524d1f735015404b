"""Requests to a platform's API, with credentials, retries, and a sentence for each kind of failure."""

import base64
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass
from functools import partial
from typing import Any, cast

import aiohttp
import orjson

from collector.backoff import Backoff
from collector.errors import EvalstreamError
from evaluators.judges.connection import connection_problem
from evaluators.judges.error_mapping import seconds_to_wait
from evaluators.wire.http_client import AnswerRefused, HttpClient
from evaluators.wire.outside_json import UnboundedJson, read_outside

_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
_REFUSED_QUERY = frozenset({400, 413, 414, 422})
_REASON = 300
"""Characters of a platform's reason for refusing a query that are shown."""
LONGEST = 32 * 2**20
"""Bytes of an answer, which may hold many traces."""
TIMEOUT = aiohttp.ClientTimeout(total=300, sock_connect=10, sock_read=120)
"""Searches of a large store take their time."""


Document = dict[str, Any]
"""A JSON object of an API."""


class FetchFailed(EvalstreamError):
    """The API does not give what is needed. The message says what to do, and has no credentials and no judged text."""


class _Later(FetchFailed):
    """The same request may be answered later. `retry_after` is in seconds."""

    def __init__(self, message: str, *, wait: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = wait


@dataclass(eq=False, repr=False)
class ApiReader:
    """Reads from the API at an address. `say` tells of what is left out; `backoff` has a deadline."""

    title: str
    address: InitVar[str]
    headers: InitVar[Mapping[str, str]]
    client: HttpClient
    _: KW_ONLY
    backoff: Backoff
    say: Callable[[str], None]

    def __post_init__(self, address: str, headers: Mapping[str, str]) -> None:
        self._address = address.rstrip("/")
        self._headers = dict(headers)
        self._has_answered = False
        self.is_partial = False
        """True if some of the requested traces are missing."""

    async def get(
        self,
        path: str,
        query: Sequence[tuple[str, str]] = (),
        *,
        accept: str = "application/json",
        none: Callable[[bytes], bool] = lambda _body: False,
    ) -> bytes:
        """The body of an answer, whole; empty for a 404 whose body `none` knows: there is nothing such.

        Raises:
            FetchFailed: no answer, or not what is needed.
        """
        return await self._repeat("GET", path, {"Accept": accept}, query=query, none=none)

    async def post(self, path: str, body: Mapping[str, Any]) -> bytes:
        """The body of the answer to a JSON document, which only asks. Raises FetchFailed."""
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        return await self._repeat("POST", path, headers, data=orjson.dumps(body))

    def document(self, answer: bytes) -> Document:
        """An answer as a JSON object; an empty one for an empty answer. Raises FetchFailed."""
        try:
            document: object = read_outside(answer) if answer else {}
        except UnboundedJson as error:
            raise FetchFailed(f"{self.title} at {self._address}: {error}; ask for less") from None
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise FetchFailed(f"what answers at {self._address} is not {self.title}'s API; correct --url")
        return cast("Document", document)

    def left(self, reason: str) -> None:
        """Report that some of the requested traces could not be read, so the result is partial."""
        self.is_partial = True
        self.say(f"left out: {reason}")

    async def _repeat(self, method: str, path: str, headers: Mapping[str, str], **more: Any) -> bytes:
        ask = partial(self._ask, method, path, headers, **more)
        return await self.backoff.repeat(ask, _Later, action=f"reading from {self.title}")

    async def _ask(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        query: Sequence[tuple[str, str]] = (),
        data: bytes | None = None,
        none: Callable[[bytes], bool] = lambda _body: False,
    ) -> bytes:
        try:
            answer = await self.client.request(
                method, self._address + path, params=list(query), data=data, headers={**self._headers, **headers}
            )
        except AnswerRefused as error:
            raise FetchFailed(f"{self.title} at {self._address}: {error}; ask for less") from None
        except aiohttp.InvalidURL:
            raise FetchFailed("--url: not an address; write one like http://127.0.0.1:3200") from None
        except (aiohttp.ClientError, OSError) as error:  # a timeout is an OSError
            reason = connection_problem(error)
            sentence = f"{self.title} does not answer at {self._address} ({reason}); start it, or correct --url"
            raise (_Later if self._has_answered else FetchFailed)(sentence) from None
        self._has_answered = True
        if answer.status_code == 404 and none(answer.content):
            return b""
        if not answer.is_success:
            wait = seconds_to_wait(answer.headers.get("Retry-After"), time.time())
            raise self._refusal(answer.status_code, answer.content, wait)
        return answer.content

    def _refusal(self, status: int, body: bytes, wait: float | None) -> FetchFailed:
        who = f"{self.title} at {self._address}"
        if status in _AGAIN:
            return _Later(f"{who} answers {status}; try again later, or ask for less", wait=wait)
        if status in (401, 403, 407):
            return FetchFailed(f"{who} refuses the credentials ({status}); set EVALSTREAM_FETCH_TOKEN or --token-file")
        if status in _REFUSED_QUERY:
            return FetchFailed(f"{who} refuses the query ({status}): {_reason(body)}")
        if status in (404, 405, 410) or 300 <= status < 400:
            return FetchFailed(f"{who} does not have what is asked for ({status}); correct --url or --project")
        return FetchFailed(f"{who} answers {status}; correct --url")


def authorization(token: str) -> str:
    """The header for a token: Bearer, or Basic for one that is a name and a secret, as `pk-lf-…:sk-lf-…`."""
    name, colon, secret = token.partition(":")
    return f"Basic {base64.b64encode(token.encode()).decode()}" if colon and name and secret else f"Bearer {token}"


def _reason(body: bytes) -> str:
    text = " ".join(body.decode("utf-8", "replace").split())
    return "".join(character for character in text[:_REASON] if character.isprintable()) or "without a reason"
