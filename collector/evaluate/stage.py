"""The evaluate stage: a fold over a partition of the turns log that gives rise to evaluations."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from collector.errors import BadInput
from collector.evaluate.dispatch import Dispatcher
from collector.evaluate.fold import Bounds, EvaluateFold
from collector.evaluate.jobs import PartitionJobs
from collector.evaluate.ledger import Ledger, end_of
from collector.evaluate.marks import Mark, Note
from collector.evaluate.plan import Plan
from collector.evaluate.purse import Purse
from collector.evaluate.state import State
from collector.evaluate.tally import NoTally, Tally
from collector.logs.log import Committed, Log, Stored


class EvaluateStage:
    """Opens the folds of the turns log's partitions.

    A job that waits or runs when its partition is given up is made again by the next owner. `grace` (s) is how long
    running jobs may take to end when the service stops; call `stop` before
    cancelling. `turns` is the log that the
    stage follows, for what is carried forward in it.
    """

    def __init__(
        self,
        plan: Plan,
        evaluations: Log,
        dispatcher: Dispatcher,
        *,
        turns: Log | None = None,
        bounds: Bounds = Bounds(),  # noqa: B008 - a frozen value
        grace: float = 20.0,
        tally: Tally | None = None,
        purse: Purse | None = None,
        clock: Callable[[], float] = time.time,
        on_bad_record: Callable[[Stored, BadInput], None] = lambda _record, _error: None,
    ) -> None:
        self._plan = plan
        self._evaluations = evaluations
        self._turns = turns
        self._bounds = bounds
        self._dispatcher = dispatcher
        self._grace = grace
        self._tally = tally or NoTally()
        self._purse = purse if purse is not None and purse.limited else None
        self._clock = clock
        self._on_bad_record = on_bad_record
        self._folds: dict[int, EvaluateFold] = {}
        self._stopping = False

    def stop(self) -> None:
        """The service stops: from now on, running jobs have their `grace`."""
        self._stopping = True

    @property
    def open_conversations(self) -> int:
        """How many conversations are open in this process, over all monitors and partitions."""
        return sum(each.open for fold in self._folds.values() for each in fold.state.conversations.values())

    @property
    def jobs(self) -> int:
        """How many evaluations are under way in this process; those that wait for a place are not."""
        return sum(fold.jobs.running for fold in self._folds.values())

    @asynccontextmanager
    async def open_fold(self, partition: int, committed: Committed | None) -> AsyncGenerator[EvaluateFold]:
        """Read the ledger back and open the partition's fold; its jobs end with it."""
        note = Note.read(committed.note, committed.low_watermark) if committed else self._beginning()
        ahead = 0 if self._turns is None else await end_of(self._turns, partition)
        ledger = Ledger(self._evaluations, partition, ahead=ahead, costs=self._purse is not None)
        await ledger.read_back(note.ledger)
        if self._purse is not None:
            self._purse.open(partition, self._clock(), ledger.account, ledger.spent)
        state = State(self._plan, note.start, ledger.decisions)
        state.on_bad_record = self._on_bad_record
        async with asyncio.TaskGroup() as tasks:
            jobs = PartitionJobs(partition, ledger, self._dispatcher, tasks, self._tally)
            fold = EvaluateFold(
                state,
                jobs,
                ledger,
                self._tally,
                partition=partition,
                evaluations=self._evaluations,
                turns=self._turns,
                bounds=self._bounds,
                emitted=note.emitted,
                purse=self._purse,
                clock=self._clock,
            )
            self._folds[partition] = fold
            try:
                yield fold
            finally:
                del self._folds[partition]
                await jobs.stop(self._grace if self._stopping else 0.0)
                if self._purse is not None:
                    self._purse.close(partition)

    def _beginning(self) -> Note:
        return Note() if self._purse is None else Note(start=Mark(0, rates=self._purse.first()))
