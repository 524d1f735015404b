from __future__ import annotations

from functools import partial

import pytest

from collector.backoff import Backoff, FailureLog, StateLines
from collector.logs.log import LogRefused, LogUnavailable


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
    assert await backoff.repeat(attempts(*errors), Down, action="reading it") == "done"
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
        "reading it failed (refused); retrying",
        "reading it succeeded after 3 failed attempts",
    ]


async def test_the_deadline_counts_from_the_first_failure_and_then_raises_the_last_error():
    now = 100.0

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    errors = [Down(str(number)) for number in range(9)]
    backoff = Backoff(first=1.0, cap=4.0, deadline=10.0, sleep=sleep, chance=lambda: 1.0, clock=lambda: now)
    with pytest.raises(Down, match="4"):  # after 1, 3, 7 and 11 s
        await backoff.repeat(attempts(*errors), Down, action="reading it")


async def test_a_failure_log_has_a_line_for_each_row_of_failures_but_for_one_a_minute(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    caplog.set_level("INFO")
    now = 0.0
    monkeypatch.setattr("collector.backoff.StateLines", partial(StateLines, clock=lambda: now))
    log = FailureLog("committing offsets")
    outage, row = ("no leader", "no leader", None), ("timeout", None)
    for errors in (outage, row, row, (*row, "timeout")):
        for error in errors:
            if error is None:
                log.succeeded()
            else:
                log.failed(error)
        now += 20.0
    log.failed("timeout")
    assert [record.getMessage() for record in caplog.records] == [
        "committing offsets failed (no leader); retrying",
        "committing offsets succeeded after 2 failed attempts",
        "committing offsets failed (timeout); retrying",
        "committing offsets succeeded after 1 failed attempt",
    ]
    now += 60.0
    log.failed("timeout")
    assert caplog.records[-1].getMessage() == "committing offsets failed (timeout); retrying"
    assert len(caplog.records) == 5


def test_another_class_of_errors_has_a_line_in_the_same_row(caplog: pytest.LogCaptureFixture):
    """A broker was away, then back with a certificate that is not trusted: stderr said only that none answers."""
    caplog.set_level("INFO")
    log = FailureLog("writing to the logs")
    for error in (LogUnavailable("no broker"), LogUnavailable("a timeout"), LogRefused("not trusted")):
        log.failed(error)
        log.failed(error)
    log.succeeded()
    assert [record.getMessage() for record in caplog.records] == [
        "writing to the logs failed (no broker); retrying",
        "writing to the logs failed (not trusted); retrying",
        "writing to the logs succeeded after 6 failed attempts",
    ]
