"""Files with judged text belong to their owner alone, whatever the umask says and whatever made them."""

from __future__ import annotations

import logging
import os
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from evaluation_samples import scored

from collector.commands.score.output import open_writer
from collector.export.exporter import ExportContext
from collector.export.jsonl import JsonlExporter, JsonlSettings
from collector.logs.log import LogError, LogUnavailable, Record
from collector.logs.sqlite import SqliteLog
from collector.telemetry.registry import Telemetry
from evaluators import Contains, Turn, evaluate_many
from evaluators.private_files import restrict


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def permissions(folder: Path) -> dict[str, str]:
    return {each.name: f"{stat.S_IMODE(each.stat().st_mode):o}" for each in sorted(folder.iterdir())}


async def write_and_consume(path: Path) -> dict[str, str]:
    log = (await SqliteLog.open(path, ["spans"], 1))["spans"]
    await log.append([Record(b"key", b"judged text")])
    async with log._file.only_consumer("spans", "assemble"):
        meanwhile = permissions(path.parent)
    await log.close()
    return meanwhile


async def test_the_sqlite_file_and_all_beside_it_are_private(tmp_path: Path):
    meanwhile = await write_and_consume(tmp_path / "evalstream.db")
    assert {"evalstream.db", "evalstream.db-wal", "evalstream.db-shm"} < set(meanwhile)
    assert any(name.endswith(".lock") for name in meanwhile)
    assert set(meanwhile.values()) == {"600"}


async def test_a_file_that_is_none_of_ours_keeps_its_permissions(tmp_path: Path) -> None:
    """`log.path` once pointed at another file, which was made private before it was refused."""
    notes, other = tmp_path / "notes.txt", tmp_path / "other.db"
    notes.write_text("Nothing of evalstream." * 100)
    connection = sqlite3.connect(other)
    connection.execute("PRAGMA user_version = 77")
    connection.close()
    for path in (notes, other):
        path.chmod(0o644)
        with pytest.raises(LogError):
            await SqliteLog.open(path, ["spans"], 1)
        assert stat.S_IMODE(path.stat().st_mode) == 0o644


async def test_a_folder_that_cannot_be_written_is_no_log_however_little_room_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read-only file system has no room either: it was waited for without end."""
    monkeypatch.setattr("collector.logs.sqlite_file.os.access", lambda *_: False)
    monkeypatch.setattr("collector.logs.sqlite_file._has_room", lambda _: False)
    monkeypatch.setattr("collector.logs.sqlite_file.create_private", lambda _: None)
    (tmp_path / "evalstream.db").mkdir()  # SQLite cannot open it, as where the file system is read-only
    with pytest.raises(LogError, match=r"see that the folder exists and can be written \(log\.path\)") as raised:
        await SqliteLog.open(tmp_path / "evalstream.db", ["spans"], 1)
    assert not isinstance(raised.value, LogUnavailable)


async def test_an_older_sqlite_file_becomes_private_at_the_start(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    path = tmp_path / "evalstream.db"
    await write_and_consume(path)
    for name in ("evalstream.db", "evalstream.db-wal"):
        (tmp_path / name).touch()
        (tmp_path / name).chmod(0o644)
    with caplog.at_level(logging.WARNING):
        assert set((await write_and_consume(path)).values()) == {"600"}
    assert f"{path} holds judged text and had permissions 0644, now 0600" in caplog.messages
    caplog.clear()
    await write_and_consume(path)
    assert not caplog.messages


@pytest.mark.parametrize(("group_readable", "after"), [(False, "600"), (True, "640")])
@pytest.mark.parametrize("before", [None, 0o644])
async def test_the_export_file(tmp_path: Path, group_readable: bool, after: str, before: int | None):
    path = tmp_path / "evaluations.jsonl"
    if before is not None:
        path.touch()
        path.chmod(before)
    settings = JsonlSettings(path=path, group_readable=group_readable)
    async with JsonlExporter.open(settings, ExportContext(telemetry=Telemetry())) as exporter:
        await exporter.export([scored(1)])
    assert permissions(tmp_path) == {"evaluations.jsonl": after}


@pytest.mark.parametrize("name", ["scores.jsonl", "scores.csv"])
def test_the_outputs_of_score_and_replay(tmp_path: Path, name: str):
    with open_writer(tmp_path / name) as write:
        write([scored(1)])
    assert permissions(tmp_path) == {name: "600"}


async def test_the_results_of_the_library(tmp_path: Path):
    turn = Turn(turn_id="1", actual_output="judged text")
    await evaluate_many(
        [Contains(name="c", search_text="text")], [turn], results=tmp_path / "results.jsonl", progress=False
    )
    assert permissions(tmp_path) == {"results.jsonl": "600"}


async def test_a_file_of_somebody_else_is_reported_and_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "evalstream.db"
    path.touch()
    path.chmod(0o666)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "chmod", refuse)
    await write_and_consume(path)
    assert f"{path} holds judged text and cannot be made private: Operation not permitted" in caplog.messages


def test_devices_and_missing_files_stay_as_they_are(tmp_path: Path):
    assert restrict(Path("/dev/null")) is None
    assert restrict(tmp_path / "missing") is None
