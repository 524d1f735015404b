"""A judge's connection through the official client of OpenAI: its credentials and addresses, our reader.

Imported only where a client is used, as the library takes most of a second to import. An answer is the same as over
`Connection`: the client is asked for the response as it came, follows no redirect, and repeats no request, since the
judge itself does.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing

import httpx2
import orjson
from openai import APIConnectionError, APIStatusError, APITimeoutError, AsyncOpenAI, DefaultAioHttpClient
from openai._types import RequestOptions

from evaluators.errors import JudgeUnavailable, JudgeUnreachable, NoCompletion
from evaluators.judges.connection import HEADERS, connection_problem, unreachable
from evaluators.wire.http_client import LONGEST, AnswerTooLarge, HttpResponse, bounded_pieces

_OURS = "identity"
"""The coding that our requests accept, and other requests of a client seldom do."""


class ClientConnection:
    """Posts requests to one path through a client. `own` says whether the client is closed with the connection.

    A client that others use, too, answers them as before: only the answers to our requests are bounded.
    """

    def __init__(
        self,
        client: AsyncOpenAI,
        path: str,
        headers: Mapping[str, str],
        fresh_headers: Callable[[], Mapping[str, str]] | None = None,
        *,
        own: bool,
    ) -> None:
        self._client = client
        self._path = path
        self._headers = {**HEADERS, **headers}
        self._fresh_headers = fresh_headers
        self._own = own
        http = client._client  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - the client shows it to nobody
        hooks = http.event_hooks["response"]
        if _bound not in hooks:
            http.event_hooks = {**http.event_hooks, "response": [*hooks, _bound]}

    async def aclose(self) -> None:
        """Close the client, if it is this connection's own."""
        if self._own:
            await self._client.close()

    async def post(self, content: bytes) -> HttpResponse:
        """See `Connecting.post`."""
        fresh: Mapping[str, str] = {} if self._fresh_headers is None else self._fresh_headers()
        options: RequestOptions = {
            "headers": {**self._headers, **fresh},
            "max_retries": 0,
            "timeout": None,  # the deadline is the judge's
            "follow_redirects": False,
        }
        try:
            response = await self._client.post(
                self._path, cast_to=httpx2.Response, body=orjson.loads(content), options=options
            )
        except APIStatusError as error:
            response = error.response
        except AnswerTooLarge as error:
            raise NoCompletion(str(error)) from None
        except (APIConnectionError, httpx2.HTTPError) as error:
            if not isinstance(error, APITimeoutError) and (reason := unreachable(error)) is not None:
                raise JudgeUnreachable(f"no connection to the judge: {reason}") from None
            raise JudgeUnavailable(f"no connection to the judge: {connection_problem(error)}") from None
        except Exception as error:  # noqa: BLE001 - credentials come from whatever the client was given
            raise JudgeUnavailable(f"the client cannot ask the judge: {type(error).__name__}") from None
        return HttpResponse(response.status_code, response.headers, response.content)


def fast_http(**options: object) -> httpx2.AsyncClient:
    """The HTTP connections of a client over aiohttp, which take half the time of the client's usual ones."""
    return DefaultAioHttpClient(**options)  # pyright: ignore[reportArgumentType]


class _Bounded(httpx2.AsyncByteStream):
    """The body of an answer, unpacked by our reader and no larger than any answer."""

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
    if response.request.headers.get("Accept-Encoding") == _OURS:
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _Bounded(response.stream, response.headers.pop("Content-Encoding", ""))
