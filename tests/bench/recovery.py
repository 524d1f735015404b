"""A restart with open state: how long until all of it is there again.

The turns log in a SQLite file holds turns of open conversations, six each with 1 kB of text, all of them judged when they
are over. It is filled as a service leaves it: the stage follows while the turns come, writes snapshots and commits. Then
another one starts. Measured is from the start of following until all that was delivered is in its state. 1,000,000
turns with `--long`, else as many as take seconds, with snapshots as much sooner; beside it reading the log alone.

    python tests/bench/recovery.py --long --sampled 0.01    one in a hundred conversations is judged
    python tests/bench/recovery.py --long --without         no snapshots
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import tempfile
import time
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import uvloop
from judgeless_plan import plan, records
from measured import Figure, resident

from collector.evaluate.conversations.snapshot import SNAPSHOT_HEADERS
from collector.evaluate.guardrails import EvaluationGuardrails
from collector.evaluate.partition_state import StateLimits
from collector.evaluate.plan import Plan
from collector.evaluate.scheduling.dispatch import BulkheadLimits, Dispatcher
from collector.evaluate.stage import EvaluateStage, StageDefinitions
from collector.logs.log import Log, Record
from collector.logs.memory import MemoryLog
from collector.logs.sqlite import SqliteLog
from collector.service.garbage import COLLECT_AFTER
from collector.service.process_resources import long_lived
from collector.telemetry.registry import Telemetry

GROUP = "recovery"
MILLION = 1_000_000
FEW_AT_ONCE = 2000
"""Turns that come together; what a service is given has been read when the next come."""


@dataclass(frozen=True)
class Load:
    """So many turns, of conversations that all stay open, sampled at a rate."""

    turns: int
    turns_each: int = 6
    partitions: int = 8
    sampled: float = 1.0
    without: bool = False
    monitor: str = "m"

    @property
    def limits(self) -> StateLimits:
        """Those of a service, with snapshots as if there were a million turns."""
        return StateLimits(conversations=10**9, bytes=10**12, snapshot_turns=self.snapshot_turns)

    @property
    def snapshot_turns(self) -> int:
        """In proportion to the turns that are judged."""
        usual = StateLimits().snapshot_turns
        return MILLION**2 if self.without else max(1, int(usual * self.turns * self.sampled) // MILLION)

    @property
    def plan(self) -> Plan:
        judgeless = plan(of_turn=0, of_conversation=1, sample=self.sampled)
        return replace(judgeless, monitors=(replace(judgeless.monitors[0], name=self.monitor),))

    def batches(self) -> Iterator[list[Record]]:
        """What comes together."""
        batch: list[Record] = []
        for each in records(self.turns // self.turns_each, self.turns_each, text=650):
            batch.append(Record(each.key, each.value))
            if len(batch) == FEW_AT_ONCE:
                yield batch
                batch = []
        yield batch


@dataclass
class Left:
    """What a service has left: the turns of its state, and what it and its log took."""

    turns: int = 0
    cpu: float = 0.0
    turn_bytes: int = 0
    snapshots: int = 0
    snapshot_bytes: int = 0
    to_read: int = 0


class OnePlan:
    """The history of a service whose configuration never changed."""

    async def plan_of(self, number: int, _substitute: Plan | None = None) -> Plan | None:
        raise AssertionError(f"configuration {number}")


@asynccontextmanager
async def following(load: Load, logs: Mapping[str, Log]) -> AsyncGenerator[EvaluateStage]:
    """A stage that follows the turns log; at the end its position is committed."""
    stage = EvaluateStage(
        load.plan,
        Dispatcher(logs["evaluations"], EvaluationGuardrails(Telemetry()), limits=BulkheadLimits(slots=64)),
        turns=logs["turns"],
        limits=load.limits,
        definitions=StageDefinitions(OnePlan(), MemoryLog("definitions", partitions=1)),
    )
    task = asyncio.create_task(logs["turns"].follow("evaluate", long_lived(stage.open_fold)))
    try:
        yield stage
    finally:
        task.cancel()
        await asyncio.wait([task])


async def ends(load: Load, turns: Log) -> dict[int, int]:
    return {partition: await turns.end_offset(partition) for partition in range(load.partitions)}


async def reached(load: Load, stage: EvaluateStage, turns: Log, until: Mapping[int, int] | None = None) -> None:
    """Wait until the state has all records; asking costs next to nothing."""
    while True:
        at = until or await ends(load, turns)
        now = {partition: each.state.next_offset for partition, each in stage._processors.items()}
        if all(now.get(partition, 0) >= end for partition, end in at.items()):
            return
        await asyncio.sleep(0.02)


async def fill(load: Load, logs: Mapping[str, Log]) -> Left:
    """Fill the turns log while a stage follows it, and commit."""
    left = Left()
    async with following(load, logs) as stage:
        for batch in load.batches():
            left.turn_bytes += sum(len(each.value) for each in batch)
            await logs["turns"].append(batch)
            appended = time.process_time()
            await reached(load, stage, logs["turns"])
            left.cpu += time.process_time() - appended
        left.turns = turns_of(stage)
    return left


async def weigh(load: Load, logs: Mapping[str, Log], left: Left) -> float:
    """Read what a restart reads, and do nothing with it; returns seconds of CPU."""
    committed = await logs["turns"].committed("evaluate")
    started = time.process_time()
    for partition in range(load.partitions):
        async for batch in logs["turns"].read(partition, committed[partition].low_watermark):
            left.to_read += len(batch)
    used = time.process_time() - started
    for partition in range(load.partitions):
        async for batch in logs["turns"].read(partition, 0):
            sizes = [len(each.value) for each in batch if each.headers == SNAPSHOT_HEADERS]
            left.snapshots += len(sizes)
            left.snapshot_bytes += sum(sizes)
    return used


async def measure(load: Load) -> None:
    with tempfile.TemporaryDirectory(prefix="evalstream-bench-") as folder:
        logs = await SqliteLog.open(Path(folder) / "bench.db", ["turns", "evaluations"], load.partitions)
        left = await fill(load, logs)
        gc.collect()
        reading = await weigh(load, logs, left)
        until = await ends(load, logs["turns"])
        before, started, cpu = resident(), time.monotonic(), time.process_time()
        async with following(load, logs) as stage:
            await reached(load, stage, logs["turns"], until)
            ready, ready_cpu = time.monotonic() - started, time.process_time() - cpu
            grown = resident() - before
            last = turns_of(stage)
        for log in logs.values():
            await log.close()
    assert last == left.turns, (last, left.turns)
    show(load, left, (ready, ready_cpu, reading), grown)


def show(load: Load, left: Left, seconds: tuple[float, float, float], grown: float) -> None:
    ready, cpu, reading = seconds
    open_turns = left.turns
    what = f"{load.turns:,} turns, {load.turns_each} each, {load.sampled:.0%} judged, {load.partitions} partitions"
    note = f"{what}; {left.to_read:,} records read; floor: reading them alone"
    scale = 1e6 / load.turns
    Figure(
        GROUP, "restart: CPU", "µs CPU/turn", (cpu * scale,), floor=reading * scale, ratio=cpu / reading, note=note
    ).show()
    note = f"{what}; {cpu:.1f} s of CPU"
    if load.turns < MILLION - load.turns_each:
        note = f"measured with {load.turns:,}, in proportion: {ready:.1f} s, {cpu:.1f} of CPU; reading alone {reading:.1f} s"
    Figure(
        GROUP, "restart with 1 M turns of open state", "s", (ready * MILLION / load.turns,), aim=20.0, note=note
    ).show()
    note = f"reading and keeping turns; {left.snapshots:,} snapshots"
    Figure(GROUP, "state that is kept, with snapshots: CPU", "µs CPU/turn", (left.cpu * scale,), note=note).show()
    note = f"a turn's record has {left.turn_bytes / load.turns:.0f}"
    Figure(GROUP, "snapshots in the log", "bytes/turn", (left.snapshot_bytes / load.turns,), note=note).show()
    note = "of 975 bytes of text; less what the service before has left to be used again"
    Figure(GROUP, "memory of the open state", "bytes/turn", (grown * 1e6 / max(1, open_turns),), note=note).show()


def turns_of(stage: EvaluateStage) -> int:
    """The turns in the state, one by one."""
    return sum(
        len(session.turns)
        for fold in stage._processors.values()
        for conversations in fold.state.sessions_by_monitor.values()
        for conversation in conversations._conversations.values()
        for session in conversation.windows
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="as little as shows that it works")
    parser.add_argument("--long", action="store_true", help="1,000,000 turns")
    parser.add_argument("--turns", type=int, default=120_000)
    parser.add_argument("--turns-each", type=int, default=6)
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--sampled", type=float, default=1.0)
    parser.add_argument("--without", action="store_true", help="without snapshots")
    given = parser.parse_args()
    gc.set_threshold(*COLLECT_AFTER)  # as a service does
    turns = 600 if given.smoke else MILLION if given.long else given.turns
    turns -= turns % given.turns_each
    uvloop.run(measure(Load(turns, given.turns_each, given.partitions, given.sampled, without=given.without)))


if __name__ == "__main__":
    main()
