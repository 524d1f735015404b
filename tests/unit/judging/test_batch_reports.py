"""Reports of a judge whose batches cannot be asked for now."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from collector.config.settings import JudgeSettings
from collector.judging.batches import Batches
from evaluators.judges.batches.batch_terms import BatchPace
from evaluators.judges.batches.patient_calls import PatientCalls
from evaluators.judges.error_mapping import HttpStatusError


async def no_wait(_seconds: float) -> None:
    """Does not wait."""


async def test_a_key_that_is_wrong_again_is_reported_again() -> None:
    """The first wrong key was reported; after it was replaced, nothing was said of the next one for a minute."""
    said: list[str] = []
    journal: Any = None
    terms = Batches(journal, BatchPace(), said.append)._terms("main", JudgeSettings(model="m"))
    calls = PatientCalls(replace(terms, endures=True), no_wait)
    statuses: Iterator[int] = iter([401, 401, 200, 200, 401, 200])

    async def request() -> int:
        status = next(statuses)
        if status != 200:
            raise HttpStatusError(status, {}, b"{}")
        return status

    for _ in range(3):
        assert await calls.call(request, None) == 200
    problem, back = said[0], "judge main is available again"
    assert "401" in problem
    assert said == [problem, back, problem, back]
