"""Feedback that comes twice and more, through crashes: joined or given up once, as long as it comes again in time.

A crash is a new fold that replays from the committed low watermark, as a restart does; what was appended stays.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from evaluation_samples import scored
from hypothesis import HealthCheck, example, given, settings, strategies as st

from collector.calibration.feedback_join import JoinSettings
from collector.calibration.feedback_stage import FeedbackStage
from collector.logs.consumer_runner import ConsumerTiming
from collector.logs.log import Committed, Record, StoredRecord
from collector.logs.memory import MemoryLog
from collector.records.feedback import feedback_of, feedback_record, is_joined_feedback, parse_joined_feedback
from collector.records.json import evaluation_to_json
from collector.telemetry.registry import Telemetry
from evaluators.results import Subject

WAIT = 1000.0
Step = tuple[str, int, float, str]
"""What happens (`send` or `judge` a number, `step` or nothing), the pause (s) before it, and what is done after it."""


@dataclass
class Service:
    """The stage over logs in memory, moved by hand: it delivers, joins, commits and dies when told."""

    def __init__(self) -> None:
        self.now = 10_000.0
        timing = ConsumerTiming(clock=lambda: self.now)
        self.labels, self.evaluations, self.turns = (
            MemoryLog(name, 1, timing=timing) for name in ("labels", "evaluations", "turns")
        )
        self.committed: Committed | None = None
        self.sent: dict[str, list[float]] = defaultdict(list)
        self._position = 0
        self._open = AsyncExitStack()

    async def start(self) -> None:
        """Begin from what was committed; the replay is interrupted by a step, as a slow one is."""
        self.stage = FeedbackStage(
            self.labels, self.evaluations, self.turns, JoinSettings(WAIT), Telemetry(), clock=lambda: self.now
        )
        self.fold = await self._open.enter_async_context(self.stage.open_fold(0, self.committed))
        self._position = self.committed.offset if self.committed else 0
        low = self.committed.low_watermark if self.committed else 0
        for record in [each for each in await self._records(low) if each.offset < self._position]:
            await self.fold.replay([record])
            await self.stage.step()

    async def _records(self, start: int) -> list[StoredRecord]:
        return [each async for batch in self.labels.read(0, start) for each in batch]

    async def deliver(self) -> None:
        records = await self._records(self._position)
        await self.fold.deliver(records)
        self._position = records[-1].offset + 1 if records else self._position

    async def send(self, number: int) -> None:
        entry = feedback_of({"turn_id": f"t{number}", "value": 1}, tenant=None)
        self.sent[entry.feedback_id].append(self.now)
        await self.labels.append([feedback_record(entry)])

    async def judge(self, number: int) -> None:
        subject = Subject(conversation_id=f"c{number}", turn_id=f"t{number}")
        evaluation = replace(scored(subject=subject), evaluation_id=f"e{number}")
        await self.evaluations.append([Record(evaluation.evaluation_id.encode(), evaluation_to_json(evaluation))])

    def commit(self) -> None:
        low = self.fold.low_watermark
        self.committed = Committed(self._position if low is None else min(low, self._position), self._position, "")

    async def crash(self) -> None:
        await self._open.aclose()
        await self.start()

    async def end(self) -> Counter[str]:
        """How often each piece ended."""
        await self._open.aclose()
        return Counter(
            parse_joined_feedback(each.value).entry.feedback_id
            for each in await self._records(0)
            if is_joined_feedback(each)
        )


async def lived(steps: list[Step]) -> Service:
    service = Service()
    await service.start()
    for kind, number, pause, after in steps:
        service.now += pause
        match kind:
            case "send":
                await service.send(number)
            case "judge":
                await service.judge(number)
            case "step":
                await service.stage.step()
            case _:
                pass
        if "unread" not in after:
            await service.deliver()
        if "commit" in after:
            service.commit()
        if "crash" in after:
            await service.crash()
    for _ in range(4):
        await service.deliver()
        await service.stage.step()
        service.now += WAIT
    return service


AGAIN = [  # joined, sent again, forgotten; the replay begins between the copies
    ("send", 0, 1.0, ""),
    ("judge", 0, 1.0, ""),
    ("step", 0, 1.0, ""),
    ("step", 0, 10.0, ""),
    ("send", 1, 500.0, ""),
    ("send", 0, 300.0, ""),
    ("step", 0, 190.0, ""),
    ("step", 0, 10.0, "commit and crash"),
    ("step", 0, 10.0, ""),
]
AHEAD = [  # joined behind what was committed; another piece still waits for its turn at two more crashes
    ("send", 1, 1.0, ""),
    ("send", 0, 1.0, "commit"),
    ("judge", 0, 1.0, ""),
    ("step", 0, 1.0, "unread"),
    ("step", 0, 10.0, "unread and crash"),
    ("step", 0, 1.0, "commit and crash"),
    ("judge", 1, 1.0, ""),
]


BEHIND = [  # the replay has read an end that is old by now, and not yet the copy that came in time
    ("send", 0, 1.0, ""),
    ("send", 0, 900.0, ""),
    ("step", 0, 100.0, ""),
    ("send", 0, 800.0, ""),
    ("send", 1, 400.0, "commit and crash"),
]


@example(AGAIN)
@example(BEHIND)
@example(AHEAD)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["send", "send", "judge", "step", "step", "step"]),
            st.integers(0, 2),
            st.sampled_from([1.0, 1.0, 10.0, 70.0, 300.0, 500.0, 900.0]),
            st.sampled_from(["", "", "", "unread", "commit", "crash", "unread and crash", "commit and crash"]),
        ),
        max_size=30,
    )
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_feedback_ends_once_whatever_crashes(steps: list[Any]) -> None:
    async def run() -> None:
        service = await lived(steps)
        ends = await service.end()
        for feedback_id, times in service.sent.items():
            apart = sum(later - earlier >= WAIT for earlier, later in pairwise(times))
            assert 1 <= ends[feedback_id] <= 1 + apart

    asyncio.run(run())
