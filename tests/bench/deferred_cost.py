"""CPU of an evaluation that waits for batches beside one that asks at once, and its memory while it waits.

`PYTHONPATH=tests/integration:tests/e2e:tests/kafka .venv/bin/python tests/bench/deferred_cost.py`: a service over SQLite in a process
of its own, whose CPU is that of the system's account; the provider of batches of the tests answers in this one.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml
from batch_server import BatchServer, batch_server
from test_deferred_killed import send

from collector.config.settings import LogSettings
from collector.service.open_logs import open_logs

RUN = """
import sys
from pathlib import Path
from collector.config.loading import load
from collector.service import evaluate as deferred
from collector.service.app import serve
from evaluators.judges.batches.batch_terms import BatchPace

deferred.PACE = BatchPace(first_look=1.0, longest_look=2.0, settled=1.0, first_retry=0.05, patience=float("inf"))
deferred.MOST_ITEMS = int(sys.argv[2])
serve(load(Path(sys.argv[1])), frozenset({"evaluate"}))
"""
BATCH = 100
LOG = {"kind": "sqlite", "path": "log.db"}


def configuration(url: str, way: str) -> dict[str, Any]:
    judged = {
        "kind": "g_eval",
        "evaluation_steps": ["Say whether it answers."],
        "evaluation_params": ["input", "actual_output"],
    }
    return {
        "log": LOG,
        "receive": {"otlp_http": None},
        "evaluate": {"gather": 10.0, "shutdown_grace": 1.0},
        "judges": {"main": {"model": "m", "base_url": url, "concurrency": 32, "top_logprobs": 0}},
        "evaluators": {"helpful": {"kind": "length", "maximum": 9} if way == "no judge" else judged},
        "monitors": {"all": {"evaluators": ["helpful"], "urgency": "hours" if way == "batches" else "now"}},
    }


async def measured(server: BatchServer, way: str, count: int) -> tuple[float, float]:
    """Seconds of CPU of a process that makes so many evaluations, and its bytes when all of them wait."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "evalstream.yaml").write_text(yaml.safe_dump(configuration(server.base_url, way)))
        if count:
            await send(folder, LOG, count=count)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", RUN, str(folder / "evalstream.yaml"), str(BATCH), cwd=folder
        )
        waiting = 0.0
        while await made(folder) < count:
            waiting = max(waiting, resident(process.pid))
            await asyncio.sleep(0.5)
        if not count:
            await asyncio.sleep(5.0)
        cpu = spent(process.pid)
        process.terminate()
        await process.wait()
        return cpu, waiting


async def made(folder: Path) -> int:
    settings = LogSettings.model_validate(LOG)
    number = 0
    async with open_logs(settings.model_copy(update={"path": str(folder / "log.db")})) as logs:
        for partition in range(logs.evaluations.partitions):
            async for batch in logs.evaluations.read(partition, 0):
                number += sum(not each.headers for each in batch)
    return number


def spent(process: int) -> float:
    """Seconds of CPU that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(process: int) -> float:
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def run(count: int) -> None:
    async with batch_server(looks=2) as server:
        base, _ = await measured(server, "no judge", 0)
        for way in ("no judge", "at once", "batches"):
            cpu, memory = await measured(server, way, count)
            print(f"{way}: {(cpu - base) / count * 1e6:,.0f} µs an evaluation; at most {memory / 2**20:.0f} MiB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=2000)
    asyncio.run(run(parser.parse_args().turns))
