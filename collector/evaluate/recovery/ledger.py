"""The ledger: the ids of evaluations that exist, read back from the evaluations log.

Evaluations in the log are done. The ledger of a partition holds the ids of those that unfinished records can lead to.
It is read back from an offset that is committed with the low watermark, so its size and its reading time depend on the
recent past, not on all evaluations ever made.
"""

import asyncio
import logging
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, replace
from itertools import takewhile
from typing import Any

from collector.backoff import Backoff
from collector.errors import BadInput
from collector.evaluate.budget.rates import Rates
from collector.evaluate.recovery.control_records import ControlRecord, parse_control_record
from collector.logs.log import TICK, Confirm, Log, LogUnavailable, Record, StoredRecord
from collector.records.epochs import CONTROL_HEADERS, Fence, claim_record, fence_at, owner_of, stamped
from collector.records.json import evaluation_from_json, readable

logger = logging.getLogger(__name__)

CHECKPOINT_INTERVAL = 10.0
"""Seconds between two checkpoints."""
STOPPED_WITHIN = 2.0
"""Seconds that an owner may take to write its last record; without it, the next owner knows less."""
RETRY = Backoff(cap=1.0)
"""Reads and writes that evaluations depend on are retried without end, since nothing can be done without them."""


@dataclass(frozen=True, slots=True)
class _Checkpoint:
    """At `time` (s) of the turns log, turns below `turns` were processed; the ledger's end was at `evaluations`."""

    time: float
    turns: int
    evaluations: int


