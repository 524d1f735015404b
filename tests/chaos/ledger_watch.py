"""The evaluations log as it grows: what is in it, how often, and since when."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping

from traffic import trace_id

from collector.logs.log import Log, LogUnavailable
from collector.records.epochs import Fence, owner_of
from collector.records.json import evaluation_from_json
from evaluators.results import Evaluation


class LedgerWatch:
    """Reads on where it was.

    `at` is when the log took the judged evaluation of a turn (s since the epoch), `partitions` where it stands, and
    `claims` says for each partition when each of its owners began.
    """

    def __init__(self, log: Log, turns: int) -> None:
        self.written: Counter[str] = Counter()
        self.subjects: dict[tuple[str, int], set[str]] = {}
        self.outcomes: Counter[tuple[str, str]] = Counter()
        self.strangers = 0
        self.at: dict[tuple[str, int], float] = {}
        self.partitions: dict[int, int] = {}
        self.claims: list[list[float]] = [[] for _ in range(log.partitions)]
        self._log = log
        self._numbers: Mapping[str, int] = {trace_id(number).hex(): number for number in range(turns)}
        self._next = [0] * log.partitions
        self._fences = [Fence() for _ in range(log.partitions)]
        self.void = 0

    @property
    def distinct(self) -> int:
        return len(self.written)

    async def look(self) -> None:
        """Read what is new; where the log cannot be read now, the next look will."""
        for partition in range(self._log.partitions):
            try:
                async for batch in self._log.read(partition, self._next[partition]):
                    for record in batch:
                        counts = self._fences[partition].observe(record)
                        self.void += not counts
                        if owner_of(record):
                            self.claims[partition].append(record.timestamp)
                        elif counts and not record.headers:  # else a decision, or a label
                            self._take(evaluation_from_json(record.value), record.timestamp, partition)
                    self._next[partition] = batch[-1].offset + 1
            except LogUnavailable:
                await asyncio.sleep(0.2)

    def _take(self, evaluation: Evaluation, at: float, partition: int) -> None:
        self.written[evaluation.evaluation_id] += 1
        number = self._numbers.get(evaluation.subject.trace_id or "")
        if number is None:
            self.strangers += 1
            return
        key = (evaluation.evaluator, number)
        self.subjects.setdefault(key, set()).add(evaluation.evaluation_id)
        self.outcomes[evaluation.evaluator, evaluation.outcome] += 1
        self.at.setdefault(key, at)
        self.partitions[number] = partition
