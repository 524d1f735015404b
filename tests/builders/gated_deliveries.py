"""A delivery to a stage whose evaluations end only as a test lets them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

STEPS = 100
"""Steps of the event loop within which a delivery that waits for nothing is taken."""


async def until_taken(
    taken: asyncio.Task[Any], stage: asyncio.Task[Any], finish: Callable[[int], Awaitable[None]]
) -> None:
    """Wait until a delivery is `taken`, or the `stage` has ended. A stage waits for evaluations that are as old as a
    snapshot may be: one after another ends, until it goes on.
    """
    while True:
        for _ in range(STEPS):
            if taken.done() or stage.done():
                return
            await asyncio.sleep(0)
        await finish(1)