@dataclass(eq=False, repr=False)
class Ledger:
    """The ids of the evaluations of one partition, from a checkpoint on.

    `horizon` (s) is how long ids stay after they are needed, so that a turn is recognized if it is written into the
    turns log again within that time. `previous_end` is the offset of the turns log, at the claim, below which an
    earlier owner may have made evaluations; until it is reached, no id is removed. `read_costs` also reads back what
    evaluations cost. `on_batches` gets the events of judges' batches that are read back, `on_evaluation` the
    evaluations, by id and value.
    """

    evaluations: Log
    partition: int
    _: KW_ONLY
    horizon: float = 900.0
    previous_end: int = 0
    read_costs: bool = False
    on_batches: Callable[[Mapping[str, Any]], Awaitable[None]] | None = None
    on_evaluation: Callable[[str, bytes], None] | None = None

    def __post_init__(self) -> None:
        self._ids: dict[str, int] = {}  # id: an offset up to its record's, in ascending order
        self._checkpoints: deque[_Checkpoint] = deque()
        self.end_offset = 0
        """The end of the log some seconds ago; all later records come after it."""
        self._next = 0
        self._fence = Fence()
        self._claims: dict[int, str] = {}  # the owner of each epoch
        self.epoch: int | None = None
        """The epoch of this process as the partition's owner; None if no other process can own the partition."""
        self.control_records: list[ControlRecord] = []
        """The control records that were read back."""
        self.costs: list[tuple[str, float, float]] = []
        """The costs of evaluations since the last saved budget: monitor, US dollars, time."""
        self._retained_from: int | None = None
        self.stopped_at: int | None = None
        """The offset of the turns log from which no owner has applied turns, if the former owner wrote that."""
        self.new_from = 0
        """The former owner has counted the turns before this offset; 0 if it did not write that."""

    def __contains__(self, evaluation_id: str) -> bool:
        return evaluation_id in self._ids

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def start_offset(self) -> int:
        """The offset from which a restart reads the ledger back."""
        checkpointed = self._checkpoints[0].evaluations if self._checkpoints else 0
        return checkpointed if self._retained_from is None else min(checkpointed, self._retained_from)

    async def read_back(self, start: int, backoff: Backoff = RETRY) -> None:
        """Read ids and control records from an offset to the end of the log; retries while it is unavailable."""
        self._checkpoints.append(_Checkpoint(time=0.0, turns=0, evaluations=start))
        self.end_offset = self._next = start
        self._fence = await backoff.repeat(
            lambda: fence_at(self.evaluations, self.partition, start),
            LogUnavailable,
            action="reading the evaluations log back",
        )
        await self._read_on(backoff)

    async def claim(self, confirm: Confirm, turns: int, owner: str | None = None, backoff: Backoff = RETRY) -> None:
        """Claim the partition. From then on records of former owners are void, and `epoch` belongs to this process.

        `confirm` waits until a broker says that this process owns the partition; `turns` is the next turn's offset.
        Also reads the records that former owners wrote in the meantime.
        """
        owner = owner or uuid.uuid4().hex
        while self.epoch is None:
            # A process that was frozen may claim late, between this look at the log and the next one. By then the owner
            # that came after it has taken the epoch, so the late claim is void.
            await confirm()
            epoch = self._fence.epoch + 1
            record = claim_record(owner, epoch, self.partition, turns)
            await append_with_retry(self.evaluations, record, backoff=backoff, since=self._next)
            await self._read_on(backoff)
            while epoch not in self._claims:  # a broker may show an acknowledged record a little later
                await backoff.sleep(backoff.first)
                await self._read_on(backoff)
            if self._claims[epoch] == owner:
                self.epoch = epoch

    async def _read_on(self, backoff: Backoff) -> None:
        """Read what was appended since the last reading."""
        await backoff.repeat(self._read, LogUnavailable, action="reading the evaluations log back")

    async def _read(self) -> None:
        async for batch in self.evaluations.read(self.partition, self._next):
            for record in batch:
                counts = self._fence.observe(record)
                if owner := owner_of(record):
                    self._claims.setdefault(self._fence.epoch if counts else 0, owner)
                elif record.headers == CONTROL_HEADERS:
                    if counts:
                        await self._read_control_record(record)
                elif record.key is not None:
                    self.stopped_at, self.new_from = None, 0  # an owner has worked since
                    if counts:
                        self._ids[record.key.decode()] = record.offset
                        if self.on_evaluation is not None:
                            self._read_evaluation(record.key.decode(), record, self.on_evaluation)
                    if self.read_costs:  # also for a void evaluation: its judge was paid
                        self._read_cost(record)
                self.end_offset = record.offset
                self._next = record.offset + 1

    def _read_evaluation(self, name: str, record: StoredRecord, on_evaluation: Callable[[str, bytes], None]) -> None:
        """Read an evaluation. If several monitors use its evaluator, also note it under its monitor, whose id for it
        may differ.
        """
        on_evaluation(name, record.value)
        with suppress(BadInput):  # a later version wrote it; the exporters report it
            self._ids[monitor_key(name, evaluation_from_json(record.value).monitor)] = record.offset

    async def _read_control_record(self, record: StoredRecord) -> None:
        try:
            control = parse_control_record(record.value)
        except BadInput as error:
            logger.warning("record %d of the evaluations log is skipped: %s", record.offset, error)
            return
        self.stopped_at, self.new_from = control.offset if control.stopped else None, control.new_from
        if control.batches is not None:
            if self.on_batches is not None:
                await self.on_batches(control.batches)
            return
        self.control_records.append(control)
        if control.budget is not None:
            self._retained_from = record.offset
            self.costs.clear()

    def _read_cost(self, record: StoredRecord) -> None:
        evaluation = readable(evaluation_from_json, record.value)  # None: the exporters report it
        if evaluation is None or not evaluation.cost_usd:
            return
        if evaluation.happened_at is None:  # budgets do not pay backfills
            self.costs.append((evaluation.monitor, evaluation.cost_usd, evaluation.ended_at.timestamp()))

    @property
    def rates(self) -> Rates | None:
        """The rates of the newest control record that has rates; None if there is none."""
        return next((control.rates for control in reversed(self.control_records) if control.rates is not None), None)

    @property
    def saved_budget(self) -> Mapping[str, Any] | None:
        """The partition's budget as it was last written."""
        return next((each.budget for each in reversed(self.control_records) if each.budget is not None), None)

    async def retain_from_end(self, backoff: Backoff = RETRY) -> None:
        """Retain the saved budget that is appended next: a restart reads it back, however old it is."""
        self._retained_from = await end_offset(self.evaluations, self.partition, backoff)

    async def append(self, record: Record) -> None:
        """Append a control record; retries while the log is unavailable."""
        await append_with_retry(self.evaluations, replace(record, value=stamped(record.value, self.epoch)))

    async def append_batches(self, event: Mapping[str, Any]) -> None:
        """Append what happened to a batch; retries while the log is unavailable. Duplicates do no harm."""
        await self.append(ControlRecord(offset=0, batches=event).to_record(self.partition))

    def reached(self, delivered: int) -> int:
        """The offset of the turns log that no earlier owner has gone beyond.

        Owners may get further than they commit. An owner that did not write where it stopped got at most to the log's
        end at that time.
        """
        if self.stopped_at is not None:
            return max(self.stopped_at, delivered)
        return max(self.previous_end, delivered) if self._ids or self.control_records else delivered

    async def write_stopped(self, turns: int, new_from: int) -> None:
        """Write, if the log is available, that this owner stops: see `stopped_at` and `new_from`."""
        record = ControlRecord(offset=turns, stopped=True, new_from=new_from).to_record(self.partition)
        with suppress(LogUnavailable, TimeoutError):
            async with asyncio.timeout(STOPPED_WITHIN):
                await self.evaluations.append([replace(record, value=stamped(record.value, self.epoch))])

    def add(self, evaluation_id: str) -> None:
        """Add the id of an evaluation that was appended to the log."""
        self._ids[evaluation_id] = self.end_offset

    async def checkpoint(self, turns: int, low_watermark: int, time: float) -> None:
        """Every few seconds, note where the log ends while turns below `turns` are processed, and remove old ids.

        `low_watermark` is the oldest turn that is still needed.
        """
        # The evaluations of later turns come after a checkpoint, except for turns below `previous_end`: an earlier
        # owner may have processed more than it committed, and evaluated these before.
        if turns < self.previous_end or (self._checkpoints and time - self._checkpoints[-1].time < CHECKPOINT_INTERVAL):
            return
        try:
            self.end_offset = await self.evaluations.end_offset(self.partition)
        except LogUnavailable:
            return  # the checkpoint before stays in use
        self._checkpoints.append(_Checkpoint(time=time, turns=turns, evaluations=self.end_offset))
        while (
            len(self._checkpoints) > 1
            and self._checkpoints[1].turns <= low_watermark
            and self._checkpoints[1].time <= time - self.horizon
        ):
            self._checkpoints.popleft()
            self._forget(self._checkpoints[0].evaluations)

    def _forget(self, before: int) -> None:
        for evaluation_id in [key for key, _ in takewhile(lambda item: item[1] < before, self._ids.items())]:
            del self._ids[evaluation_id]


