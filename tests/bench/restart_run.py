"""A restart as an operator sees it: `evalstream run` starts, and how long until the state of before is there again.

    python tests/bench/restart_run.py                 200,000 turns of open conversations; minutes
    python tests/bench/restart_run.py --turns 1000000

Over one SQLite file, and over Kafka by one and by two workers, which share the partitions. The turns log holds turns of
open conversations, six each with 1 kB of text, and a commit says that all were read and all are needed; behind them lies
a new one in each partition. Measured is from the start of the command until it is ready, and until the new ones are taken;
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
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).parents[1] / "kafka"))

from broker import BrokerUnavailable, running_broker
from judgeless_plan import records
from measured import Figure
from processes import Process, free_port

from collector.backoff import Backoff
from collector.config.loading import load
from collector.evaluate.recovery.replay_point import CommitMetadata, ReplayPoint
from collector.evaluate.stage import GROUP as EVALUATE
from collector.logs.log import Committed, LogUnavailable, Record
from collector.service.open_logs import Logs, open_logs

GROUP = "recovery"
TURNS_EACH = 6
BATCH = 2000
PARTITIONS = 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=200_000)
    parser.add_argument("--smoke", action="store_true", help="as little as shows that it works")
    parser.add_argument("--long", action="store_true", help="1,000,000 turns")
    given = parser.parse_args()
    turns = TURNS_EACH * ((600 if given.smoke else 1_000_000 if given.long else given.turns) // TURNS_EACH)
    with tempfile.TemporaryDirectory(prefix="evalstream-bench-") as folder:
        restarts({"kind": "sqlite", "path": "bench.db"}, turns, (1,), Path(folder))
    try:
        with running_broker() as broker, tempfile.TemporaryDirectory(prefix="evalstream-bench-") as folder:
            kafka = {"bootstrap_servers": [broker.bootstrap], "prefix": "restart", "partitions": PARTITIONS}
            restarts({"kind": "kafka", "kafka": kafka}, turns, (1, 2), Path(folder))
    except BrokerUnavailable as error:
        print(json.dumps({"left_out": f"Kafka: {error}"}))


def restarts(log: dict[str, Any], turns: int, by: Sequence[int], folder: Path) -> None:
    """Fill a log, and start over it by each number of workers: a stop commits that the same turns are needed."""
    config = _configuration(log)
    path = folder / "filling.yaml"
    path.write_text(yaml.safe_dump(config))
    asyncio.run(_fill(path, folder, turns))
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


def _configuration(log: dict[str, Any]) -> dict[str, Any]:
    """One evaluator of conversations, which asks nothing while they are open."""
    return {
        "log": log,
        "receive": {"otlp_http": {"port": free_port()}},
        "judges": {"main": {"model": "m", "base_url": "http://127.0.0.1:9/v1", "api_key": "none"}},
        "evaluators": {"reached": {"kind": "goal_accuracy", "judge": "main"}},
        "monitors": {"all": {"evaluators": ["reached"], "idle_timeout": 7200, "max_age": 86_400}},
        "evaluate": {"max_open_conversations": 1_000_000, "max_open_bytes": 8 << 30},
    }


def _opening(path: Path, folder: Path) -> AbstractAsyncContextManager[Logs]:
    settings = load(path, {}).settings.log
    if settings.kind == "sqlite":
        settings = settings.model_copy(update={"path": str(folder / settings.path)})
    return open_logs(settings)


async def _fill(path: Path, folder: Path, turns: int) -> None:
    async with _opening(path, folder) as logs:
        for batch in _batches(turns):
            await logs.turns.append(batch)
        ends = {each: await logs.turns.end_offset(each) for each in range(logs.turns.partitions)}
        note = CommitMetadata(replay_point=ReplayPoint(0)).to_json()
        states = {each: Committed(0, end, note) for each, end in ends.items()}
        committing = Backoff(cap=1.0, deadline=30.0)  # a broker that has just begun knows no coordinator yet
        await committing.repeat(lambda: logs.turns.set_committed(EVALUATE, states), LogUnavailable, action="committing")


async def _add_new(path: Path, folder: Path) -> int:
    """Append a turn to each partition; how many these are."""
    async with _opening(path, folder) as logs:
        new = records(logs.turns.partitions, 1, text=650, seed=time.monotonic_ns())
        await logs.turns.append([Record(each.key, each.value, (), number) for number, each in enumerate(new)])
        return logs.turns.partitions


def _batches(turns: int) -> Iterator[list[Record]]:
    batch: list[Record] = []
    for each in records(turns // TURNS_EACH, TURNS_EACH, text=650):
        batch.append(Record(each.key, each.value))
        if len(batch) == BATCH:
            yield batch
            batch = []
    yield batch


if __name__ == "__main__":
    main()
