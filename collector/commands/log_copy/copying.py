"""The plan of a copy of a deployment's logs: log by log, state before what is still to be read."""

import hashlib
import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import InitVar, dataclass, field, replace
from typing import Any, cast

import orjson

from collector.assemble.open_trace_pieces import open_pieces
from collector.assemble.open_traces import TraceLimits
from collector.commands.log_copy.log_writer import LogWriter, PartitionStretch, in_order, stretches_by_progress
from collector.errors import ConfigError
from collector.evaluate.budget.division import divide
from collector.evaluate.budget.rates import FULL_RATES
from collector.evaluate.conversations.snapshot import SNAPSHOT_HEADERS
from collector.evaluate.plan import Plan
from collector.evaluate.recovery.control_records import ControlRecord, parse_control_record
from collector.evaluate.recovery.replay_point import CommitMetadata, ReplayPoint
from collector.evaluate.recovery.sample_rate_notes import RATES_KEY
from collector.evaluate.stage import GROUP
from collector.evaluate.transfer.partition_transfer import (
    NumberedHistory,
    PartitionTransfer,
    is_changed_beyond,
    read_transfer,
)
from collector.evaluate.transfer.transfer_records import TransferStart, is_transfer
from collector.export.judged_spans.fold import GROUP as JUDGED_SPANS_GROUP
from collector.export.stage import group_of
from collector.logs.log import TICK, Committed, CopyableLog, Log, Record, StoredRecord
from collector.page.stage import EVALUATIONS_GROUP, LABELS_GROUP, TURNS_GROUP
from collector.records.epochs import CONTROL_HEADERS, Fence, unstamped
from collector.records.json import readable
from collector.service.app import is_note
from collector.service.open_logs import Logs

COPY_NOTE = b"log copy"
"""The key of the first record of the definitions log: it was begun by a copy."""


@dataclass(frozen=True, slots=True)
class CopiedLog:
    """The outcome of copying a log: how many records were copied, and which were left out, by reason."""

    name: str
    copied: int
    left_out: Mapping[str, int]


@dataclass(slots=True)
class _Source:
    """A log that is copied, as it was at the beginning."""

    log: Log
    starts: dict[int, int]
    ends: dict[int, int]
    commits: dict[str, Mapping[int, Committed]]
    left_out: Counter[str] = field(default_factory=Counter[str])

    @classmethod
    async def of(cls, log: Log, groups: Sequence[str]) -> "_Source":
        numbers = range(log.partitions)
        commits = {group: await log.committed(group) for group in groups}
        starts = {number: await log.start_offset(number) for number in numbers}
        return cls(log, starts, await log.end_offsets(numbers), commits)

    def read_until(self, group: str) -> dict[int, int]:
        """Up to where a group has read."""
        commits = self.commits[group]
        ends = {number: commits[number].offset if number in commits else start for number, start in self.starts.items()}
        return {number: min(max(at, self.starts[number]), self.ends[number]) for number, at in ends.items()}


def groups_by_log(exporters: Collection[str]) -> dict[str, tuple[str, ...]]:
    """The groups that read each log, if all stages run."""
    return {
        "spans": ("assemble",),
        "unlinked": ("link",),
        "judged_spans": (JUDGED_SPANS_GROUP,),
        "turns": (GROUP, TURNS_GROUP),
        "evaluations": (*map(group_of, sorted(exporters)), "watch", "page.watch", EVALUATIONS_GROUP),
        "labels": (LABELS_GROUP,),
    }


