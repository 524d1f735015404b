"""Nothing counts in new series until Prometheus has read them at 0."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest
from evaluation_samples import scored
from prometheus_client import generate_latest

from collector.export import prometheus
from collector.export.exporter import ExportContext, MonitoredEvaluator
from collector.export.prometheus import PrometheusExporter, PrometheusSettings
from collector.logs.log import Confirm, certain
from collector.records.feedback import FeedbackEntry, FeedbackSubject, JoinedFeedback
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import all_series

WATCHED = MonitoredEvaluator(
    evaluator="answers_question", evaluator_version="0123456789ab", monitor="helpdesk", threshold=0.5
)
SUM, FEEDBACK = "evalstream_estimator_w_total", "evalstream_feedback_w_total"
SOON = 0.1


@dataclass
class World:
    """An exporter that serves /metrics on `url`, and what its series are without a reading."""

    exporter: PrometheusExporter
    telemetry: Telemetry
    confirmed: list[str]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.exporter.port}/metrics"

    async def scrape(self, query: str = "") -> str:
        async with aiohttp.ClientSession() as session, session.get(self.url + query) as response:
            return await response.text()

    def value(self, name: str = SUM) -> float:
        """The sum over labels, read as a part of the metrics: Prometheus reads the whole."""
        families = self.telemetry.registry.restricted_registry([name]).collect()
        return sum(each.value for family in families for each in family.samples if each.name == name)

    async def waits(self, counting: Awaitable[None]) -> asyncio.Future[None]:
        task = asyncio.ensure_future(counting)
        await asyncio.sleep(SOON)
        assert not task.done()
        return task


@asynccontextmanager
async def opened(**context: object) -> AsyncIterator[World]:
    telemetry, confirmed = Telemetry(), list[str]()

    def confirming(what: str) -> Confirm:
        async def confirm() -> None:
            confirmed.append(what)

        return confirm

    of = ExportContext(
        telemetry=telemetry,
        evaluators=(WATCHED,),
        confirm=confirming("confirmed"),
        confirm_feedback=confirming("confirmed for feedback"),
        **context,
    )
    async with PrometheusExporter.open(PrometheusSettings(port=0), of) as exporter:
        yield World(exporter, telemetry, confirmed)


def feedback(name: str = "thumbs") -> JoinedFeedback:
    subject = FeedbackSubject(monitor="helpdesk", conversation_id="c", turn_id="t")
    entry = FeedbackEntry(feedback_id="f", name=name, value=True, turn_id="t")
    return JoinedFeedback(
        entry=entry, outcome="joined", received_at=datetime.now(UTC), subjects=(subject,), score=1.0, series=name
    )


async def test_nothing_counts_until_the_first_scrape_and_then_all_of_it() -> None:
    async with opened() as world:
        counting = await world.waits(world.exporter.export([scored(1), scored(2)]))
        assert (world.value(), world.confirmed) == (0.0, [])
        zeros = await world.scrape()
        assert f'{SUM}{{evaluator="answers_question"' in zeros
        assert all(line.endswith(" 0.0") for line in zeros.splitlines() if line.startswith(SUM))
        await asyncio.wait_for(counting, 5)
        assert (world.value(), world.confirmed) == (8.0, ["confirmed"])
        await world.exporter.export([scored(3)])
        assert (world.value(), world.confirmed) == (12.0, ["confirmed"])


async def test_who_reads_only_once_learns_why_nothing_has_counted() -> None:
    """Two metrics said it; the sums of the mean, verdicts, tokens and costs begin at 0, too."""
    async with opened() as world:
        counting = await world.waits(world.exporter.export([scored()]))
        helps = [line for line in (await world.scrape()).splitlines() if line.startswith("# HELP ")]
        await asyncio.wait_for(counting, 5)
        grown = {
            family.name
            for family in world.telemetry.registry.collect()
            if family.type in ("counter", "histogram") and sum(each.value for each in family.samples)
        }
    say_it = {line.split()[2].removesuffix("_total") for line in helps if line.endswith(" may be 0: read again.")}
    assert grown >= {"gen_ai_evaluation_score", "evalstream_estimator_wy", "evalstream_verdicts"}
    assert grown <= say_it
    held_back = {series.name.removesuffix("_total") for series in all_series() if series.awaits_reading}
    assert {"evalstream_judge_tokens", "evalstream_judge_cost_usd", "evalstream_feedback_w"} <= held_back
    assert not {"evalstream_evaluations_due", "evalstream_judge_canaries", "evalstream_target_score"} & held_back


async def test_a_part_of_the_metrics_is_no_scrape() -> None:
    """The page reads some series of its own process, and `?name[]=` reads those that it names."""
    async with opened() as world:
        counting = await world.waits(world.exporter.export([scored()]))
        assert "evalstream_build" not in await world.scrape(f"?name[]={SUM}")
        await asyncio.sleep(SOON)
        assert not counting.done()
        await world.scrape()
        await asyncio.wait_for(counting, 5)


async def test_without_prometheus_scores_count_after_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    assert prometheus.SETTLING == 60.0
    monkeypatch.setattr(prometheus, "SETTLING", 3 * SOON)
    async with opened() as world:
        counting = await world.waits(world.exporter.export([scored()]))
        await asyncio.wait_for(counting, 5)
        assert (world.value(), world.confirmed) == (4.0, ["confirmed"])
        began = time.monotonic()
        await world.exporter.export([scored(2)])
        assert time.monotonic() - began < SOON, "it waits once"


async def test_a_stop_does_not_wait() -> None:
    """What waits has not counted, and its place in the log does not move: the next process counts it."""
    async with opened() as world:
        counting = await world.waits(world.exporter.export([scored()]))
        counting.cancel()
        began = time.monotonic()
        await asyncio.wait([counting])
    assert counting.cancelled()
    assert world.value() == 0.0
    assert time.monotonic() - began < 1.0


async def test_all_partitions_wait_for_one_scrape() -> None:
    async with opened() as world:
        waiting = [asyncio.create_task(world.exporter.export([scored(number)])) for number in range(5)]
        await asyncio.sleep(SOON)
        await world.scrape()
        await asyncio.wait_for(asyncio.gather(*waiting), 5)
        assert world.value() == 20.0


async def test_scores_of_a_new_version_wait_until_its_series_were_read() -> None:
    """`increase()` lost those before the first scrape that had them."""
    async with opened() as world:
        await world.scrape()
        await world.exporter.export([scored(1)])
        new = replace(WATCHED, evaluator_version="ba9876543210")
        world.exporter.take_evaluators((new,))
        counting = await world.waits(world.exporter.export([scored(2, evaluator_version=new.evaluator_version)]))
        assert world.value() == 4.0
        await world.scrape()
        await asyncio.wait_for(counting, 5)
        assert world.value() == 8.0


async def test_the_first_feedback_of_its_kind_waits_until_its_series_were_read() -> None:
    """Its labels are known when it comes. Its sums were not there before, so a restart was not noticed in some."""
    async with opened() as world:
        await world.scrape()
        counting = await world.waits(world.exporter.export_feedback([feedback(), feedback()]))
        zeros = await world.scrape()
        for series in (f"{FEEDBACK}{{", "evalstream_feedback_w2y2_total{", 'verdict="bad"'):
            assert [line[-4:] for line in zeros.splitlines() if series in line] == [" 0.0"], series
        await asyncio.wait_for(counting, 5)
        assert (world.value(FEEDBACK), world.confirmed) == (2.0, ["confirmed for feedback"])
        await world.exporter.export_feedback([feedback()])
        assert world.value(FEEDBACK) == 3.0
        await world.waits(world.exporter.export_feedback([feedback("stars")]))


async def test_a_worker_is_read_through_its_socket(tmp_path: Path) -> None:
    """The process in front of the workers asks each of them whenever Prometheus asks it."""
    socket = tmp_path / "1.sock"
    async with opened(metrics_socket=socket) as world:
        counting = await world.waits(world.exporter.export([scored()]))
        connector = aiohttp.UnixConnector(str(socket))
        async with aiohttp.ClientSession(connector=connector) as session, session.get("http://worker/metrics") as got:
            assert f"{SUM}{{" in await got.text()
        await asyncio.wait_for(counting, 5)
        assert world.value() == 4.0


async def test_a_registration_is_no_reading() -> None:
    telemetry = Telemetry()
    scrape = prometheus.FirstScrape(telemetry.registry)
    waiting = asyncio.create_task(scrape.wait(certain))
    await asyncio.sleep(SOON)
    assert not waiting.done()
    generate_latest(telemetry.registry)
    await asyncio.wait_for(waiting, 5)
