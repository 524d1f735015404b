"""The checks of logs and disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.logs.log import LogUnavailable
from collector.logs.memory import MemoryLog
from collector.service import app
from collector.service.app import LogProbe, disk_problem


class Unwritable(MemoryLog):
    problem: str | None = None

    async def probe(self) -> None:
        if self.problem is not None:
            raise LogUnavailable(self.problem)


async def test_a_log_that_cannot_be_written_is_a_problem_until_it_can(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="collector.backoff")
    log = Unwritable("turns", 1)
    probe = LogProbe([MemoryLog("spans", 1), log])
    await probe.probe()
    assert probe.problem() is None
    log.problem = "database or disk is full"
    await probe.probe()
    await probe.probe()
    assert probe.problem() == "database or disk is full"
    log.problem = None
    await probe.probe()
    assert probe.problem() is None
    assert [record.message for record in caplog.records] == [
        "using the logs failed (database or disk is full); retrying",
        "using the logs succeeded after 2 failed attempts",
    ]


async def test_a_log_that_does_not_answer_is_a_problem() -> None:
    now = 0.0

    class Silent(MemoryLog):
        async def probe(self) -> None:
            nonlocal now
            now = 4.0
            assert probe.problem() is None
            now = 7.0
            assert probe.problem() == "has not answered for 7 s"

    probe = LogProbe([Silent("spans", 1)], clock=lambda: now)
    await probe.probe()
    assert probe.problem() is None


async def test_a_known_problem_stays_while_the_next_probe_takes_long() -> None:
    now, said = 0.0, list[str | None]()

    class Refused(MemoryLog):
        async def probe(self) -> None:
            nonlocal now
            now += 7.0
            said.append(probe.problem())
            raise LogUnavailable("the cause")

    probe = LogProbe([Refused("spans", 1)], clock=lambda: now)
    await probe.probe()
    await probe.probe()
    assert said == ["has not answered for 7 s", "the cause"]


def test_a_disk_with_little_room_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "LOW_DISK", 0)
    assert disk_problem(tmp_path / "evalstream.db") is None
    monkeypatch.setattr(app, "LOW_DISK", 1 << 60)
    problem = disk_problem(tmp_path / "evalstream.db")
    assert problem is not None
    assert f"MiB are free at {tmp_path}" in problem
