"""A judge's connection through OpenAI's client, with its credentials and addresses, but our own reader.

Imported only where a client is used, as the library takes most of a second to import. An answer is the same as over
`Connection`: the client returns the raw response, follows no redirect, and repeats no request, as the judge itself
does.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import KW_ONLY, dataclass

import httpx2
import orjson
from openai import APIConnectionError, APIStatusError, APITimeoutError, AsyncOpenAI, DefaultAioHttpClient
from openai._types import RequestOptions

from evaluators.errors import JudgeUnavailable, NoCompletion
from evaluators.judges.connection import HEADERS, connection_problem, no_connection
from evaluators.judges.error_mapping import HttpStatusError
from evaluators.wire.http_client import LONGEST, AnswerRefused, HttpResponse, bounded_pieces

WHOLE: Mapping[str, str] = {"Accept-Encoding": "identity"}
"""Marks requests whose answer is bounded; other requests of a client seldom have this header."""
STREAMED: Mapping[str, str] = {"Accept-Encoding": "identity, *;q=0"}
"""Marks requests whose answer `streamed` reads: only a refusal is bounded."""


@dataclass(eq=False, repr=False)
class ClientConnection:
    """Posts requests to one path through a client. `own` says whether the client is closed with the connection.

    Other users of the client get their answers as before: only the answers to this connection's requests are bounded.
    """

    client: AsyncOpenAI
    path: str
    headers: Mapping[str, str]
    fresh_headers: Callable[[], Mapping[str, str]] | None = None
    _: KW_ONLY
    own: bool

    def __post_init__(self) -> None:
        self._client = bound_answers(self.client)
        self._headers = {**HEADERS, **self.headers}

    async def aclose(self) -> None:
        """Close the client, if it is this connection's own."""
        if self.own:
            await self._client.close()

    async def post(self, content: bytes) -> HttpResponse:
        """See `Connecting.post`."""
        fresh: Mapping[str, str] = {} if self.fresh_headers is None else self.fresh_headers()
        options: RequestOptions = {
            "headers": {**self._headers, **fresh},
            "max_retries": 0,
            "timeout": None,  # the deadline is the judge's
            "follow_redirects": False,
        }
        with as_judge_errors():
            try:
                response = await self._client.post(
                    self.path, cast_to=httpx2.Response, body=orjson.loads(content), options=options
                )
            except APIStatusError as error:
                response = error.response
            return HttpResponse(response.status_code, response.headers, response.content)


@contextmanager
def as_judge_errors() -> Generator[None]:
    """Turn a client's errors into a judge's errors.

    Raises:
        HttpStatusError: the request was refused.
        JudgeError: see `Connecting.post`.
    """
    try:
        yield
    except APIStatusError as error:
        refusal = error.response
        raise HttpStatusError(refusal.status_code, refusal.headers, refusal.content) from None
    except AnswerRefused as error:
        raise NoCompletion(str(error)) from None
    except (APITimeoutError, TimeoutError) as error:
        raise JudgeUnavailable(f"no connection to the judge: {connection_problem(error)}") from None
    except (APIConnectionError, httpx2.HTTPError) as error:
        raise no_connection(error) from None
    except Exception as error:  # noqa: BLE001 - the client's credentials may come from any code
        raise JudgeUnavailable(f"the client cannot ask the judge: {type(error).__name__}") from None


def bound_answers(client: AsyncOpenAI) -> AsyncOpenAI:
    """The client; its answers to evalstream's requests are bounded from now on, other answers stay as before."""
    http = client._client  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - the client does not make it public
    hooks = http.event_hooks["response"]
    if _bound not in hooks:
        http.event_hooks = {**http.event_hooks, "response": [*hooks, _bound]}
    return client


def streamed(response: httpx2.Response) -> AsyncGenerator[bytes]:
    """The body of a long answer by pieces, unpacked by our reader."""
    return bounded_pieces(response.aiter_raw(), response.headers.get("Content-Encoding", ""), None)


def fast_http(**options: object) -> httpx2.AsyncClient:
    """The HTTP connections of a client over aiohttp, which take half the time of the client's usual ones."""
    return DefaultAioHttpClient(**options)  # pyright: ignore[reportArgumentType]


class _Bounded(httpx2.AsyncByteStream):
    """The body of an answer, unpacked by our reader and no larger than `LONGEST`."""

    def __init__(self, stream: httpx2.AsyncByteStream, coding: str) -> None:
        self._stream = stream
        self._coding = coding

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async with aclosing(bounded_pieces(self._stream, self._coding, LONGEST)) as pieces:
            async for piece in pieces:
                yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()


async def _bound(response: httpx2.Response) -> None:
    accepted = response.request.headers.get("Accept-Encoding")
    if accepted == WHOLE["Accept-Encoding"] or (accepted == STREAMED["Accept-Encoding"] and not response.is_success):
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _Bounded(response.stream, response.headers.pop("Content-Encoding", ""))
