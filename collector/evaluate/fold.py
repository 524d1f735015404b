"""One partition of the turns log in the hands of its owner: the state, its jobs, and what is committed of them."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

from collector.evaluate.carry import CARRY, carry_record
from collector.evaluate.decisions import Decision
from collector.evaluate.holds import Holds
from collector.evaluate.jobs import PartitionJobs
from collector.evaluate.ledger import Ledger
from collector.evaluate.marks import Mark, Note
from collector.evaluate.plan import Job
from collector.evaluate.purse import Purse
from collector.evaluate.session import Episode
from collector.evaluate.state import State
from collector.evaluate.tally import Due, End, Tally
from collector.logs.log import Log, LogUnavailable, RecordTooLarge, Stored

logger = logging.getLogger(__name__)

CARRIED_AT_ONCE = 64
EVICTED_AT_ONCE, EVICTED_AT_MOST = 0.01, 500
"""Share of the open conversations that leave together, so that a decision is not written for each; and how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Limits of the state of a partition, for each monitor.

    At most `conversations` are remembered, in about `bytes`; what is beyond is evicted, the oldest first. A
    conversation that needs a record more than `records` records or `seconds` back is carried forward. A job that fell
    due more than `ahead` records back is waited for: what came since is remembered with it.
    """

    conversations: int = 100_000
    bytes: int = 256 << 20
    records: int = 1_000_000
    seconds: float = 7200.0
    ahead: int = 1_000_000


class EvaluateFold:
    """Delivers records to the state, and what falls due to the jobs.

    What was `emitted` below the noted position is done; a replay leaves it out. Without `turns`, the log that is
    followed, nothing is carried.
    """

    def __init__(
        self,
        state: State,
        jobs: PartitionJobs,
        ledger: Ledger,
        tally: Tally,
        *,
        partition: int,
        evaluations: Log,
        turns: Log | None = None,
        bounds: Bounds = Bounds(),
        emitted: int = 0,
        purse: Purse | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.jobs = jobs
        self.state = state
        self._ledger = ledger
        self._tally = tally
        self._partition = partition
        self._evaluations = evaluations
        self._turns = turns
        self._bounds = bounds
        self._emitted = emitted
        self._holds = Holds()
        self._purse = purse if purse is not None and purse.limited else None
        self._clock = clock

    @property
    def due_at(self) -> float | None:
        """When the next conversation falls idle."""
        conversations = self.state.conversations.values()
        return min((each.due_at for each in conversations if each.due_at is not None), default=None)

    def _low(self) -> Mark:
        """The mark of the oldest turn that a conversation, a hold or a job on its way needs."""
        needed = [each.low_watermark for each in self.state.conversations.values()]
        needed += [self.jobs.low_watermark, self._holds.low_watermark]
        return min((each for each in needed if each is not None), default=self.state.mark, key=lambda m: m.position)

    def _done(self) -> int:
        """The position below which everything that fell due is done."""
        emitted = self.jobs.emitted
        return self.state.next if emitted is None else emitted

    @property
    def low_watermark(self) -> int | None:
        """The oldest record that is still needed."""
        self._holds.release(self._done())
        return self._low().position

    @property
    def note(self) -> str:
        """What a restart needs to know beside the two numbers."""
        done = self._done()
        self._holds.release(done)
        return Note(ledger=self._ledger.note, emitted=done, start=self._low()).text()

    async def replay(self, records: Sequence[Stored]) -> None:
        """Rebuild the state; what was on its way at the stop is made again, unless something newer replaces it."""
        jobs: dict[str, Job] = {}
        for record in records:
            for job in await self.state.apply(record):
                if job.emitted >= self._emitted and not self.jobs.known(job):
                    for replaced in [jobs.pop(each) for each in job.supersedes if each in jobs]:
                        self._count(replaced, "resumed")
                        self._count(replaced, "superseded")
                    jobs[job.evaluation_id] = job
            self._hold(record.position)
        for job in jobs.values():
            self._count(job, "resumed")
        await self._submit(jobs.values())

    def _count(self, job: Job, what: Due | End) -> None:
        self._tally.evaluation(job.monitor.name, job.assignment.evaluator.name, what)

    async def deliver(self, records: Sequence[Stored]) -> None:
        """Take new turns; waits while all places for jobs are taken."""
        self.state.tally = self._tally
        if self._purse is not None:
            self.state.demand = partial(self._purse.demand, self._partition)
        for carries, some in groupby(records, lambda record: record.headers == CARRY):
            run = list(some)
            if carries:
                await self._judge_carries(run)
            for record in run:
                await self._deliver(record)
        await self._carry()
        if records:  # by the log's time: turns of a backlog carry times that pass much faster
            await self._ledger.mark(self.state.next, self._low().position, records[-1].timestamp)

    async def _deliver(self, record: Stored) -> None:
        await self.jobs.keep_up(record.position, self._bounds.ahead)
        if self._purse is not None and self._purse.due(self._partition, now := self._clock()):
            await self._set_rates(self._purse, now, record.position)
        await self._submit(await self.state.apply(record))
        self._hold(record.position)
        await self._evict()

    async def _judge_carries(self, records: Sequence[Stored]) -> None:
        """Decide which of the next records, all of which carry a conversation, still hold."""
        verdicts = self.state.verdicts(records)
        if verdicts:
            await self._decide(Decision(at=records[0].position, carried=verdicts))

    async def _decide(self, decision: Decision) -> None:
        """Write a decision down, then put it into force: so a replay finds whatever was done by it."""
        await self._ledger.append(decision.record(self._partition))
        await self._submit(self.state.decide(decision))

    async def _set_rates(self, purse: Purse, now: float, position: int) -> None:
        """Decide on the rates from a position on, out of what is past."""
        rates, account = purse.decide(self._partition, now)
        await self._ledger.pin()
        await self._decide(Decision(at=position, rates=rates, account=account))

    def _hold(self, position: int) -> None:
        for conversations in self.state.conversations.values():
            self._holds.add(conversations.left(), position)

    async def _submit(self, jobs: Iterable[Job]) -> None:
        waiting = deque(jobs)
        try:
            while waiting:
                job = waiting.popleft()
                if self.jobs.known(job):
                    self._count(job, "duplicate")
                else:
                    await self.jobs.submit(job)
        finally:
            for job in waiting:  # the partition is given up
                self._count(job, "handed_over")

    async def _evict(self) -> None:
        """Keep within the bounds."""
        while victims := self._victims():
            await self._close_early(victims)

    async def _close_early(self, victims: Mapping[str, Sequence[str]]) -> None:
        await self._decide(Decision(at=self.state.next, evicted=victims))
        self._hold(self.state.next - 1)

    def _victims(self) -> dict[str, list[str]]:
        return {
            name: each.oldest(min(EVICTED_AT_MOST, max(1, int(len(each) * EVICTED_AT_ONCE))))
            for name, each in self.state.conversations.items()
            if len(each) > self._bounds.conversations or each.size > self._bounds.bytes
        }

    async def _carry(self) -> None:
        """Carry forward what holds the low watermark back."""
        if self._turns is None:
            return
        remembered = sum(map(len, self.state.conversations.values()))
        records = max(self._bounds.records, 2 * remembered)  # or carrying some would be reason to carry the others
        position, since = self.state.next - records, self.state.time - self._bounds.seconds
        for monitor, conversations in self.state.conversations.items():
            if behind := conversations.behind(position, since, CARRIED_AT_ONCE):
                await self._carry_some(self._turns, monitor, behind)

    async def _carry_some(self, turns: Log, monitor: str, behind: Sequence[tuple[str, Episode]]) -> None:
        try:
            await turns.append([carry_record(monitor, *each, self.state.next, self._partition) for each in behind])
        except LogUnavailable as error:
            logger.warning("conversations cannot be carried forward (%s); trying again later", error)
        except RecordTooLarge:
            if len(behind) == 1:
                await self._close_early({monitor: [behind[0][0]]})
            else:
                for each in behind:
                    await self._carry_some(turns, monitor, [each])
        else:
            for _, episode in behind:
                episode.carried = True
