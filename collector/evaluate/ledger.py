"""Which evaluations exist: the evaluations log read back.

What is in the log is done. The ledger of a partition holds the ids of the evaluations that records still in play can
lead to: it is read back from a mark that is committed with the low watermark, so that its size and its reading depend
on the recent past and not on all that ever was judged.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from collector.errors import BadInput
from collector.evaluate.decisions import DECISION, Decision, decision_from
from collector.logs.log import Log, LogUnavailable, Record, Stored
from collector.records import evaluation_from_json

logger = logging.getLogger(__name__)

MARK_EVERY = 10.0
"""Seconds between two marks."""


@dataclass(frozen=True, slots=True)
class _Mark:
    """At `time` (s) of the turns log turns up to `turns` had been taken; the evaluations log ended at `evaluations`."""

    time: float
    turns: int
    evaluations: int


class Ledger:
    """The ids of the evaluations of one partition, from a mark on.

    `horizon` (s) is how long ids are kept beyond need, so that a turn written into the turns log again within that time
    is known. `ahead` is the position of the turns log below which an earlier owner may have made evaluations: until it
    is reached nothing is forgotten. With `costs` what evaluations cost is read back, too.
    """

    def __init__(
        self, evaluations: Log, partition: int, *, horizon: float = 900.0, ahead: int = 0, costs: bool = False
    ) -> None:
        self._evaluations = evaluations
        self._partition = partition
        self._horizon = horizon
        self._ahead = ahead
        self._costs = costs
        self._ids: dict[str, int] = {}  # to a position not above its own; both in growing order
        self._marks: deque[_Mark] = deque()
        self._end = 0
        self.decisions: list[Decision] = []
        """The decisions that were read back."""
        self.spent: list[tuple[str, float, float]] = []
        """What was read back of evaluations after the last account: monitor, US dollars, when."""
        self._pinned: int | None = None

    def __contains__(self, evaluation_id: str) -> bool:
        return evaluation_id in self._ids

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def note(self) -> int:
        """The position from where to read the ledger back."""
        marked = self._marks[0].evaluations if self._marks else 0
        return marked if self._pinned is None else min(marked, self._pinned)

    @property
    def end(self) -> int:
        """Where the log ended some seconds ago: what is appended from now on lies behind."""
        return self._end

    async def read_back(self, start: int, wait: float = 1.0) -> None:
        """Read the ids, and the decisions, from a position to the end of the log; waits until it can be read."""
        self._marks.append(_Mark(time=0.0, turns=0, evaluations=start))
        while True:
            try:
                return await self._read(start)
            except LogUnavailable as error:
                logger.warning("the evaluations log cannot be read back (%s); trying again in %g s", error, wait)
                await asyncio.sleep(wait)

    async def _read(self, start: int) -> None:
        self._end = start
        self._ids.clear()
        self.decisions.clear()
        self.spent.clear()
        async for batch in self._evaluations.read(self._partition, start):
            for record in batch:
                if record.headers == DECISION:
                    self._read_decision(record)
                elif record.key is not None:
                    self._ids[record.key.decode()] = record.position
                    if self._costs:
                        self._read_cost(record)
                self._end = record.position

    def _read_decision(self, record: Stored) -> None:
        try:
            decision = decision_from(record.value)
        except BadInput as error:
            logger.warning("record %d of the evaluations log is left out: %s", record.position, error)
            return
        self.decisions.append(decision)
        if decision.account is not None:
            self._pinned = record.position
            self.spent.clear()

    def _read_cost(self, record: Stored) -> None:
        try:
            evaluation = evaluation_from_json(record.value)
        except BadInput:
            return  # the exporters report it
        if evaluation.cost_usd:
            self.spent.append((evaluation.monitor, evaluation.cost_usd, evaluation.ended_at.timestamp()))

    @property
    def account(self) -> Mapping[str, Any] | None:
        """The account that was written last."""
        return next((each.account for each in reversed(self.decisions) if each.account is not None), None)

    async def pin(self, wait: float = 1.0) -> None:
        """An account follows: a restart shall read it back, however long ago it will be. Waits like `end_of`."""
        self._pinned = await end_of(self._evaluations, self._partition, wait)

    async def append(self, record: Record) -> None:
        """Append a record that is no evaluation; waits while the log cannot be written."""
        await persistently(self._evaluations, record)

    def add(self, evaluation_id: str) -> None:
        """An evaluation was appended to the log."""
        self._ids[evaluation_id] = self._end

    async def mark(self, turns: int, low_watermark: int, time: float) -> None:
        """Note, every few seconds, where the log ends now that turns up to `turns` were taken; forget what is past.

        Evaluations of turns taken later lie behind the mark, also those of an earlier owner, which may have come
        further than it committed. `low_watermark` is the oldest turn still in play.
        """
        if turns < self._ahead or (self._marks and time - self._marks[-1].time < MARK_EVERY):
            return
        try:
            self._end = await self._evaluations.end(self._partition)
        except LogUnavailable:
            return  # the one before holds for longer
        self._marks.append(_Mark(time=time, turns=turns, evaluations=self._end))
        while (
            len(self._marks) > 1
            and self._marks[1].turns <= low_watermark
            and self._marks[1].time <= time - self._horizon
        ):
            self._marks.popleft()
            self._forget(self._marks[0].evaluations)

    def _forget(self, before: int) -> None:
        past = [key for key, _ in takewhile(lambda item: item[1] < before, self._ids.items())]
        for evaluation_id in past:
            del self._ids[evaluation_id]


async def end_of(log: Log, partition: int, wait: float = 1.0) -> int:
    """The end of a partition; asks again every `wait` seconds while the log cannot say it."""
    while True:
        try:
            return await log.end(partition)
        except LogUnavailable as error:
            logger.warning("the log %s cannot be asked for its end (%s); trying again in %g s", log.name, error, wait)
            await asyncio.sleep(wait)


async def persistently(log: Log, record: Record, wait: float = 1.0, *, since: int | None = None) -> None:
    """Append a record, trying again every `wait` seconds while the log cannot be written.

    An append that was not acknowledged may have been made all the same. With `since`, a position that was the log's end
    before, the record is looked for from there on before it is appended again, so that it is there once.
    """
    while True:
        try:
            return await log.append([record])
        except LogUnavailable as error:
            logger.warning("the log %s cannot be written (%s); trying again in %g s", log.name, error, wait)
            await asyncio.sleep(wait)
        if since is not None and await _was_appended(log, record, since, wait):
            return None


async def _was_appended(log: Log, record: Record, since: int, wait: float) -> bool:
    """Whether the record is in its partition; waits until the log can be read."""
    assert record.partition is not None
    while True:
        try:
            await log.end(record.partition)
            await asyncio.sleep(wait)  # it answers again: what had reached it before is written now
            async for batch in log.read(record.partition, since):
                if any(each.key == record.key for each in batch):
                    return True
        except LogUnavailable:
            await asyncio.sleep(wait)
        else:
            return False
