from __future__ import annotations

import pytest

from collector.backoff import Backoff


class Down(Exception):
    retry_after: float | None = None


def attempts(*errors: Exception):
    left = list(errors)

    async def attempt() -> str:
        if left:
            raise left.pop(0)
        return "done"

    return attempt


async def waits(*errors: Exception, **options) -> list[float]:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    backoff = Backoff(sleep=sleep, chance=lambda: 1.0, **options)
    assert await backoff.repeat(attempts(*errors), Down, what="it") == "done"
    return waited


async def test_doubles_up_to_the_cap():
    assert await waits(*[Down()] * 5, first=1.0, cap=5.0) == [1.0, 2.0, 4.0, 5.0, 5.0]


async def test_obeys_what_is_asked_within_its_patience():
    error = Down()
    error.retry_after = 3600.0
    assert await waits(error, patience=600.0) == [600.0]


async def test_a_thousand_failures_do_not_overflow():
    assert (await waits(*[Down()] * 2000, cap=30.0))[-1] == 30.0


async def test_other_errors_go_through():
    with pytest.raises(KeyError):
        await waits(KeyError())


async def test_one_line_when_it_fails_and_one_when_it_works_again(caplog: pytest.LogCaptureFixture):
    caplog.set_level("INFO")
    await waits(*[Down("refused")] * 3)
    assert [record.getMessage() for record in caplog.records] == [
        "it does not work now (refused); trying again until it does",
        "it works again after 3 failed attempts",
    ]
