"""A restart with open state: how long until all of it is there again.

The turns log in a SQLite file holds turns of open conversations, six each with 1 kB of text, all of them judged when they
are over; a group has committed that it read them all and needs them all. Measured is from the start of following until
the first new turn is taken. 1,000,000 turns with `--long`, else as many as take seconds; beside it reading the log alone.
"""

from __future__ import annotations

import asyncio
import gc
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import uvloop
from judgeless_plan import plan, records
from measured import Figure, arguments, resident

from collector.evaluate.guardrails import EvaluationGuardrails
from collector.evaluate.partition_processor import StateLimits
from collector.evaluate.recovery.replay_point import CommitMetadata, ReplayPoint
from collector.evaluate.scheduling.bulkhead import BulkheadLimits
from collector.evaluate.scheduling.dispatch import Dispatcher
from collector.evaluate.stage import EvaluateStage
from collector.logs.log import Committed, Record
from collector.logs.sqlite import SqliteLog
from collector.service.app import COLLECT_AFTER
from collector.telemetry.registry import Telemetry

GROUP = "recovery"
PARTITIONS = 8
TURNS_EACH = 6


async def filled(path: Path, turns: int) -> dict[str, SqliteLog]:
    logs = await SqliteLog.open(path, ["turns", "evaluations"], PARTITIONS)
    batch: list[Record] = []
    for each in records(turns // TURNS_EACH, TURNS_EACH, text=650):
        batch.append(Record(each.key, each.value))
        if len(batch) == 2000:
            await logs["turns"].append(batch)
            batch = []
    await logs["turns"].append(batch)
    states = {
        partition: Committed(
            0, await logs["turns"].end_offset(partition), CommitMetadata(replay_point=ReplayPoint(0)).to_json()
        )
        for partition in range(PARTITIONS)
    }
    await logs["turns"]._file.write(lambda each: each.commit(logs["turns"]._number, "evaluate", states))
    return logs


async def measure(turns: int) -> None:
    with tempfile.TemporaryDirectory(prefix="evalstream-bench-") as folder:
        logs = await filled(Path(folder) / "bench.db", turns)
        started, cpu = time.monotonic(), time.process_time()
        for partition in range(PARTITIONS):
            async for _ in logs["turns"].read(partition, 0):
                pass
        reading, reading_cpu = time.monotonic() - started, time.process_time() - cpu
        stage = EvaluateStage(
            plan(of_turn=0, of_conversation=1),
            logs["evaluations"],
            Dispatcher(logs["evaluations"], EvaluationGuardrails(Telemetry()), limits=BulkheadLimits(slots=64)),
            turns=logs["turns"],
            limits=StateLimits(conversations=10**9, bytes=10**12),
        )
        ends = {partition: await logs["turns"].end_offset(partition) for partition in range(PARTITIONS)}
        before, started, cpu = resident(), time.monotonic(), time.process_time()
        following = asyncio.create_task(logs["turns"].follow("evaluate", stage.open_fold))
        while not _replayed(stage, ends) and not following.done():
            await asyncio.sleep(0.02)
        ready, ready_cpu = time.monotonic() - started, time.process_time() - cpu
        grown = resident() - before
        last = _turns_of(stage)
        following.cancel()
        await asyncio.wait([following])
        for log in logs.values():
            await log.close()
    assert last == turns, last
    note = f"{turns:,} turns; floor: reading the log alone"
    scale = 1e6 / turns
    more = {"floor": reading_cpu * scale, "ratio": ready_cpu / reading_cpu}
    Figure(GROUP, "restart: CPU", "µs CPU/turn", (ready_cpu * scale,), note=note, **more).show()
    if turns < 1_000_000:
        note = f"measured with {turns:,}, in proportion: {ready:.1f} s; reading alone {reading:.1f} s"
    Figure(GROUP, "restart with 1 M turns of open state", "s", (ready * 1_000_000 / turns,), aim=20.0, note=note).show()
    Figure(GROUP, "memory of the open state", "bytes/turn", (grown * 1e6 / turns,), note="of 975 bytes of text").show()


def _replayed(stage: EvaluateStage, ends: Mapping[int, int]) -> bool:
    """Whether all that was delivered before is in the state again; asking costs next to nothing."""
    reached = {partition: each.state.next_offset for partition, each in stage._processors.items()}
    return all(reached.get(partition, 0) >= end for partition, end in ends.items())


def _turns_of(stage: EvaluateStage) -> int:
    """The turns in the state, one by one."""
    return sum(
        len(session.turns)
        for fold in stage._processors.values()
        for conversations in fold.state.conversations.values()
        for conversation in conversations._conversations.values()
        for session in conversation.windows
    )


def main() -> None:
    given = arguments(__doc__ or "")
    gc.set_threshold(*COLLECT_AFTER)  # as a service does
    turns = 600 if given.smoke else 999_996 if given.long else 120_000
    uvloop.run(measure(turns))


if __name__ == "__main__":
    main()
