"""What an exporter can confirm before it exports again: each log has a consumer group of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from configurations import checked

from collector import plugins
from collector.export.exporter import ExportContext
from collector.service.export import open_exporters
from collector.service.plan_builder import build_plan
from collector.telemetry.health import Health
from collector.telemetry.registry import Telemetry


@dataclass
class SharedLog:
    """A log whose partitions processes share; notes which groups it was to confirm."""

    name: str
    confirmed: list[tuple[str, str]]
    shared: bool = True

    async def confirm(self, group: str, *, newly: bool = False) -> None:
        self.confirmed.append((self.name, group))


class Plugin:
    """An exporter that keeps its context."""

    contexts: list[ExportContext]

    @asynccontextmanager
    async def open(self, _settings: object, context: ExportContext) -> AsyncIterator[object]:
        self.contexts = [context]
        yield self


@pytest.mark.parametrize("by_segment", [False, True])
async def test_exporters_know_whether_alerts_are_on_segments(monkeypatch: pytest.MonkeyPatch, by_segment: bool) -> None:
    plugin = Plugin()
    config = checked({"exact": {"kind": "exact_match"}}, export={"prometheus": {}}, alerts={"by_segment": by_segment})
    monkeypatch.setattr(plugins, "load", lambda *_: plugin)
    logs = SimpleNamespace(evaluations=SharedLog("evaluations", []), labels=SharedLog("labels", []), judged_spans=None)
    async with open_exporters(config, build_plan(config, {}), Telemetry(), Health(), None, logs):  # type: ignore[arg-type]
        assert [each.by_segment for each in plugin.contexts[0].evaluators] == [by_segment]


async def test_feedback_is_confirmed_by_the_group_that_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    confirmed, plugin = list[tuple[str, str]](), Plugin()
    monkeypatch.setattr(plugins, "load", lambda *_: plugin)
    logs = SimpleNamespace(
        evaluations=SharedLog("evaluations", confirmed), labels=SharedLog("labels", confirmed), judged_spans=None
    )
    config = SimpleNamespace(exporters={"prometheus": None}, settings=SimpleNamespace(page=None, cascades={}))
    plan = SimpleNamespace(monitors=())
    async with open_exporters(config, plan, Telemetry(), Health(), None, logs):  # type: ignore[arg-type]
        (context,) = plugin.contexts
        await context.confirm()
        await context.confirm_feedback()
    assert confirmed == [("evaluations", "export.prometheus"), ("labels", "export.prometheus.feedback")]
