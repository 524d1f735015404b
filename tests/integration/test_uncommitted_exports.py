"""Offsets that cannot be committed for a while: what Prometheus counts of the scores that come meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace

import pytest
from broker import Broker
from broker_security import grant, revoke
from evaluation_samples import scored
from kafka_logs import fresh
from test_kafka_lost_rights import Owner, settings_of, until
from test_kafka_security import TOPIC_RIGHTS, user_of

from collector.export.exporter import ExportContext
from collector.export.prometheus import PrometheusExporter, PrometheusSettings
from collector.export.stage import ExportStage, group_of
from collector.logs.consumer_runner import ANSWERED_WITHIN, ConsumerTiming
from collector.logs.kafka import KafkaLog, KafkaSettings
from collector.logs.log import Log, LogUnavailable, Record, confirm_of
from collector.records.json import evaluation_to_json
from collector.telemetry.registry import Telemetry
from evaluators.results import Evaluation

pytestmark = [pytest.mark.kafka, pytest.mark.long, pytest.mark.timeout(180)]
SESSION = 8.0
WITHDRAWN = 12.0
"""Seconds: longer than the session, so that brokers give the partitions to others."""
PARTITIONS = 2
GROUP = group_of("prometheus")


class Exporting(PrometheusExporter):
    """Also keeps the ids that it counts."""

    def __init__(self) -> None:
        self.telemetry = Telemetry()
        self.ids: list[str] = []
        super().__init__(PrometheusSettings(), ExportContext(telemetry=self.telemetry))

    async def export(self, batch: Sequence[Evaluation]) -> None:
        await super().export(batch)
        self.ids += [evaluation.evaluation_id for evaluation in batch]

    def scrape(self) -> None:
        list(self.telemetry.registry.collect())

    @property
    def counted(self) -> int:
        samples = [each for metric in self.telemetry.registry.collect() for each in metric.samples]
        return int(sum(each.value for each in samples if each.name == "evalstream_evaluations_total"))


@dataclass
class Scoring:
    """Scores that go to the log, one after the other."""

    log: Log
    times: list[float] = field(default_factory=list)

    async def run(self) -> None:
        while True:
            number = len(self.times)
            record = Record(None, evaluation_to_json(scored(number)), partition=number % PARTITIONS)
            with suppress(LogUnavailable):
                await self.log.append([record])
                self.times.append(time.monotonic())
            await asyncio.sleep(0.02)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        task = asyncio.create_task(self.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    def between(self, start: float, end: float) -> int:
        return sum(start <= at <= end for at in self.times)


@asynccontextmanager
async def a_process(settings: KafkaSettings, topic: str) -> AsyncGenerator[tuple[Log, Exporting]]:
    """A process that exports to Prometheus. At its end it commits, if it may."""
    timing = ConsumerTiming()
    logs = await KafkaLog.open(settings, {"evaluations": topic}, PARTITIONS, timing=timing)
    log, exporter = logs["evaluations"], Exporting()
    stage = ExportStage("prometheus", exporter, exporter.telemetry, confirm=confirm_of(log, GROUP))
    task = asyncio.create_task(log.follow(GROUP, stage.open_fold))
    try:
        yield log, exporter
    finally:
        task.cancel()
        await asyncio.wait([task])
        await log.close()


@pytest.fixture
def owner(secured_broker: Broker) -> Owner:
    made = Owner(secured_broker, user_of(secured_broker, "x"), fresh("uncommitted"))
    made.change(grant, "TOPIC", *TOPIC_RIGHTS)
    made.change(grant, "GROUP", "READ")
    return made


@pytest.mark.long
@pytest.mark.parametrize("then", ["a restart", "a rebalance", "neither"])
async def test_while_offsets_cannot_be_committed_hardly_a_score_is_counted_that_would_count_again(
    owner: Owner, then: str
) -> None:
    """All that was scored until the session ended counted twice: 45 s of it."""
    settings, topic = replace(settings_of(owner), session_timeout=SESSION), f"{owner.name}.evaluations"
    exporters: list[Exporting] = []

    def different() -> int:
        for exporter in exporters:  # Prometheus scrapes them: until it has, they count nothing
            exporter.scrape()
        return len({name for exporter in exporters for name in exporter.ids})

    async def all_are_counted() -> None:
        await until(lambda: different() >= len(scoring.times), lambda: (different(), len(scoring.times)))

    async with a_process(settings, topic) as (log, first):
        exporters.append(first)
        scoring = Scoring(log)
        async with scoring.running():
            while len(await log.committed(GROUP)) < PARTITIONS:  # a group without a commit begins at the start
                await asyncio.sleep(0.1)
            await until(lambda: different() > 20, different)
            withdrawing_at = time.monotonic()
            await asyncio.to_thread(owner.change, revoke, "GROUP", "READ")
            withdrawn_at = time.monotonic()
            await asyncio.sleep(WITHDRAWN)
        if then != "a restart":
            await asyncio.to_thread(owner.change, grant, "GROUP", "READ")
        if then == "neither":
            await all_are_counted()
        if then == "a rebalance":
            async with a_process(settings, topic) as (_, second):
                exporters.append(second)
                await all_are_counted()
    if then == "a restart":
        await asyncio.to_thread(owner.change, grant, "GROUP", "READ")
        async with a_process(settings, topic) as (_, second):
            exporters.append(second)
            await all_are_counted()
    twice = sum(exporter.counted for exporter in exporters) - different()
    interval = ConsumerTiming().commit_interval
    since_commit = scoring.between(withdrawing_at - interval, withdrawn_at + interval + ANSWERED_WITHIN + 1.0)
    assert twice <= (since_commit if then != "neither" else 0)
