"""A SQLite log whose disk is really full, whose file is deleted or moved while in use, or that another process has."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from counted_judge import CountedJudge
from faulty_judge import Faults
from full_disk import NoDisk, SmallDisk, mounted_disk
from service import ServiceProcess, until_ledger
from stand_in_judge import serve_judge
from test_faults import accepted, assert_each_once, configuration, said
from traffic import request

SMALL = 16 << 20
"""Bytes of the disk: enough for a hundred turns."""

NOTICED_WITHIN = 2.0
"""Seconds after which a file that is gone is not written to any more."""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    try:
        with mounted_disk(tmp_path / "disk", SMALL) as disk:
            yield disk
    except NoDisk as error:
        pytest.skip(str(error))


@pytest.mark.long
@pytest.mark.timeout(200)
async def test_the_service_waits_for_room_on_a_full_disk_and_starts_on_one(
    tmp_path: Path, small_disk: SmallDisk
) -> None:
    judge = CountedJudge(Faults(latency=0.05))
    log = {"kind": "sqlite", "path": str(small_disk.path / "evalstream.db")}
    async with serve_judge(judge) as url:
        service = ServiceProcess(tmp_path, configuration(url, log=log))
        await service.start()
        await accepted(service, range(20))
        await until_ledger(service, 20)
        small_disk.fill(but=700_000)  # the service fills the rest: any of its appends may be the first to fail
        sending = asyncio.create_task(accepted(service, range(20, 60)))
        await asyncio.sleep(1)
        assert await first_other_answer(service, 200, number=20) == 503
        await asyncio.sleep(6)
        assert_runs(service)
        assert not sending.done()
        assert (await readiness(service))[0] == 503
        small_disk.free()
        await sending
        ledger = await until_ledger(service, 60)
        assert_each_once(ledger, range(60))
        await service.kill()

        small_disk.fill()
        starting = asyncio.create_task(service.start())
        await asyncio.sleep(10)
        assert_runs(service)
        assert not starting.done() or await first_other_answer(service, 200, number=60) == 503
        small_disk.free()
        await starting
        await accepted(service, range(60, 80))
        assert_each_once(await until_ledger(service, 80), range(80))
        assert await service.stop() == 0
    assert judge.paid() == dict.fromkeys(range(80), 1)


@pytest.mark.long
async def test_a_start_that_waits_for_a_disk_ends_in_order_when_it_is_asked_to(
    tmp_path: Path, small_disk: SmallDisk
) -> None:
    small_disk.fill()
    log = {"kind": "sqlite", "path": str(small_disk.path / "evalstream.db")}
    service = ServiceProcess(tmp_path, configuration("http://127.0.0.1:9/v1", log=log))
    starting = asyncio.create_task(service.start())
    async with asyncio.timeout(30):
        while "opening the log failed" not in (said(service) if service.stderr.exists() else ""):
            await asyncio.sleep(0.1)
    assert "full" in said(service)
    assert await service.stop() == 0
    with pytest.raises(AssertionError, match="ended with 0"):
        await starting


@pytest.mark.long
@pytest.mark.parametrize("fault", ["deleted", "moved", "replaced", "wal deleted"])
async def test_a_file_that_is_gone_is_not_written_to(tmp_path: Path, fault: str) -> None:
    """Nothing is answered 200 that nobody can find again; a file that comes back is used again."""
    judge = CountedJudge(Faults(latency=0.05))
    path, wal, aside = (tmp_path / name for name in ("evalstream.db", "evalstream.db-wal", "aside.db"))
    async with serve_judge(judge) as url:
        service = ServiceProcess(tmp_path, configuration(url))
        await service.start()
        await accepted(service, range(20))
        await until_ledger(service, 20)
        if fault == "wal deleted":
            wal.unlink()
        elif fault == "deleted":
            path.unlink()
        else:
            path.rename(aside)
        if fault == "replaced":
            path.write_bytes(b"")
        await asyncio.sleep(NOTICED_WITHIN)
        answers = Counter([await service.post("traces", request([number])) for number in range(20, 30)])
        assert set(answers) == {503}
        status, ready = await readiness(service)
        assert (status, ready["checks"]["log"]["status"]) == (503, "failing")
        assert_runs(service)
        lines = [line for line in said(service).splitlines() if "nothing is accepted" in line]
        assert len(lines) == 1, "one line, with the remedy"
        assert ("SIGTERM" if fault == "wal deleted" else "move it back") in lines[0]
        if fault in ("moved", "replaced"):
            aside.rename(path)
            await accepted(service, range(20, 40))
            assert_each_once(await until_ledger(service, 40), range(40))
            async with asyncio.timeout(10):  # the log is probed once a second
                while (await readiness(service))[0] != 200:
                    await asyncio.sleep(0.1)
        assert await service.stop() == 0
        if fault == "wal deleted":
            await service.start()
            await accepted(service, range(20, 40))
            assert_each_once(await until_ledger(service, 40), range(40))
            assert await service.stop() == 0


async def test_a_second_process_on_the_same_file_has_interval_before_it_says_that_it_is_ready(tmp_path: Path) -> None:
    config = configuration("http://127.0.0.1:9/v1")
    first, second = ServiceProcess(tmp_path, config), None
    await first.start()
    try:
        (tmp_path / "second").mkdir()
        other = configuration("http://127.0.0.1:9/v1", log=config["log"] | {"path": str(tmp_path / "evalstream.db")})
        second = ServiceProcess(tmp_path / "second", other)
        with pytest.raises(AssertionError, match="the service ended with 2"):
            await second.start()
        words = said(second)
        assert "ready:" not in words
        assert "another process consumes" in words
        assert len([line for line in words.splitlines() if line.startswith("evalstream:")]) == 1
        assert "Traceback" not in words
        assert await first.stop() == 0
    finally:
        await first.end()
        if second is not None:
            await second.end()


def assert_runs(service: ServiceProcess) -> None:
    assert service._process is not None
    assert service._process.returncode is None, said(service)[-3000:]


async def first_other_answer(service: ServiceProcess, usual: int, number: int) -> int:
    """Send one turn until the answer is another than the usual one."""
    async with asyncio.timeout(30):
        while (answer := await service.post("traces", request([number]))) == usual:
            await asyncio.sleep(0.05)
    return answer


async def readiness(service: ServiceProcess) -> tuple[int, dict[str, Any]]:
    ready = service.metrics_url.replace("/metrics", "/readyz")
    async with aiohttp.ClientSession() as session, session.get(ready) as response:
        return response.status, await response.json()
