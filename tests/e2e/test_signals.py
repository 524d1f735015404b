"""The first signal lets what runs end; the second ends the service now, and nothing is lost by it."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import pytest
from faulty_judge import Faults, FaultyJudge
from payloads import exchanges, requests
from service import ServiceProcess, free_port, until_ledger
from stand_in_judge import serve_judge
from test_page_service import DIALECT, configuration


async def test_a_second_signal_ends_it_now_and_the_next_start_goes_on(tmp_path: Path) -> None:
    judge = FaultyJudge(Faults(hang=True))
    async with serve_judge(judge) as url:
        settings = configuration(url, 0) | {"evaluate": {"shutdown_grace": "10m"}}
        process = ServiceProcess(tmp_path, settings)
        await process.start()
        for name, body in requests(DIALECT):
            assert await process.post(name, body) == 200
        async with asyncio.timeout(60):
            while not judge.calls:
                await asyncio.sleep(0.05)
        running = process._process
        assert running is not None
        running.send_signal(signal.SIGTERM)
        async with asyncio.timeout(60):
            while "signal again to exit now" not in process.stderr.read_text():
                await asyncio.sleep(0.05)
        assert running.returncode is None, "an evaluation is under way"
        running.send_signal(signal.SIGTERM)
        async with asyncio.timeout(60):
            assert await running.wait() == 1
        judge.faults = Faults()
        await process.start()
        found = await until_ledger(process, len(exchanges((DIALECT,))))
        assert await process.stop() == 0
    assert len({each.evaluation_id for each in found}) == len(found) == len(exchanges((DIALECT,)))


async def test_sighup_is_answered_with_one_line(tmp_path: Path) -> None:
    async with serve_judge() as url:
        process = ServiceProcess(tmp_path, configuration(url, 0))
        await process.start()
        running = process._process
        assert running is not None
        running.send_signal(signal.SIGHUP)
        async with asyncio.timeout(60):
            while "the file has configuration 1, which runs already" not in process.stderr.read_text():
                await asyncio.sleep(0.05)
        assert running.returncode is None
        assert await process.stop() == 0


@pytest.mark.parametrize("arguments", [(), ("--workers", "2")])
@pytest.mark.parametrize("after", [0.0, 0.2, 0.6, 1.5])
async def test_a_start_that_is_told_to_stop_ends_with_0(
    after: float, arguments: tuple[str, ...], tmp_path: Path
) -> None:
    """The installed command, at any time since it is Python's: while it imports, opens its logs, begins to listen."""
    process = ServiceProcess(tmp_path, configuration("http://127.0.0.1:9/v1", free_port()))
    command = Path(sys.executable).with_name("evalstream")
    running = await asyncio.create_subprocess_exec(
        command, "run", "-c", process.path, *arguments, cwd=tmp_path, stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(60):
        while not _takes_sigterm(running.pid):
            await asyncio.sleep(0.002)
        await asyncio.sleep(after)
        running.send_signal(signal.SIGTERM)
        _, stderr = await running.communicate()
    assert running.returncode == 0, stderr.decode()
    assert b"Traceback" not in stderr


def _takes_sigterm(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt:")).split()[1]
    return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)
