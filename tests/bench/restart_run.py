"""A restart as an operator sees it: `evalstream run` starts, and how long until the state of before is there again.

    python tests/bench/restart_run.py                 200,000 turns of open conversations; minutes
    python tests/bench/restart_run.py --turns 1000000

Over one SQLite file, and over Kafka by one and by two workers, which share the partitions. The turns log holds turns of
open conversations, six each with 1 kB of text, as a service leaves it that has read them and needs them all: with
snapshots, as much sooner as there are fewer than a million turns (`recovery.py`); behind them lies a new one in each
partition. Measured is from the start of the command until it is ready, and until the new ones are taken;
so it has imports, connections and, of two workers, the second one's joining of the groups. The seconds for a million turns
are in proportion to what comes after the command is ready.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).parents[1] / "kafka"))

from broker import BrokerUnavailable, running_broker
from judgeless_plan import records
from measured import Figure
from processes import Process, free_port
from recovery import Load, fill

from collector.config.loading import load
from collector.logs.log import Record
from collector.service.open_logs import Logs, open_logs

GROUP = "recovery"
TURNS_EACH = 6
PARTITIONS = 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=200_000)
    parser.add_argument("--smoke", action="store_true", help="as little as shows that it works")
    parser.add_argument("--long", action="store_true", help="1,000,000 turns")
    parser.add_argument("--without", action="store_true", help="without snapshots")
    given = parser.parse_args()
    turns = TURNS_EACH * ((600 if given.smoke else 1_000_000 if given.long else given.turns) // TURNS_EACH)
    with tempfile.TemporaryDirectory(prefix="evalstream-bench-") as folder:
        sqlite = {"kind": "sqlite", "path": "bench.db"}
        restarts(sqlite, turns, (1,), Path(folder), without=given.without)
    try:
        with running_broker() as broker, tempfile.TemporaryDirectory(prefix="evalstream-bench-") as folder:
            kafka = {"bootstrap_servers": [broker.bootstrap], "prefix": "restart", "partitions": PARTITIONS}
            restarts({"kind": "kafka", "kafka": kafka}, turns, (1, 2), Path(folder), without=given.without)
    except BrokerUnavailable as error:
        print(json.dumps({"left_out": f"Kafka: {error}"}))


def restarts(log: dict[str, Any], turns: int, by: Sequence[int], folder: Path, *, without: bool = False) -> None:
    """Fill a log, and start over it by each number of workers: a stop commits that the same turns are needed."""
    load = Load(turns, TURNS_EACH, PARTITIONS, without=without, monitor="all")
    config = _configuration(log, load)
    path = folder / "filling.yaml"
    path.write_text(yaml.safe_dump(config))
    asyncio.run(_fill(path, folder, load))
    for workers in by:
        partitions = asyncio.run(_add_new(path, folder))
        started = time.monotonic()
        process = Process(folder, config, workers=workers)
        try:
            while process.metric("evalstream_turns_total") < partitions:
                if time.monotonic() - started > 1200:
                    raise RuntimeError("after twenty minutes no new turn is taken")
                time.sleep(0.25)
            whole = time.monotonic() - started
            used = process.cpu_by_process
        finally:
            process.stop()
        name = f"restart, {log['kind']}, {workers} worker{'s' * (workers > 1)}"
        note = f"{turns:,} turns of open state in {whole:.1f} s, ready after {process.ready_after:.1f} s"
        million = process.ready_after + (whole - process.ready_after) * 1_000_000 / turns
        Figure(GROUP, f"{name}: 1 M turns of open state", "s", (million,), aim=20.0, note=note).show()
        note = f"the start, too; by process {', '.join(f'{each:.1f}' for each in used.values())} s"
        Figure(GROUP, f"{name}: CPU", "µs CPU/turn", (sum(used.values()) / turns * 1e6,), note=note).show()


def _configuration(log: dict[str, Any], load: Load) -> dict[str, Any]:
    """One evaluator of conversations, which asks nothing while they are open."""
    return {
        "log": log,
        "receive": {"otlp_http": {"port": free_port()}},
        "judges": {"main": {"model": "m", "base_url": "http://127.0.0.1:9/v1", "api_key": "none"}},
        "evaluators": {"reached": {"kind": "goal_accuracy", "judge": "main"}},
        "monitors": {"all": {"evaluators": ["reached"], "idle_timeout": 7200, "max_age": 86_400}},
        "evaluate": {
            "max_open_conversations": 1_000_000,
            "max_open_bytes": 8 << 30,
            "snapshot_after_turns": load.snapshot_turns,
        },
    }


def _opening(path: Path, folder: Path) -> AbstractAsyncContextManager[Logs]:
    settings = load(path, {}).settings.log
    if settings.kind == "sqlite":
        settings = settings.model_copy(update={"path": str(folder / settings.path)})
    return open_logs(settings)


async def _fill(path: Path, folder: Path, load: Load) -> None:
    async with _opening(path, folder) as logs:
        await fill(
            replace(load, partitions=logs.turns.partitions), {"turns": logs.turns, "evaluations": logs.evaluations}
        )


async def _add_new(path: Path, folder: Path) -> int:
    """Append a turn to each partition; how many these are."""
    async with _opening(path, folder) as logs:
        new = records(logs.turns.partitions, 1, text=650, seed=time.monotonic_ns())
        await logs.turns.append([Record(each.key, each.value, (), number) for number, each in enumerate(new)])
        return logs.turns.partitions


if __name__ == "__main__":
    main()
