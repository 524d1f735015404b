"""Merges several ordered sources."""

import heapq
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, TypeVar

T = TypeVar("T")


async def merge(sources: Sequence[AsyncIterator[T]], key: Callable[[T], Any]) -> AsyncIterator[T]:
    """The items of all sources, sorted by their keys; items of one source keep their order."""
    waiting: list[tuple[Any, int, T]] = []

    async def advance(number: int) -> None:
        async for item in sources[number]:
            heapq.heappush(waiting, (key(item), number, item))
            return

    for number in range(len(sources)):
        await advance(number)
    while waiting:
        _, number, item = heapq.heappop(waiting)
        await advance(number)
        yield item
