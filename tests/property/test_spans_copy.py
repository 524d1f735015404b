"""A spans log that is copied at any moment, to any number of partitions: each trace makes its turns once."""

from __future__ import annotations

import random
from collections import Counter
from itertools import groupby

import pytest
from made_up import Trace
from plan_histories import OnePlan

from collector.assemble.open_traces import TraceLimits
from collector.assemble.stage import AssembleStage
from collector.assemble.trace import Assembler
from collector.commands.log_copy.copying import LogCopy
from collector.dialects.registry import Dialects
from collector.evaluate.plan import Plan
from collector.link.turn_router import TurnRouter
from collector.logs.consumer_runner import ConsumerTiming
from collector.logs.log import TICK, Committed, Record
from collector.logs.memory import MemoryLog
from collector.records.json import turn_from_json
from collector.records.shared_records import append_shared, dividing
from collector.service.open_logs import NAMES, Logs

LIMITS = TraceLimits(quiet=10.0, linger=40.0)
ASSEMBLER = Assembler(Dialects.installed())


class Deployment:
    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.now = 1_000.0
        self.expected: set[str] = set()
        self._late: list[tuple[float, Record]] = []
        self.logs = self._logs(chance.randint(1, 4))
        self.positions: dict[int, int] = {}

    def _logs(self, partitions: int) -> Logs:
        timing = ConsumerTiming(clock=lambda: self.now, batch_records=7)
        return Logs(**{name: MemoryLog(name, partitions, timing=timing) for name in NAMES})

    async def start(self) -> None:
        stage = AssembleStage(ASSEMBLER, TurnRouter(self.logs.turns), LIMITS)
        self._contexts, self._folds = [], {}
        commits = await self.logs.spans.committed("assemble")
        for partition in range(self.logs.spans.partitions):
            committed = commits.get(partition)
            context = dividing(stage.open_fold)(partition, committed)
            self._contexts.append(context)
            fold = self._folds[partition] = await context.__aenter__()
            self.positions[partition] = committed.offset if committed else 0
            low = committed.low_watermark if committed else 0
            await fold.replay(
                [each for each in await self._records(partition, low) if each.offset < self.positions[partition]]
            )

    async def _records(self, partition: int, start: int) -> list:
        return [each async for batch in self.logs.spans.read(partition, start) for each in batch]

    async def arrive(self) -> None:
        """A trace of one to three pieces, the later ones after a while: some when it has been closed."""
        self.now += self.chance.choice([0.5, 4.0, 11.0])
        number = len(self.expected)
        trace_id = f"{number + 1:032x}"
        at = self.now
        for span in range(self.chance.randint(1, 3)):
            attributes = {
                "gen_ai.operation.name": "chat",
                "gen_ai.request.model": "m",
                "gen_ai.input.messages": f'[{{"role":"user","parts":[{{"type":"text","content":"{number} {span}?"}}]}}]',
                "gen_ai.output.messages": '[{"role":"assistant","parts":[{"type":"text","content":"Yes."}]}]',
            }
            body = Trace(trace_id).span(span + 1, "chat", attributes).spans.SerializeToString()
            self._late.append((at, Record(trace_id.encode(), body, (("signal", b"traces"),))))
            self.expected.add(f"{trace_id}/{span + 1}")
            at += self.chance.choice([1.0, 6.0, 14.0, 30.0])

    async def flow(self) -> None:
        """What is due arrives."""
        due = sorted((each for each in self._late if each[0] <= self.now), key=lambda each: each[0])
        self._late = [each for each in self._late if each[0] > self.now]
        append = self.chance.choice([append_shared, MemoryLog.append])
        for _, together in groupby(due, key=lambda each: each[0] if append is MemoryLog.append else None):
            await append(self.logs.spans, [record for _, record in together])

    async def tick(self) -> None:
        every = range(self.logs.spans.partitions)
        await self.logs.spans.append([Record(None, b"", TICK, each) for each in every])

    async def deliver(self, most: int, least: int = 0) -> int:
        total = 0
        for partition, fold in self._folds.items():
            records = (await self._records(partition, self.positions[partition]))[: self.chance.randint(least, most)]
            if records:
                await fold.deliver(records)
                self.positions[partition] = records[-1].offset + 1
                total += len(records)
        return total

    async def stop(self) -> None:
        """In order: what was delivered is committed."""
        for partition, fold in self._folds.items():
            position, low = self.positions[partition], fold.low_watermark
            low = position if low is None else min(low, position)
            await self.logs.spans.set_committed("assemble", {partition: Committed(low, position)})
        for context in self._contexts:
            await context.__aexit__(None, None, None)

    async def open_traces(self) -> set[str]:
        """What a reading of the whole log holds to be open where the stage stands, as `audit` reads it."""
        stage = AssembleStage(ASSEMBLER, TurnRouter(MemoryLog("turns", 1)), LIMITS)
        commits = await self.logs.spans.committed("assemble")
        found: set[str] = set()
        for partition, committed in commits.items():
            async with dividing(stage.open_fold)(partition, None) as fold:
                records = [each for each in await self._records(partition, 0) if each.offset < committed.offset]
                for _, second in groupby(records, lambda record: int(record.timestamp)):
                    await fold.deliver([*second])
                opened = stage.open_trace_ids(partition)
                assert [trace for offset, trace, _ in opened if offset < committed.low_watermark] == [], "passed over"
                found |= {trace for _, trace, _ in opened}
        return found

    async def copy(self) -> None:
        await self.stop()
        await self.open_traces()
        target = self._logs(self.chance.randint(1, 4))
        copying = LogCopy(Plan(()), LIMITS, (), self.logs, target, self.now, OnePlan())
        await copying.run()
        await copying.commit()
        self.logs = target
        assert await self.open_traces() == set(), "pieces of open traces are read anew"
        await self.start()

    async def turns(self) -> Counter[str]:
        log = self.logs.turns
        turns = [
            turn_from_json(each.value)
            for partition in range(log.partitions)
            async for batch in log.read(partition, 0)
            for each in batch
            if not each.headers
        ]
        return Counter(f"{each.trace_id}/{int(each.span_id or '0', 16)}" for each in turns)


@pytest.mark.parametrize("first", range(0, 60, 20))
async def test_each_trace_makes_its_turns_once(first: int) -> None:
    for seed in range(first, first + 20):
        chance = random.Random(seed)
        world = Deployment(chance)
        await world.start()
        for step in chance.choices(["arrive", "flow", "tick", "deliver", "copy"], [5, 5, 1, 5, 0.6], k=80):
            await (world.deliver(chance.choice([1, 4, 12])) if step == "deliver" else getattr(world, step)())
        await world.copy()
        for _ in range(3):
            world.now += 60.0
            await world.flow()
            await world.tick()
            while await world.deliver(50, least=50):
                pass
        assert dict(await world.turns()) == dict.fromkeys(world.expected, 1), seed
        await world.stop()
