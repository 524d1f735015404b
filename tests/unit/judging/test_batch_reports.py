"""Reports of a judge whose batches cannot be asked for now."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from collector.backoff import StateLines
from collector.config.settings import JudgeSettings
from collector.judging.batches import REPORT_AFTER, Batches, EnduringBatches
from collector.logs.log import certain
from evaluators.judges.batches.batch_endpoint import BatchEndpoint
from evaluators.judges.batches.batch_terms import AbsentBatches, BatchPace
from evaluators.judges.batches.patient_calls import PatientCalls
from evaluators.judges.batches.provider import BatchItem
from evaluators.judges.batches.submitted_batches import SubmittedBatches
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
    """A submission that is repeated until it succeeds."""
    left = iter(statuses)

    async def request() -> None:
        if (status := next(left)) != 200:
            raise HttpStatusError(status, {}, b"{}")

    await calls.call(request, None, is_work=True)


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


async def test_a_batch_of_another_partition_ends_no_outage_of_the_same_configuration() -> None:
    """The first batch of each partition did: it ended what a full queue refused to others, which was reported again."""
    said: list[str] = []
    outages = StateLines(REPORT_AFTER)
    refused, taken = calls_of(said, outages), calls_of(said, outages)
    for _again in range(2):
        with suppress(RuntimeError):
            await answered(refused, 429)
        await answered(taken, 200)
    assert len(said) == 1
    await answered(refused, 429, 200)
    assert said[1:] == [BACK]


class BatchesOnly:
    """A provider that refuses batches with a status, or takes them, and answers all else."""

    def __init__(self, status: int = 200) -> None:
        self._status = status

    async def check(self) -> None:
        """There are batches."""

    async def submit(self, _key: str, _items: Sequence[BatchItem]) -> str:
        if self._status != 200:
            raise HttpStatusError(self._status, {}, b"{}")
        return "batch-1"


def batches_at(provider: BatchesOnly, calls: PatientCalls) -> SubmittedBatches:
    nothing: Any = None
    known: Any = provider
    return SubmittedBatches(known, nothing, calls.terms, nothing, calls=calls, sleep=no_wait, clock=lambda: 0.0)


async def test_only_a_batch_that_is_taken_ends_an_outage_of_an_earlier_configuration() -> None:
    """With an open bill, each new configuration and partition logged the end of the outage, and then its begin."""
    said: list[str] = []
    outages = StateLines(REPORT_AFTER)
    with suppress(RuntimeError):
        await answered(calls_of(said, outages), 402)
    assert len(said) == 1
    for _partition in range(2):
        assert await batches_at(BatchesOnly(402), calls_of(said, outages))._takes_batches()
    assert len(said) == 1
    assert await batches_at(BatchesOnly(), calls_of(said, outages))._submitted("key", []) == "batch-1"
    assert said[1:] == [BACK]


@pytest.mark.parametrize("absent", [True, False])
async def test_a_request_at_once_ends_such_an_outage_where_there_are_no_batches(absent: bool) -> None:
    """Where there are batches, requests at once may be answered while the queue of batches is full."""
    said: list[str] = []
    outages = StateLines(REPORT_AFTER)
    with suppress(RuntimeError):
        await answered(calls_of(said, outages), 429)
    terms = calls_of(said, outages).terms
    assert terms.absent is not None
    if absent:
        terms.absent.add(terms.home)
    endpoint: Any = SimpleNamespace(post=returning(SimpleNamespace(content=b"{}")))
    journal: Any = SimpleNamespace(record_at_once=returning(None))
    provider: Any = BatchesOnly()
    await BatchEndpoint(endpoint, provider, journal, terms, sleep=no_wait)._at_once("name", {})
    assert said[1:] == ([BACK] if absent else [])


def returning(value: object) -> Callable[..., Awaitable[object]]:
    async def answer(*_arguments: object) -> object:
        return value

    return answer
