"""The base of judges behind an HTTP endpoint: their connections, their time and their bill."""

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self, TypeVar

from evaluators.errors import JudgeError, JudgeUnavailable
from evaluators.judges.endpoint import CostTracker, EndpointSettings, Notices, PostsRequests

T = TypeVar("T")


class EndpointJudge:
    """A judge behind an endpoint. Close it with `aclose`, or use it as an async context manager."""

    def __init__(self, model: str, settings: EndpointSettings, endpoint: PostsRequests) -> None:
        self._model = model
        self._timeout = settings.timeout
        self._prices = settings.prices
        self._notices = Notices(model)
        self._extra_body = dict(settings.extra_body or {})
        self._endpoint = endpoint

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._endpoint.aclose()

    async def _billed(self, ask: Callable[[CostTracker], Awaitable[T]]) -> T:
        """The result of a question within its time; an error has the bill on it."""
        bill = CostTracker(self._prices, self._notices)
        await self._endpoint.connected()  # not the endpoint's time
        try:
            async with asyncio.timeout(self._timeout):
                return await ask(bill)
        except TimeoutError:
            error = JudgeUnavailable(f"no answer within {self._timeout:g} s", type="judge_timeout")
            raise bill.attach(error) from None
        except JudgeError as error:
            raise bill.attach(error) from None
