"""The tasks of a service: stopped newest first, and told apart from a partition that moves."""

from __future__ import annotations

import asyncio

import pytest

from collector.service.process import Tasks, open_tasks
from collector.telemetry.registry import Telemetry


async def test_tasks_stop_newest_first_and_know_that_the_service_stops() -> None:
    stopped: list[tuple[str, bool]] = []

    async def work(name: str, tasks: Tasks) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append((name, tasks.stopping))

    async with open_tasks(Telemetry()) as tasks:
        for name in ("export", "evaluate", "receive"):
            tasks.start(work(name, tasks))
        await asyncio.sleep(0)
        assert not tasks.stopping
    assert stopped == [("receive", True), ("evaluate", True), ("export", True)]


async def test_a_task_that_fails_ends_the_others_with_its_own_error() -> None:
    async def fail() -> None:
        raise ValueError("no leader")

    async def serve() -> None:
        async with open_tasks(Telemetry()) as tasks:
            tasks.start(fail())
            await asyncio.Event().wait()

    with pytest.raises(ValueError, match="no leader"):
        await serve()
