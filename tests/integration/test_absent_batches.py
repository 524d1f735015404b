"""Monitors with `urgency: hours` whose judge's endpoint takes no batches: asked at once, once, and everybody sees it."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from aiohttp import web
from batch_server import BatchServer, batch_server
from test_deferred_evaluations import COUNT, QUICK, configure, made, service, submitted, turns
from typer.testing import CliRunner

from collector.cli import app
from collector.service import evaluate as deferred
from collector.service.app import Running

PATHS = ("upload", "create", "list", "look", "content")


@pytest.fixture(autouse=True)
def _quick_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deferred, "PACE", QUICK)


def without(status: int, *steps: str) -> Callable[[str], web.Response | None]:
    """An endpoint that answers so wherever batches are."""

    def refuse(step: str) -> web.Response | None:
        return web.json_response({"error": {"message": "no"}}, status=status) if step in (steps or PATHS) else None

    return refuse


def value(started: Running, name: str, **labels: str) -> float | None:
    return started.telemetry.registry.get_sample_value(name, labels)


def assert_asked_once(server: BatchServer, count: int = COUNT) -> None:
    assert not server.submitted
    assert len(server.at_once) == count
    assert set(server.at_once.values()) == {1}


@pytest.mark.parametrize("api", ["chat", "anthropic"])
@pytest.mark.parametrize("status", [404, 405, 501])
async def test_everything_is_asked_at_once_and_remembered(
    tmp_path: Path, status: int, api: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with batch_server(refuse=without(status)) as server:
        path = configure(tmp_path, server.base_url, lambda config: config["judges"]["main"].update(api=api))
        async with service(path) as started:
            async with asyncio.timeout(30):
                while value(started, "evalstream_batches_absent", judge="main") != 1.0:
                    await asyncio.sleep(0.01)
            await started.logs.turns.append(turns(COUNT))
            evaluations = await made(started, COUNT)
            assert value(started, "evalstream_evaluations_undeferred_total", monitor="all") == COUNT
            assert value(started, "evalstream_evaluations_deferred", state="gathering") == 0
        assert Counter(each.outcome for each in evaluations) == {"scored": COUNT}
        assert_asked_once(server)
        assert "upload" not in server.calls, "what is known is not tried again"
        async with service(path) as started:
            await started.logs.turns.append(turns(COUNT, first=COUNT))
            await made(started, 2 * COUNT)
        assert_asked_once(server, 2 * COUNT)
    warnings = [each.getMessage() for each in caplog.records if "takes no batches" in each.getMessage()]
    assert len(warnings) == 2, "once for each start"
    assert f"HTTP {status}" in warnings[0]
    assert "leave out urgency: hours" in warnings[0]


@pytest.mark.parametrize("status", [405, 501])
async def test_an_endpoint_that_lists_batches_and_takes_none_is_found_out_by_the_first(
    tmp_path: Path, status: int
) -> None:
    """What had gathered for it is asked at once, with no more requests at a time than the judge allows."""
    at_once, most = 0, 0

    async def step(name: str) -> None:
        nonlocal at_once, most
        if name == "before at_once":
            at_once += 1
            most = max(most, at_once)
            await asyncio.sleep(0.02)
        if name == "after at_once":
            at_once -= 1

    async with batch_server(refuse=without(status, "upload", "create"), step=step) as server:
        path = configure(tmp_path, server.base_url, lambda config: config["judges"]["main"].update(concurrency=2))
        async with service(path) as started:
            await started.logs.turns.append(turns(COUNT))
            evaluations = await made(started, COUNT)
            assert value(started, "evalstream_evaluations_undeferred_total", monitor="all") == COUNT - 1
            assert value(started, "evalstream_batch_requests_total", judge="main", outcome="at_once") == COUNT
            assert value(started, "evalstream_batches_open", judge="main") == 0
    assert Counter(each.outcome for each in evaluations) == {"scored": COUNT}
    assert_asked_once(server)
    assert server.calls.count("upload") == 1
    assert most <= 2


async def test_a_404_about_something_else_does_not_mean_that_there_are_none(tmp_path: Path) -> None:
    """The list answers: the failure has its name, and the next batch is tried."""
    async with (
        batch_server(refuse=without(404, "create")) as server,
        service(configure(tmp_path, server.base_url)) as started,
    ):
        await started.logs.turns.append(turns(COUNT))
        evaluations = await made(started, COUNT)
        assert value(started, "evalstream_batches_absent", judge="main") == 0
    failed = Counter(each.error.type for each in evaluations if each.error is not None)
    assert failed == {"judge_denied": COUNT - 1}


@pytest.mark.parametrize("status", [404, 405, 501])
async def test_a_batch_of_an_endpoint_that_takes_none_any_more_is_not_waited_for(tmp_path: Path, status: int) -> None:
    async with batch_server(looks=10**9) as server:
        path = configure(tmp_path, server.base_url)
        async with service(path) as started:
            await started.logs.turns.append(turns(COUNT))
            await submitted(server)
            server.refuse = without(status)
            evaluations = await made(started, COUNT)
    assert Counter(each.outcome for each in evaluations) == {"scored": COUNT}
    assert len(server.batches) == 1
    assert set(server.at_once.values()) == {1}


@pytest.mark.parametrize("status", [404, 501])
async def test_what_was_about_to_be_submitted_when_it_was_killed_is_asked_at_once(tmp_path: Path, status: int) -> None:
    """A restart finds a plan of which nobody knows whether it was submitted, and an endpoint that has no list."""
    blocked = asyncio.Event()

    async def step(name: str) -> None:
        if name == "before upload":
            blocked.set()
            await asyncio.sleep(60)

    async with batch_server(step=step) as server:
        path = configure(tmp_path, server.base_url)
        async with service(path) as started:
            await started.logs.turns.append(turns(COUNT))
            await blocked.wait()
        server.refuse = without(status)
        async with service(path) as started:
            evaluations = await made(started, COUNT)
    assert Counter(each.outcome for each in evaluations) == {"scored": COUNT}
    assert_asked_once(server)


@pytest.mark.parametrize(
    ("refuse", "expected"),
    [
        (without(404), "takes no batches (HTTP 404 at /batches); its evaluations that may wait are made at once"),
        (without(401), "whether it takes batches is not known (the judge answered HTTP 401)"),
        (lambda _step: None, "takes batches"),
    ],
    ids=["none", "denied", "some"],
)
async def test_check_says_whether_there_are_batches(
    tmp_path: Path, refuse: Callable[[str], web.Response | None], expected: str
) -> None:
    async with batch_server(refuse=refuse) as server:
        path = configure(tmp_path, server.base_url)
        done = await asyncio.to_thread(CliRunner().invoke, app, ["check", "-v", "-c", str(path)])
        assert done.exit_code == 0, (done.output, done.exception)
        line = " ".join(done.output.partition("\nbatches ")[2].split())
        assert f"judges.main at {server.base_url}" in line
        assert expected in line
        assert set(server.calls) <= {"list"}
        config = path.read_text().replace("urgency: hours", "urgency: now")
        path.write_text(config)
        server.calls.clear()
        done = await asyncio.to_thread(CliRunner().invoke, app, ["check", "-v", "-c", str(path)])
        assert not server.calls, "nothing is asked where nothing may wait"
