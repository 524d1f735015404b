"""An evaluation that rests: it is cancelled while it waits, and never without anything to wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from collector.evaluate.deferred.deferred_evaluations import run_until_rest
from evaluators.judges.batches.owned_requests import current_requests
from evaluators.results import Evaluation


async def in_steps(steps: int, answered: asyncio.Future[None]) -> None:
    for _ in range(steps):
        await asyncio.sleep(0)
    answered.set_result(None)


@pytest.mark.parametrize("steps", range(25))
async def test_an_answer_that_comes_at_any_moment_is_not_waited_for_in_vain(steps: int) -> None:
    answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run() -> Sequence[Evaluation]:
        requests = current_requests()
        assert requests is not None
        with requests.posting():
            requests.wait("question", answered)
            try:
                await asyncio.shield(answered)
            finally:
                del requests.waiting["question"]
        return []

    answering = asyncio.create_task(in_steps(steps, answered))
    made, waiting = await run_until_rest("evaluation", run)
    assert (made == []) is not bool(waiting)
    await answering