def monitor_key(evaluation_id: str, monitor: str) -> str:
    """The ledger's key for an evaluation of a monitor. Unlike the id, it does not depend on the order of monitors."""
    return f"{evaluation_id} of {monitor}"


async def end_offset(log: Log, partition: int, backoff: Backoff = RETRY) -> int:
    """The end of a partition; waits while the log is unavailable."""
    return await backoff.repeat(
        lambda: log.end_offset(partition), LogUnavailable, action=f"reading the end of {log.name}"
    )


async def append_with_retry(log: Log, *records: Record, backoff: Backoff = RETRY, since: int | None = None) -> None:
    """Append records of one partition, together; retries while the log cannot be written.

    An append may have succeeded although it was not acknowledged. `since` is an offset that was the log's end before:
    the records are looked for from there on before they are appended again, so that each is in the log once.
    """
    # An idempotent producer would not help: the retry may come minutes later, from another session.
    unacknowledged = False

    async def append() -> None:
        nonlocal unacknowledged, records
        if unacknowledged and since is not None:
            records = tuple(await _missing(log, records, since, backoff))
            if not records:
                return
        unacknowledged = True
        await log.append(records)

    await backoff.repeat(append, LogUnavailable, action=f"writing to {log.name}")


async def _missing(log: Log, records: Sequence[Record], since: int, backoff: Backoff) -> Sequence[Record]:
    """The records that are not in their partition. Raises LogUnavailable while that cannot be known."""
    partition = records[0].partition
    assert partition is not None
    await log.end_offset(partition)
    await backoff.sleep(backoff.cap)  # the log answers again: records that had reached it are written now
    # Records that replicas do not have yet cannot be read. An acknowledged mark comes after them.
    mark = Record(None, uuid.uuid4().bytes, TICK, partition)
    await log.append([mark])
    missing, is_marked = list(records), False
    while not is_marked:
        async for batch in log.read(partition, since):
            # Not by the key: a void evaluation of a former owner may have the same key.
            stored = {(record.key, record.value) for record in batch}
            missing = [record for record in missing if (record.key, record.value) not in stored]
            is_marked = is_marked or (None, mark.value) in stored
        await backoff.sleep(0.0 if is_marked else backoff.first)  # a broker may show a record a little later
    return missing