@dataclass(eq=False, repr=False)
class LogCopy:
    """Copies logs into empty ones with any numbers of partitions. `now` is in seconds since the epoch.

    `plan` and `limits` are those that the service evaluates and assembles by, `exporters` the names of its exporters.
    `number` is the plan's in the `history`, which has the plans of before. `oldest` is the time before which the target
    would delete a record at once, by log.
    """

    plan: Plan
    limits: TraceLimits
    exporters: InitVar[Collection[str]]
    source: Logs
    target: InitVar[Logs]
    now: float
    history: NumberedHistory
    oldest: InitVar[Mapping[str, float] | None] = None

    def __post_init__(self, exporters: Collection[str], target: Logs, oldest: Mapping[str, float] | None) -> None:
        self._target = {log.name: cast("CopyableLog", log) for log in target}
        self._oldest = oldest or {}
        self._groups = groups_by_log(exporters)
        self._writers: dict[str, LogWriter] = {}
        self._sources: dict[str, _Source] = {}

    async def run(self) -> list[CopiedLog]:
        """Copy everything, and see that it is there; only committed positions are left to be set: see `commit`.

        Raises:
            ConfigError: what was read back is not what was written, or the source has changed meanwhile.
            RecordTooLarge: the target does not take a record.
            LogUnavailable: a log cannot be read or written now.
        """
        for log in self.source:
            self._sources[log.name] = await _Source.of(log, self._groups.get(log.name, ()))
            if log.name in self._target:
                self._writers[log.name] = await LogWriter.open(log.partitions, self._target[log.name])
            elif sum(self._sources[log.name].ends.values()) > sum(self._sources[log.name].starts.values()):
                key = {"unlinked": "assemble.link", "judged_spans": "export.spans"}[log.name]
                raise ConfigError(f"the log {log.name} is not in the target: configure {key} there, too")
        await self._note_copy()
        await self._copy_definitions()
        await self._copy_spans()
        await self._copy_by_progress("unlinked")
        await self._copy_turns()
        await self._copy_by_progress("labels")
        await self._copy_by_progress("judged_spans")
        await self._copy_letters()
        for writer in self._writers.values():
            await writer.flush()
        await self._require_unchanged()
        problems = [problem for writer in self._writers.values() for problem in await writer.verify()]
        if problems:
            raise ConfigError(f"the copy is not whole: {'; '.join(problems)}; run it again")
        return [CopiedLog(name, each.copied, self._sources[name].left_out) for name, each in self._writers.items()]

    async def commit(self) -> None:
        """Have every consumer continue where it was."""
        for name, groups in self._groups.items():
            for group in groups:
                # The page makes its history of scores again, out of all evaluations: that log names offsets.
                if name in self._writers and group not in (GROUP, "assemble", EVALUATIONS_GROUP):
                    await self._writers[name].commit(group, self._sources[name].commits[group])
        if self._sources["spans"].commits["assemble"]:
            await self._target["spans"].set_committed("assemble", self._assembled)
        if self._sources["turns"].commits[GROUP]:
            await self._target["turns"].set_committed(GROUP, self._evaluated)

    async def _require_unchanged(self) -> None:
        for name, before in self._sources.items():
            after = await _Source.of(before.log, self._groups.get(name, ()))
            if (after.ends, after.commits) != (before.ends, before.commits):
                raise ConfigError(
                    f"the log {name} has changed while it was copied: stop all processes of the service, and run this "
                    "again"
                )

    async def _copy_all(self, name: str, stretches: Mapping[int, tuple[int, int]], *, read: bool) -> None:
        """Copy parts of partitions, all in the order of their times. What was `read` may be too old to be copied."""
        source, writer = self._sources[name], self._writers[name]
        parts = [PartitionStretch(partition, *stretch) for partition, stretch in stretches.items()]
        together = [[stretch] for stretch in parts] if source.log.partitions == writer.target.partitions else [parts]
        for each in together:
            async for record in in_order(source.log, each):
                if self._is_wanted(name, record, read=read):
                    await self._copy_record(name, record)

    def _is_wanted(self, name: str, record: StoredRecord, *, read: bool) -> bool:
        left_out = self._sources[name].left_out
        if record.headers == TICK:
            left_out["internal time marks"] += 1
        elif record.timestamp < self._oldest.get(name, 0.0):
            if not read:
                raise ConfigError(
                    f"the log {name} has records that are still to be read and are older than what its topic retains: "
                    "set retention.ms of the topic higher, and run this again"
                )
            left_out["older than the topic retains"] += 1
        else:
            return True
        return False

    async def _copy_record(self, name: str, record: StoredRecord) -> None:
        writer, left_out = self._writers[name], self._sources[name].left_out
        if name == "turns":
            if record.headers == SNAPSHOT_HEADERS or is_transfer(record):
                left_out["stored states of conversations, made again"] += 1
                return
            await writer.copy(record)
        elif name == "evaluations":
            if not self._fences[record.partition].observe(record):
                left_out["records of former owners"] += 1
            elif record.headers == CONTROL_HEADERS:
                left_out["internal decisions, made again"] += 1
                if opened := _opened(record):
                    left_out["batches that are open, whose questions are asked again"] += opened
            else:
                await writer.copy(record, value=unstamped(record.value), key=_conversation_of(record))
        else:
            await writer.copy(record)

    async def _copy_by_progress(self, name: str) -> None:
        """Copy a log so that each of its consumers continues at one place of each partition."""
        if name not in self._writers:
            return
        source, writer = self._sources[name], self._writers[name]
        reading = [group for group, commits in source.commits.items() if commits]
        for group in reading:
            writer.mark_group(group, source.commits[group], source.log.partitions)
        parts = stretches_by_progress(source.starts, source.ends, [source.read_until(each) for each in reading])
        for number, part in enumerate(parts):
            await self._copy_all(name, part, read=number == 0)

    async def _note_copy(self) -> None:
        """Say that a copy began, before anything else is there: what is interrupted then is known as one."""
        writer = self._writers["definitions"]
        await writer.add(Record(COPY_NOTE, b"1", partition=0, timestamp=self.now))
        await writer.flush()

    async def _copy_definitions(self) -> None:
        """They are looked for in partition 0. How many partitions the topics have is noted newly."""
        source, writer = self._sources["definitions"], self._writers["definitions"]
        async for record in in_order(source.log, [PartitionStretch(0, source.starts[0], source.ends[0])]):
            if record.key in (COPY_NOTE, RATES_KEY) or is_note(record.key):
                source.left_out["internal notes, made again"] += 1
            elif self._is_wanted("definitions", record, read=True):
                await writer.add(Record(record.key, record.value, record.headers, 0, record.timestamp), of_source=True)

    async def _copy_spans(self) -> None:
        """Pieces of open traces come last of what was read, in the order of their times, then what was not."""
        source, writer = self._sources["spans"], self._writers["spans"]
        read = source.read_until("assemble")
        commits = source.commits["assemble"]
        closed: list[StoredRecord] = []
        opened: list[StoredRecord] = []
        for partition, until in read.items():
            low = commits[partition].low_watermark if partition in commits else source.starts[partition]
            records = [record async for record in in_order(source.log, [PartitionStretch(partition, low, until)])]
            pieces = open_pieces(records, self.limits, commits.get(partition))
            closed += [record for record in records if record.number in pieces.closed]
            opened += [record for record in records if record.number in pieces.open]
        needed = {(record.partition, record.number) for record in (*closed, *opened)}
        time = await self._copy_spans_but(needed, {number: (source.starts[number], at) for number, at in read.items()})
        low = writer.ends()
        for record in sorted(closed, key=lambda each: each.timestamp):
            await writer.copy(record)
        for partition in low if time else ():  # time passes as in the source, so that all of these traces close
            await writer.add(Record(None, b"", TICK, partition, time))
        following = writer.ends()
        for record in sorted(opened, key=lambda each: each.timestamp):
            if self._is_wanted("spans", record, read=False):
                await writer.copy(record)
        await self._copy_all("spans", {number: (read[number], end) for number, end in source.ends.items()}, read=False)
        self._assembled = {number: Committed(low[number], following[number]) for number in low}

    async def _copy_spans_but(
        self, needed: Collection[tuple[int, int]], stretches: Mapping[int, tuple[int, int]]
    ) -> float:
        """Copy the others; returns the latest time (s) of all records, ticks among them."""
        time = 0.0
        source, writer = self._sources["spans"], self._writers["spans"]
        parts = [PartitionStretch(partition, *stretch) for partition, stretch in stretches.items()]
        async for record in in_order(source.log, parts):
            time = max(time, record.timestamp)
            if (record.partition, record.number) not in needed and self._is_wanted("spans", record, read=True):
                await writer.copy(record)
        return time

    async def _copy_turns(self) -> None:
        """Records that were read are history; then the state as records of its own; then what was not read."""
        source, writer = self._sources["turns"], self._writers["turns"]
        evaluations, commits = self._sources["evaluations"].log, source.commits[GROUP]
        for partition in range(source.log.partitions):
            if await is_changed_beyond(evaluations, partition, commits.get(partition)):
                raise ConfigError(
                    "the service was killed while it took another configuration, and what it had judged by the one "
                    "of before is not committed; start it, let it read what waits, stop it, and run this again"
                )
        states = {
            partition: await read_transfer(
                self.plan, source.log, evaluations, partition, committed, self.now, self.history
            )
            for partition, committed in commits.items()
        }
        read = source.read_until(GROUP) | {number: transfer.offset for number, transfer in states.items()}
        writer.mark_group(TURNS_GROUP, source.commits[TURNS_GROUP], source.log.partitions)
        await self._copy_all("turns", {number: (source.starts[number], at) for number, at in read.items()}, read=True)
        begins = writer.ends()
        if states:
            await self._write_states(states)
        await self._copy_all("turns", {number: (read[number], end) for number, end in source.ends.items()}, read=False)
        await self._copy_evaluations(states, begins)

    async def _write_states(self, states: Mapping[int, PartitionTransfer]) -> None:
        writer = self._writers["turns"]
        retries = {failed: new for transfer in states.values() for failed, new in transfer.retries.items()}
        for partition in range(writer.target.partitions):
            # With the time of what it hands over: retention deletes a record without one at once, before it is read.
            start = TransferStart(self._time(states, partition), retries).to_record(partition)
            await writer.add(replace(start, timestamp=self._time(states, partition, empty=self.now)))
        for source, state in states.items():
            for record in (*state.conversations, *(job.to_record() for job in state.jobs)):
                await writer.add(replace(record, partition=writer.partition_of(record.key, source)))

    def _time(self, states: Mapping[int, PartitionTransfer], partition: int, *, empty: float = 0.0) -> float:
        """The time of the slowest partition that goes into one of the target; `empty` if none holds anything.

        The trace that the others wait for closes a little later than it would have; else what the slowest has not read
        yet would be late.
        """
        source = self._sources["turns"]
        same = source.log.partitions == self._target["turns"].partitions
        times = [
            states[number].time if number in states else 0.0
            for number, end in source.ends.items()
            if end > source.starts[number] and (number == partition or not same)
        ]
        return min(times, default=empty)

    def _budget_of(self, states: Sequence[PartitionTransfer], partitions: int) -> Mapping[str, Any] | None:
        """The part of a partition of the target in what partitions have spent."""
        saved = [transfer.budget for transfer in states if transfer.budget is not None]
        return divide(saved, 1 if self.source.turns.partitions == partitions else partitions) if saved else None

    async def _copy_evaluations(self, states: Mapping[int, PartitionTransfer], begins: Mapping[int, int]) -> None:
        source, writer = self._sources["evaluations"], self._writers["evaluations"]
        self._fences = {number: Fence() for number in source.starts}
        writer.mark("ledger", {number: transfer.ledger_offset for number, transfer in states.items()})
        await self._copy_by_progress("evaluations")
        self._evaluated: dict[int, Committed] = {}
        same = self.source.turns.partitions == self._target["turns"].partitions
        for partition, begin in begins.items():
            # a partition of the target continues its own where there are as many, else all
            contributing = [transfer for number, transfer in states.items() if number == partition or not same]
            rates = contributing[partition % len(contributing)].rates if contributing else FULL_RATES
            ledger = writer.first("ledger", partition)
            if (budget := self._budget_of(contributing, writer.target.partitions)) is not None:
                await writer.add(ControlRecord(offset=begin, rates=rates, budget=budget).to_record(partition))
            point = ReplayPoint(begin, self._time(states, partition), rates)
            past = tuple(sorted({number for transfer in contributing for number in transfer.past}))
            metadata = CommitMetadata(ledger_offset=ledger, done_below=begin, replay_point=point, past=past)
            self._evaluated[partition] = Committed(begin, begin, metadata.to_json())

    async def _copy_letters(self) -> None:
        """Each with no place of its record, which lies elsewhere now: no other record is to be taken for it."""
        source, writer = self._sources["dead_letters"], self._writers["dead_letters"]
        parts = [PartitionStretch(number, start, source.ends[number]) for number, start in source.starts.items()]
        async for record in in_order(source.log, parts):
            if not self._is_wanted("dead_letters", record, read=True):
                continue
            letter = _letter_in(record)
            if letter is None or letter["source"] not in self._writers:
                await writer.copy(record)
                continue
            name = hashlib.sha256(f"copied\x1f{letter['letter_id']}".encode()).hexdigest()[:16]
            value = orjson.dumps(letter | {"letter_id": name, "position": -1})
            partition = writer.partition_of(name.encode(), record.partition)
            await writer.add(Record(name.encode(), value, record.headers, partition, record.timestamp), of_source=True)


def _conversation_of(record: StoredRecord) -> bytes | None:
    """The key that an evaluation's turns have; None where it cannot be read."""
    with suppress(ValueError, KeyError, TypeError, AttributeError):
        return str(orjson.loads(record.value)["subject"]["conversation_id"]).encode("utf-8", "replace")
    return None


def _letter_in(record: StoredRecord) -> dict[str, Any] | None:
    """A dead letter as JSON; None for what is none that this version can read."""
    try:
        letter = cast("dict[str, Any]", orjson.loads(record.value))
        return letter if isinstance(letter["source"], str) and isinstance(letter["letter_id"], str) else None
    except (ValueError, KeyError, TypeError):
        return None


def oldest_retained(retention: float | None, now: float) -> float:
    """The time before which a log with this retention (s) deletes."""
    return -math.inf if retention is None else now - retention


def _opened(record: StoredRecord) -> int:
    """How many more batches of judges' requests are open after a control record."""
    control = readable(parse_control_record, record.value)
    batches = (control and control.batches) or {}
    return {"planned": 1, "dropped": -1, "ended": -1}.get(str(batches.get("event")), 0)
