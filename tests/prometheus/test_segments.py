"""An application's own attribute, all the way: from a span that no dialect reads to segments in a real Prometheus."""

from __future__ import annotations

import asyncio
import json
import random
import re
import time
from pathlib import Path

import aiohttp
import pytest
from configurations import checked
from made_up import Trace, chat
from servers import Prometheus, prometheus
from service import free_port

from collector.alerting.rules import formats
from collector.alerting.rules.generate import rules_of
from collector.alerting.rules.model import Timing
from collector.config.attribute_names import refuse_unknown_attributes
from collector.config.configured import Config
from collector.service.app import running

pytestmark = pytest.mark.timeout(300)

ROOT = Path(__file__).parents[2]
QUALITY = json.loads((ROOT / "deploy/grafana/dashboards/evalstream-quality.json").read_text())
RUNBOOK = (ROOT / "deploy/runbooks/EvalstreamScoreBelowTarget.md").read_text()
RIGHT = {"gold": 0.97, "free": 0.4}


def configured(ingest: int, metrics: int) -> Config:
    config = checked(
        {"right": {"kind": "contains", "search_text": "yes", "threshold": 0.75}},
        log={"kind": "memory"},
        receive={"otlp_http": {"port": ingest}},
        assemble={"idle_timeout": 0.2, "attributes": {"tier": ["app.tier"]}},
        export={"prometheus": {"port": metrics, "segment_by": {"tier": ["gold", "free"]}}},
        alerts={"by_segment": True},
    )
    refuse_unknown_attributes(config)
    return config


async def send_forever(port: int) -> None:
    """Traces of a web server: its span, which no dialect reads, has the tier; the model's span is below it."""
    chance = random.Random(16)
    async with aiohttp.ClientSession() as session:
        while True:
            tier = chance.choice(("gold", "free"))
            answer = "yes" if chance.random() < RIGHT[tier] else "no"
            trace = Trace(f"{chance.getrandbits(127) + 1:032x}", start=time.time_ns() - 10**10)
            trace.span(1, "POST /chat", {"app.tier": tier}, took=5)
            trace.span(2, "chat", chat(f"Open at {chance.random()}?", answer), parent=1, took=1)
            body = trace.spans.SerializeToString()
            url = f"http://127.0.0.1:{port}/v1/traces"
            async with session.post(url, data=body, headers={"Content-Type": "application/x-protobuf"}) as response:
                assert response.status == 200
            await asyncio.sleep(0.05)


def panel(title: str) -> str:
    """The first expression of a panel of the dashboard, with what Grafana would put in."""
    (made,) = (each for each in QUALITY["panels"] if each["title"] == title)
    expression = made["targets"][0]["expr"]
    return (
        expression.replace("$window", "20s")
        .replace("$monitor", "all")
        .replace("$evaluator", ".*")
        .replace("$segment", ".*")
    )


def by_segment(samples: list[dict[str, object]]) -> dict[str, float]:
    return {each["metric"]["segment"]: float(each["value"][1]) for each in samples}  # type: ignore[index]


async def until_both(seen: Prometheus, expression: str) -> dict[str, float]:
    async with asyncio.timeout(120):
        while not {"gold", "free"} <= (means := by_segment(await seen.query(expression))).keys():
            await asyncio.sleep(0.2)
    return means


@pytest.mark.long
@pytest.mark.slow
async def test_segments_are_alive_on_the_dashboard_in_the_runbook_and_in_alerts(tmp_path: Path) -> None:
    ingest, metrics = free_port(), free_port()
    config = configured(ingest, metrics)
    rules = formats.text(formats.prometheus(rules_of(config, Timing(speed=60.0))))
    async with running(config), prometheus(tmp_path, rules, [f"127.0.0.1:{metrics}"]) as seen:
        await seen.until('evalstream_estimator_w_total{segment="gold"} == 0')
        sending = asyncio.create_task(send_forever(ingest))
        try:
            firing = 'ALERTS{alertstate="firing",alertname=~"EvalstreamScore.*",segment="free"}'
            await seen.until(f"count({firing})", within=180)
            badness = await until_both(seen, panel("Worst segments"))
            assert badness["gold"] < 0.15 < 0.4 < badness["free"]
            (query,) = re.findall(r"^   - `([^`]+)` is the mean of each", RUNBOOK, re.MULTILINE)
            means = await until_both(seen, query.replace("1h", "20s"))
            assert means["free"] < 0.6 < 0.85 < means["gold"]
            assert set(by_segment(await seen.query("sum by (segment) (evalstream_estimator_w_total)"))) == {
                "gold",
                "free",
                "other",
            }, "what the variable $segment offers"
            assert await seen.query('ALERTS{alertname=~"EvalstreamScore.*",segment="gold"}') == []
        finally:
            assert not sending.done(), sending.exception()
            sending.cancel()
