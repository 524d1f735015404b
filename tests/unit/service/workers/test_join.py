"""What workers say of themselves, put together: every series of each, in a text that Prometheus' own readers take."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics import exposition, parser
from prometheus_client.parser import text_string_to_metric_families

from collector.service.workers import supervision
from collector.service.workers.supervision import join_metrics, join_readiness, serve_joint_metrics
from collector.service.workers.worker import Worker


def registry(count: float) -> CollectorRegistry:
    made = CollectorRegistry()
    Counter("spans", "Spans # of all.", ["dialect"], registry=made).labels('a "b" {c} d').inc(count)
    Gauge("idle", "No labels.", registry=made).set(count)
    Histogram("took", "Seconds.", ["stage"], buckets=(0.5,), registry=made).labels("one two").observe(
        count, {"trace_id": "0af7"}
    )
    return made


def samples(families: object) -> dict[tuple[str, str, str], float]:
    return {
        (each.name, each.labels["worker"], each.labels.get("le", "")): each.value
        for family in families  # type: ignore[attr-defined]
        for each in family.samples
        if not each.name.endswith("_created")
    }


EXPECTED = {
    (name, worker, le): value
    for worker, count in (("1", 1.0), ("2", 0.25))
    for name, le, value in (
        ("spans_total", "", count), ("idle", "", count), ("took_sum", "", count), ("took_count", "", 1.0),
        ("took_bucket", "0.5", float(count <= 0.5)), ("took_bucket", "+Inf", 1.0),
    )
}  # fmt: skip


def test_every_series_of_each_worker_is_there_under_its_number() -> None:
    text = join_metrics({number: generate_latest(registry(count)).decode() for number, count in ((1, 1.0), (2, 0.25))})
    families = list(text_string_to_metric_families(text))
    assert samples(families) == EXPECTED
    assert len({each.name for each in families}) == len(families), "a family comes once"
    assert {each.labels["dialect"] for each in families[0].samples} == {'a "b" {c} d'}


def test_openmetrics_stays_openmetrics_with_its_exemplars() -> None:
    latest = exposition.generate_latest
    text = join_metrics({number: latest(registry(count)).decode() for number, count in ((1, 1.0), (2, 0.25))})
    families = list(parser.text_string_to_metric_families(text))
    assert samples(families) == EXPECTED
    exemplars = [each.exemplar.labels for family in families for each in family.samples if each.exemplar]
    assert exemplars == [{"trace_id": "0af7"}] * 2


def test_of_no_worker_there_is_nothing() -> None:
    assert list(text_string_to_metric_families(join_metrics({}))) == []


def body(status: str, *problems: str) -> str:
    return json.dumps({"status": status, "problems": problems, "checks": {"log": {"status": "ok", "detail": ""}}})


def test_all_have_to_be_ready() -> None:
    status, answer = join_readiness({1: body("ready"), 2: body("ready")})
    assert (status, answer["status"], sorted(answer["checks"])) == (200, "ready", ["worker 1: log", "worker 2: log"])
    status, answer = join_readiness({1: body("ready"), 2: body("degraded", "judges: main is unavailable")})
    assert (status, answer["status"]) == (200, "degraded")
    assert answer["problems"] == ["worker 2: judges: main is unavailable"]
    status, answer = join_readiness({1: body("not ready", "starting"), 2: None})
    assert status == 503
    assert answer["problems"] == ["worker 1: starting", "worker 2: it does not answer"]


async def test_a_worker_that_stands_still_holds_up_no_probe_and_has_interval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its socket takes connections, as the kernel does for a stopped process, and nothing answers."""
    monkeypatch.setattr(supervision, "ASK_EVERY", 0.05)
    monkeypatch.setattr(supervision, "SILENT_AFTER", 0.2)
    monkeypatch.setattr(supervision, "_READY_WITHIN", 0.1)
    caplog.set_level(logging.INFO)
    stands = asyncio.Event()

    async def ready(_request: web.Request) -> web.Response:
        return web.json_response({"status": "ready", "problems": [], "checks": {}})

    async def still(request: web.Request) -> web.Response:
        while stands.is_set():
            await asyncio.sleep(0.02)
        return await ready(request)

    runners: list[web.AppRunner] = []
    workers = [Worker(number, tmp_path / f"{number}.sock", 0, {}) for number in (1, 2)]
    for worker, answer in zip(workers, (ready, still), strict=True):
        application = web.Application()
        for path in ("/readyz", "/healthz", "/metrics"):
            application.router.add_get(path, answer)
        runners.append(web.AppRunner(application))
        await runners[-1].setup()
        await web.UnixSite(runners[-1], str(worker.metrics)).start()
    async with serve_joint_metrics(workers, host="127.0.0.1", port=0) as port, aiohttp.ClientSession() as session:

        async def ask() -> tuple[int, dict[str, object], float]:
            began = time.monotonic()
            async with session.get(f"http://127.0.0.1:{port}/readyz") as response:
                return response.status, await response.json(), time.monotonic() - began

        assert (await ask())[0] == 200
        stands.set()
        status, body, took = await ask()
        assert (status, body["problems"]) == (503, ["worker 2: it does not answer"])
        assert took < 1.0
        async with asyncio.timeout(10):
            while "worker 2 has not answered for" not in caplog.text:
                await asyncio.sleep(0.02)
        began = time.monotonic()
        async with session.get(f"http://127.0.0.1:{port}/metrics") as response:
            assert "status" in await response.text(), "the other worker's"
        assert time.monotonic() - began < supervision._METRICS_WITHIN / 2
        stands.clear()
        async with asyncio.timeout(10):
            while "worker 2 answers again" not in caplog.text:
                await asyncio.sleep(0.02)
    for runner in runners:
        await runner.cleanup()
    assert caplog.text.count("worker 2 has not answered") == 1
