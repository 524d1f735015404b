"""What every exporter promises, ours and other people's alike: found through the entry points."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from evaluation_samples import failed, of_conversation, scored, skipped
from otlp_destination import Destination
from platform_stub import PlatformStub, opik_or_empty
from prometheus_client import generate_latest

from collector import plugins
from collector.backoff import Backoff
from collector.export.exporter import ExportContext, ExporterSettings, MonitoredEvaluator
from collector.export.stage import ExportStage
from collector.logs.log import Record
from collector.logs.memory import MemoryLog
from collector.records.json import evaluation_to_json
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import EXPORT_EVALUATIONS
from evaluators.descriptions import described_fields

WATCHED = MonitoredEvaluator(
    evaluator="answers_question", evaluator_version="0123456789ab", monitor="helpdesk", threshold=0.5
)
BATCH = [scored(1), skipped(2), failed(3), of_conversation(4)]


class World:
    """Where exporters send to, and the settings that send them there."""

    def __init__(self, folder: Path) -> None:
        self.destination = Destination()
        self.platform = PlatformStub(respond=opik_or_empty)
        self.path = folder / "evaluations.jsonl"
        self.spans = MemoryLog("judged_spans", 1)
        self.context = ExportContext(telemetry=Telemetry(), evaluators=(WATCHED,), judged_spans=self.spans)

    def settings(self, name: str) -> dict[str, Any]:
        known: dict[str, dict[str, Any]] = {
            "otlp": {"endpoint": self.destination.endpoint},
            "jsonl": {"path": str(self.path)},
            "prometheus": {"port": 0},
            "spans": {"otlp": {"endpoint": self.destination.endpoint}},
            "webhook": {"url": self.platform.endpoint},
        }
        if name in known:
            return known[name]
        secrets = dict.fromkeys(("public_key", "secret_key", "api_key"), "secret")
        wanted = plugins.load(plugins.EXPORTERS, name).Settings.model_fields
        address = {"endpoint": self.platform.endpoint} if "endpoint" in wanted else {}
        for each in {"project", "project_id"} & set(wanted):
            address[each] = "shop/desk" if wanted[each].is_required() else wanted[each].default
        return address | {each: value for each, value in secrets.items() if each in wanted}

    async def seen(self, name: str) -> object:
        """What the outside has got by now."""
        match name:
            case "otlp":
                return len(self.destination.events), len(self.destination.spans)
            case "spans":
                return await self.spans.end_offset(0)
            case "prometheus":
                return generate_latest(self.context.telemetry.registry)
            case "jsonl":
                return self.path.read_bytes()
            case _:
                return len(self.platform.calls), generate_latest(self.context.telemetry.registry)

    @asynccontextmanager
    async def open(self, name: str) -> AsyncIterator[Any]:
        plugin = plugins.load(plugins.EXPORTERS, name)
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.destination.serve())
            await stack.enter_async_context(self.platform.serve())
            settings = plugin.Settings(**self.settings(name))
            exporter = await stack.enter_async_context(plugin.open(settings, self.context))
            generate_latest(self.context.telemetry.registry)  # the first scrape, without which `prometheus` waits
            yield exporter


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


every_exporter = pytest.mark.parametrize("name", plugins.names(plugins.EXPORTERS))


def test_the_built_in_ones_are_there():
    assert {"jsonl", "otlp", "prometheus"} <= set(plugins.names(plugins.EXPORTERS))


@every_exporter
def test_settings_are_strict_and_described(name: str):
    settings = plugins.load(plugins.EXPORTERS, name).Settings
    assert issubclass(settings, ExporterSettings)
    assert settings.model_config["frozen"]
    assert settings.model_config["extra"] == "forbid"
    assert all(field.description for field in described_fields(settings).values())


@every_exporter
async def test_takes_every_kind_of_evaluation_out(name: str, world: World):
    async with world.open(name) as exporter:
        before = await world.seen(name)
        await exporter.export(BATCH)
        assert await world.seen(name) != before


@every_exporter
async def test_an_empty_batch_is_nothing(name: str, world: World):
    async with world.open(name) as exporter:
        await exporter.export([])


@every_exporter
async def test_the_same_batch_may_come_again(name: str, world: World):
    async with world.open(name) as exporter:
        await exporter.export(BATCH)
        await exporter.export(BATCH)


@every_exporter
async def test_can_be_opened_again_after_closing(name: str, world: World):
    for _ in range(2):
        async with world.open(name) as exporter:
            await exporter.export(BATCH)


@every_exporter
async def test_follows_the_evaluations_log(name: str, world: World):
    log = MemoryLog("evaluations", 1)
    await log.append([Record(each.evaluation_id.encode(), evaluation_to_json(each)) for each in BATCH])
    async with world.open(name) as exporter:
        stage = ExportStage(name, exporter, world.context.telemetry, backoff=Backoff())
        records = [record async for batch in log.read(0, 0) for record in batch]
        async with stage.open_fold(0, None) as fold:
            await fold.deliver(records)
    assert world.context.telemetry.counter(EXPORT_EVALUATIONS, name, "exported")._value.get() == len(BATCH)
