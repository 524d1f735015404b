"""Whoever asks for work waits for its end, also if it has begun meanwhile."""

from __future__ import annotations

import asyncio

from collector.golden.runner import Requests


async def test_work_that_has_begun_before_the_wait_is_waited_for() -> None:
    """An alert looked for causes first. The task began meanwhile, and the alert went out without the verdict."""
    requests, done = Requests(), asyncio.Event()
    made: list[str] = []

    async def work() -> None:
        made.append("begun")
        await done.wait()
        made.append("ended")

    task = asyncio.create_task(requests.serve(work, 1000.0))
    await asyncio.sleep(0)
    done.set()
    await asyncio.sleep(0)
    assert not await requests.wait_for_answer(), "nobody asked"
    done.clear()
    made.clear()
    requests.ask()
    for _ in range(5):
        await asyncio.sleep(0)
    assert made == ["begun"]
    waiting = asyncio.create_task(requests.wait_for_answer())
    await asyncio.sleep(0)
    done.set()
    assert await waiting
    assert made == ["begun", "ended"]
    task.cancel()
