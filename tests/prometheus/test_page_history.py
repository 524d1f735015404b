"""The page of a real service and Prometheus have the same scores: from before the first scrape, after a restart."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from configurations import checked
from servers import Prometheus, prometheus
from service import free_port
from test_watcher import Feed

from collector.alerting.rules.formats import prometheus as prometheus_rules, text
from collector.alerting.rules.generate import rules_of
from collector.alerting.rules.model import Timing
from collector.config.configured import Config
from collector.service.app import running

pytestmark = [pytest.mark.timeout(300), pytest.mark.slow, pytest.mark.long]


def configured(folder: Path, metrics: int, page: int) -> Config:
    return checked(
        {"exact": {"kind": "exact_match", "threshold": 0.77}},
        log={"kind": "sqlite", "path": str(folder / "evalstream.db")},
        export={"prometheus": {"port": metrics}},
        page={"port": page, "max_evaluations": 50},
    )


async def track(port: int, name: str = "1h") -> dict[str, Any]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}/api/overview", params={"range": name}) as answer,
    ):
        return (await answer.json())["tracks"][0]


async def sums(seen: Prometheus, count: int) -> tuple[float, float, float]:
    """How many scores Prometheus has of a life of the process, and their weighted sums."""
    await seen.until(f"sum(gen_ai_evaluation_score_count) == {count}")
    await asyncio.sleep(2.5)
    parts = [
        await seen.until(f"sum({name})")
        for name in ("gen_ai_evaluation_score_count", "evalstream_estimator_w_total", "evalstream_estimator_wy_total")
    ]
    return parts[0], parts[1], parts[2]


async def test_the_first_hour_in_rules_has_scores_from_before_the_first_scrape(tmp_path: Path) -> None:
    """They were in no window. The rules run every six seconds."""
    metrics, page = free_port(), free_port()
    config = configured(tmp_path, metrics, page)
    rules = text(prometheus_rules(rules_of(config, Timing(speed=10.0))))
    async with running(config, {"export", "page"}) as service:
        await Feed(service).at(0.85, seconds=1.5)
        async with prometheus(tmp_path, rules, [f"127.0.0.1:{metrics}"]) as seen:
            await seen.until("sum(gen_ai_evaluation_score_count) == 300")
            await Feed(service, seed=2).at(0.85, seconds=0.5)
            for window in ("1h", "6h", "24h"):
                await seen.until(f'sum(evalstream:scores:increase{{window="{window}"}}) == 400')


@pytest.mark.parametrize("stored_every", [1.0, 60.0])
async def test_the_last_hour_on_the_page_is_that_of_prometheus_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored_every: float
) -> None:
    """Fifty evaluations are listed, of eleven hundred that were made: 900 of them in the life before."""
    monkeypatch.setattr("collector.page.stage.MINUTE", stored_every)
    metrics, port = free_port(), free_port()
    stages = {"export", "page"}
    async with prometheus(tmp_path, "groups: []\n", [f"127.0.0.1:{metrics}"]) as seen:
        async with running(configured(tmp_path, metrics, port), stages) as service:
            await seen.until("sum(evalstream_estimator_w_total) == 0")
            await Feed(service).at(0.85, seconds=3)
            first = await sums(seen, 600)
            await Feed(service, seed=2).at(0.4, seconds=1.5)
            first = await sums(seen, 900)
            assert (await track(port))["whole"]["scores"] == 900
        async with running(configured(tmp_path, metrics, port), stages) as service:
            await seen.until("sum(evalstream_estimator_w_total) == 0")
            stored = [batch async for batch in service.logs.history.read(0, 0)] if service.logs.history else []
            assert stored, "a stop stores what is left of a minute"
            async with asyncio.timeout(60):
                while (await track(port))["whole"]["scores"] != 900:
                    await asyncio.sleep(0.2)  # the page still reads what came after its stored minutes
            await Feed(service, seed=3).at(0.7, seconds=1)
            second = await sums(seen, 200)
            for name in ("1h", "6h", "24h", "7d"):
                whole = (await track(port, name))["whole"]
                assert whole["scores"] == first[0] + second[0] == 1100
                assert whole["mean"] == pytest.approx((first[2] + second[2]) / (first[1] + second[1]), abs=1e-9)
