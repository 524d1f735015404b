from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from evaluation_samples import failed, scored, skipped

from collector.errors import ConfigError
from collector.export.exporter import ExportContext, ExportUnavailable
from collector.export.jsonl import JsonlExporter, JsonlSettings
from collector.records.json import evaluation_from_json
from collector.telemetry.registry import Telemetry

CONTEXT = ExportContext(telemetry=Telemetry())


async def export(path: Path, *batches, **settings) -> None:
    async with JsonlExporter.open(JsonlSettings(path=path, **settings), CONTEXT) as exporter:
        await asyncio.gather(*map(exporter.export, batches))


def ids(path: Path) -> list[str]:
    return [evaluation_from_json(line).evaluation_id for line in path.read_bytes().splitlines()]


@pytest.mark.parametrize("sync", [True, False])
async def test_one_evaluation_a_line(tmp_path: Path, sync: bool):
    path = tmp_path / "new folder" / "evaluations.jsonl"
    await export(path, [scored(1), skipped(2)], [failed(3)], sync=sync)
    assert [evaluation_from_json(line) for line in path.read_bytes().splitlines()] == [scored(1), skipped(2), failed(3)]


async def test_goes_on_where_it_was(tmp_path: Path):
    path = tmp_path / "evaluations.jsonl"
    await export(path, [scored(1)])
    await export(path, [scored(2)])
    assert ids(path) == [f"{1:032x}", f"{2:032x}"]


@pytest.mark.parametrize("torn", [b'{"evaluation_id": "half', b"x" * 200_000])
async def test_a_line_that_a_crash_cut_off_is_taken_out(tmp_path: Path, torn: bytes):
    path = tmp_path / "evaluations.jsonl"
    await export(path, [scored(1)])
    path.write_bytes(path.read_bytes() + torn)
    await export(path, [scored(2)])
    assert ids(path) == [f"{1:032x}", f"{2:032x}"]


async def test_a_file_that_cannot_be_written_is_a_configuration_error(tmp_path: Path):
    with pytest.raises(ConfigError, match="cannot be written"):
        await export(tmp_path, [scored(1)])


async def test_a_full_disk_is_unavailable():
    async with JsonlExporter.open(JsonlSettings(path=Path("/dev/full")), CONTEXT) as exporter:
        with pytest.raises(ExportUnavailable, match="No space left"):
            await exporter.export([scored(1)])


@pytest.mark.parametrize("rotated", [True, False])
async def test_a_file_that_is_moved_or_deleted_is_opened_again_at_its_path(tmp_path: Path, rotated: bool):
    path, aside = tmp_path / "evaluations.jsonl", tmp_path / "evaluations.jsonl.1"
    async with JsonlExporter.open(JsonlSettings(path=path), CONTEXT) as exporter:
        await exporter.export([scored(1)])
        if rotated:
            path.rename(aside)
        else:
            path.unlink()
        await exporter.export([scored(2)])
        await exporter.export([scored(3)])
    assert ids(path) == [f"{2:032x}", f"{3:032x}"]
    if rotated:
        assert ids(aside) == [f"{1:032x}"]
