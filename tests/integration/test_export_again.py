"""`evalstream export again`: a time range of a real log, sent again to a real endpoint under the same ids."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from aiohttp import web
from configurations import checked
from evaluation_samples import START, scored
from otlp_destination import Destination
from platform_stub import PlatformStub

from collector.commands.export_again import ExportOptions, export_again
from collector.config.configured import Config
from collector.errors import ConfigError
from collector.logs.log import Record
from collector.page.settings import PageSettings
from collector.records.json import evaluation_to_json
from collector.service.open_logs import open_logs


@pytest.fixture
async def destination() -> AsyncIterator[Destination]:
    destination = Destination()
    async with destination.serve():
        yield destination


async def stored(folder: Path, destination: Destination, count: int, **exporters) -> Config:
    config = checked(
        {"exact": {"kind": "exact_match"}},
        folder=folder,
        export={"otlp": {"endpoint": destination.endpoint}, "prometheus": {"port": 0}} | exporters,
    )
    async with open_logs(config.settings.log) as logs:
        records = [Record(b"%d" % n, evaluation_to_json(scored(n))) for n in range(count)]
        await logs.evaluations.append(records + records[:5])
    return config


async def test_all_go_again_once_each_under_the_same_ids(tmp_path: Path, destination: Destination):
    config, lines = await stored(tmp_path, destination, 700), []
    for _ in range(2):
        assert await export_again(config, ExportOptions(since=None), lines.append) == 0
    assert lines == ["otlp: 700 evaluations exported again"] * 2
    first, second = destination.spans[:700], destination.spans[700:]
    assert sorted(each.span_id for each in first) == sorted(each.span_id for each in second)
    assert len({each.span_id for each in first}) == 700


async def test_links_to_the_page_go_again_too(tmp_path: Path, destination: Destination):
    stub = PlatformStub()
    async with stub.serve():
        config = await stored(tmp_path, destination, 1, phoenix={"endpoint": stub.endpoint})
        config = replace(
            config, settings=config.settings.model_copy(update={"page": PageSettings(url="https://e.org")})
        )
        assert await export_again(config, ExportOptions(since=None, exporters=["phoenix"]), [].append) == 0
    assert f"https://e.org/?evaluation={0:032x}".encode() in stub.posts[0].raw


async def test_only_the_time_range_goes(tmp_path: Path, destination: Destination):
    config, lines = await stored(tmp_path, destination, 20), []
    later = START + timedelta(days=1)
    assert await export_again(config, ExportOptions(since=later), lines.append) == 0
    assert await export_again(config, ExportOptions(since=None, until=later), lines.append) == 0
    assert lines == ["otlp: 0 evaluations exported again", "otlp: 20 evaluations exported again"]


async def test_beside_a_reader_of_the_log_it_moves_no_cursor(tmp_path: Path, destination: Destination):
    config = await stored(tmp_path, destination, 20)
    async with open_logs(config.settings.log) as live:
        assert await export_again(config, ExportOptions(since=None), lambda _line: None) == 0
        await live.evaluations.append([Record(b"k", evaluation_to_json(scored(99)))])
    assert len(destination.events) == 20


async def test_what_the_destination_refuses_ends_with_1_and_the_reason(tmp_path: Path, destination: Destination):
    config, lines = await stored(tmp_path, destination, 20), []
    destination.answers = [web.Response(status=400), web.Response(status=400)]
    assert await export_again(config, ExportOptions(since=None), lines.append) == 1
    destination.answers = [web.Response(status=401) for _ in range(1000)]
    assert await export_again(config, ExportOptions(since=None, patience=0.5), lines.append) == 1
    assert lines[0].endswith("20 rejected")
    assert "stopped: it did not take a batch within 0.5 s" in lines[1]


async def test_exporters_that_take_nothing_again_are_refused(tmp_path: Path, destination: Destination):
    config = await stored(tmp_path, destination, 1)
    for name, why in {"prometheus": "is scraped", "nowhere": "nowhere"}.items():
        with pytest.raises(ConfigError, match=why):
            await export_again(config, ExportOptions(since=None, exporters=[name]), print)
