"""Reports of a judge whose batches cannot be asked for now."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

from collector.backoff import StateLines
from collector.config.settings import JudgeSettings
from collector.judging.batches import REPORT_AFTER, Batches, EnduringBatches
from collector.logs.log import certain
from evaluators.judges.batches.batch_terms import AbsentBatches, BatchPace
from evaluators.judges.batches.patient_calls import PatientCalls
from evaluators.judges.error_mapping import HttpStatusError

BACK = "judge main is available again"


async def no_wait(_seconds: float) -> None:
    """Does not wait."""


def calls_of(said: list[str], outages: StateLines | None = None) -> PatientCalls:
    """The calls of a judge of a command; with `outages`, of a partition of a service."""
    enduring = None if outages is None else EnduringBatches(
        most_items=1, confirm=certain, on_progress=lambda *_: None, on_problem=lambda *_: None,
        on_at_once=lambda _: None, warn=said.append, absent=AbsentBatches(), outages=outages,
    )  # fmt: skip
    journal: Any = None
    terms = Batches(journal, BatchPace(), said.append, enduring=enduring)._terms("main", JudgeSettings(model="m"))
    return PatientCalls(replace(terms, endures=True), no_wait)


async def answered(calls: PatientCalls, *statuses: int) -> None:
    """A call that is repeated until it succeeds."""
    left = iter(statuses)

    async def request() -> None:
        if (status := next(left)) != 200:
            raise HttpStatusError(status, {}, b"{}")

    await calls.call(request, None)


async def test_a_key_that_is_wrong_again_is_reported_again() -> None:
    """The first wrong key was reported; after it was replaced, nothing was said of the next one for a minute."""
    said: list[str] = []
    calls = calls_of(said)
    await answered(calls, 401, 401, 200)
    await answered(calls, 200)
    await answered(calls, 401, 200)
    assert "401" in said[0]
    assert said == [said[0], BACK, said[0], BACK]


async def test_a_key_that_a_changed_configuration_corrects_is_reported() -> None:
    """The outage was in the log, its end was not: the new configuration knew nothing of it."""
    said: list[str] = []
    outages = StateLines(REPORT_AFTER)
    for _partition in range(2):
        with suppress(RuntimeError):
            await answered(calls_of(said, outages), 401)
    assert len(said) == 1, "both partitions have one provider"
    for _partition in range(2):
        calls = calls_of(said, outages)
        await answered(calls, 200)
        await answered(calls, 200)
    assert said[1:] == [BACK]


async def test_an_answer_to_another_call_ends_no_outage() -> None:
    """A provider with a full queue takes no batch, and says how those before go on."""
    said: list[str] = []
    calls = calls_of(said, StateLines(REPORT_AFTER))
    await answered(calls, 200)
    with suppress(RuntimeError):
        await answered(calls, 429)
    await answered(calls, 200)
    assert len(said) == 1
    await answered(calls, 429, 200)
    assert said[1:] == [BACK]
