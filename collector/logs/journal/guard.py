"""Guards: they note in the journal what a consumer takes, and leave out the records that processes have ended in.

The records that processes ended in are counted over all processes, in a log that they share, so that the counts move
with a partition.

A unit in which processes ended so often in a row is *fatal*: it is left out. Three things are written down: that a
process ended in a unit, that one survived it, and that it was left out. A unit may be a range of records, and it is
unknown which record ended the process: the range is then taken record by record, and counts for the first record in
which a process ends. A record that is survived counts from zero again.
"""

import asyncio
import logging
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from typing import Literal, TypeVar, get_args

import orjson

from collector.errors import BadInput
from collector.logs.journal.processing_journal import ProcessingJournal, Slot, Unit
from collector.logs.log import (
    Committed,
    Fold,
    FoldWrapper,
    Log,
    LogUnavailable,
    OpenFold,
    Receive,
    Record,
    StoredRecord,
    place_of_number,
    records_from,
)

Happened = Literal["ended", "survived", "left_out"]

KEY = "in process/"
"""The beginning of the keys of these records. Readers of the log's other records do not know them."""

CATCH_UP_AFTER = 1.0
"""For this many seconds the last reading of the log is new enough: a process opens many partitions at once."""


@dataclass(slots=True)
class Suspects:
    """The history of one place: ranges that a process ended in, by their first record, and ends by record."""

    ranges: dict[int, int] = field(default_factory=dict[int, int])
    ends: dict[int, int] = field(default_factory=dict[int, int])
    left_out: dict[int, float] = field(default_factory=dict[int, float])
    """By offset, with the timestamp: a topic that was made again has other records at these offsets."""

    def includes(self, offset: int) -> bool:
        """Whether a record is to be taken alone."""
        return offset in self.left_out or offset in self.ends or self._range_around(offset) is not None

    def changed_by(self, first: int, last: int) -> bool:
        """Whether it says anything new that these records were survived."""
        return first in self.ends or any(_order(end) <= _order(last) for end in self.ranges.values())

    def apply(self, happened: Happened, first: int, last: int, timestamp: float = 0.0) -> None:
        """Take in what has happened. `timestamp` is that of a record that was left out."""
        if happened == "left_out":
            self.left_out[first] = timestamp
            self.ends.pop(first, None)
        elif happened == "survived":
            self.ends.pop(first, None)
            for begin in [begin for begin, end in self.ranges.items() if _order(end) <= _order(last)]:
                del self.ranges[begin]
        elif first == last:
            around = self._range_around(first)
            if around is not None:
                del self.ranges[around]  # it was this one
            self.ends[first] = self.ends.get(first, 0) + (1 if around is None else 2)
        else:
            self.ranges[first] = max(last, self.ranges.get(first, last), key=_order)

    def _range_around(self, offset: int) -> int | None:
        at = _order(offset)
        return next((first for first, last in self.ranges.items() if _order(first) <= at <= _order(last)), None)


_order = place_of_number
"""The pieces of a record share its offset and are taken in order."""


class FatalUnits:
    """The history of all places. A unit is fatal after `limit` ends in a row."""

    def __init__(self, log: Log | None = None, limit: int = 3) -> None:
        """Without a log everything is forgotten at the end of the process."""
        self.limit = limit
        self._log = log
        self._next_offset = 0
        self._caught_up_at = -math.inf
        self._reading = asyncio.Lock()
        self.places: dict[str, Suspects] = {}
        """The histories by place. Nearly none has one: only where something has happened."""
        self._unwritten: list[tuple[Happened, Unit, float]] = []

    def happened(self, happened: Happened, unit: Unit, timestamp: float = 0.0) -> None:
        """Take in what has happened; `flush` writes it down. `timestamp` is that of a record that was left out."""
        self._unwritten.append((happened, unit, timestamp))
        self._apply(happened, unit, timestamp)

    async def flush(self) -> None:
        """Write down what has happened. While the log is unavailable, only this process knows."""
        if not self._unwritten or self._log is None:
            return
        records = [_record(*entry) for entry in self._unwritten]
        try:
            await self._log.append(records)
        except LogUnavailable as error:
            logger.warning("which records were in process cannot be written to %s now: %s", self._log.name, error)
            return
        del self._unwritten[: len(records)]

    async def record_ends(self, units: Sequence[Unit]) -> None:
        """Write down what earlier processes ended in; returns when that is durable.

        Raises:
            LogUnavailable: the log cannot be written now.
        """
        if self._log is not None and units:
            await self._log.append([_record("ended", unit) for unit in units])
        elif self._log is None:
            for unit in units:
                self._apply("ended", unit)

    async def catch_up(self) -> None:
        """Read what other processes have written down. While the log is unavailable, what is known must do."""
        async with self._reading:
            if self._log is None or time.monotonic() - self._caught_up_at < CATCH_UP_AFTER:
                return
            try:
                async for record in records_from(self._log, 0, self._next_offset):
                    self._next_offset = record.offset + 1
                    self._read(record.key, record.value)
            except LogUnavailable as error:
                logger.warning("which records ended a process cannot be read from %s now: %s", self._log.name, error)
                return
            self._caught_up_at = time.monotonic()

    def _read(self, key: bytes | None, value: bytes) -> None:
        if key is None or not key.startswith(KEY.encode()):
            return
        try:
            happened = orjson.loads(value)
            unit = Unit(str(happened["place"]), int(happened["first"]), int(happened["last"]))
            what: Happened = happened["happened"]
            timestamp = float(happened.get("timestamp", 0.0))
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
            return  # of a newer release
        if what in get_args(Happened):
            self._apply(what, unit, timestamp)

    def _apply(self, happened: Happened, unit: Unit, timestamp: float = 0.0) -> None:
        suspects = self.places.setdefault(unit.place, Suspects())
        suspects.apply(happened, unit.first, unit.last, timestamp)
        if not (suspects.ranges or suspects.ends or suspects.left_out):
            del self.places[unit.place]


def _record(happened: Happened, unit: Unit, timestamp: float = 0.0) -> Record:
    value = {"happened": happened, "place": unit.place, "first": unit.first, "last": unit.last, "at": time.time()}
    if timestamp:
        value["timestamp"] = timestamp
    return Record(f"{KEY}{unit.place}/{unit.first}".encode(), orjson.dumps(value), partition=0)


T = TypeVar("T")

logger = logging.getLogger(__name__)

OnFatal = Callable[[StoredRecord, BadInput], None]


class FatalRecord(BadInput):
    """A record in which the process ended again and again."""


class Guard:
    """Guards of one process: its journal, and what earlier processes ended in. The default notes nothing."""

    def __init__(self, journal: ProcessingJournal | None = None, fatal: FatalUnits | None = None) -> None:
        self.journal = journal or ProcessingJournal()
        self.fatal = fatal or FatalUnits()

    async def place(self, name: str) -> "GuardedPlace":
        """The guard of a place, with what other processes know of it. Close it."""
        await self.fatal.catch_up()
        return self.known_place(name)

    def known_place(self, name: str) -> "GuardedPlace":
        """The same with what is known in this process. Close it."""
        return GuardedPlace(name, self.journal.open_slot(name), self.fatal)

    def count_failure(self) -> None:
        """A consumer failed and is started again: its records count as ones in which the process ended."""
        unit = self.journal.take_fatal()
        if unit is not None:
            self.fatal.happened("ended", unit)

    def error(self, what: str) -> FatalRecord:
        """Why something is left out."""
        return FatalRecord(f"the process ended {self.fatal.limit} times in a row while it was processing this {what}")

    def guarding(self, consumer: str, log: str, open_fold: OpenFold, on_fatal: OnFatal) -> OpenFold:
        """Open the same folds, each guarded; a record that is left out is given to `on_fatal`."""

        def reporting(partition: int) -> Callable[[StoredRecord], None]:
            def report(record: StoredRecord) -> None:
                error = self.error("record")
                logger.error("%s: record %d of %s[%d] is left out: %s", consumer, record.offset, log, partition, error)
                on_fatal(record, error)

            return report

        @asynccontextmanager
        async def open_guarded(partition: int, committed: Committed | None) -> AsyncGenerator[Fold]:
            with closing(await self.place(f"{consumer} {log} {partition}")) as place:
                async with open_fold(partition, committed) as fold:
                    yield _GuardedFold(fold, place, reporting(partition))

        return open_guarded


class GuardedPlace:
    """The guard of one place: notes the records that are taken there, and knows which ones to leave out."""

    def __init__(self, name: str, slot: Slot, fatal: FatalUnits) -> None:
        self.name = name
        self.slot = slot
        """`slot.at(offset)` is the context in which one unit is processed without waiting; call `survived` behind it.
        """
        self._fatal = fatal
        self.flush = fatal.flush
        """Writes down what was survived or left out."""
        self.close = slot.close
        """Gives the place up."""

    @property
    def suspects(self) -> Suspects | None:
        """The history of this place; None, as nearly always, if nothing has happened."""
        return self._fatal.places.get(self.name)

    def is_fatal(self, offset: int) -> bool:
        """Whether this is to be left out."""
        suspects = self._fatal.places.get(self.name)
        return suspects is not None and suspects.ends.get(offset, 0) >= self._fatal.limit

    async def drive(self, first: int, last: int, work: Awaitable[T]) -> T:
        """Await the processing of records; a process that ends in it ends in these."""
        result = await self.slot.at(first, last).drive(work)
        if self.name in self._fatal.places:
            self.survived(first, last)
        return result

    def survived(self, first: int, last: int | None = None) -> None:
        """The records that were taken are processed."""
        last = first if last is None else last
        suspects = self.suspects
        if suspects is not None and suspects.changed_by(first, last):
            self._fatal.happened("survived", Unit(self.name, first, last))

    def leave_out(self, record: StoredRecord) -> None:
        """It was left out: it is not tried again after a restart."""
        self._fatal.happened("left_out", Unit(self.name, record.number, record.number), record.timestamp)


class _GuardedFold(FoldWrapper):
    """A fold whose records are noted before it gets them: all of a delivery together, a suspect alone."""

    def __init__(self, fold: Fold, place: GuardedPlace, on_fatal: Callable[[StoredRecord], None]) -> None:
        super().__init__(fold)
        self._place = place
        self._on_fatal = on_fatal
        self._unreported: list[StoredRecord] = []
        self._reported: list[StoredRecord] = []

    async def replay(self, records: Sequence[StoredRecord]) -> None:
        await self._process(self._fold.replay, records)

    async def deliver(self, records: Sequence[StoredRecord]) -> None:
        if self._reported:  # in the delivery before, which has ended: its reports are durable
            for record in self._reported:
                self._place.leave_out(record)
            self._reported = []
            await self._place.flush()
        await self._process(self._fold.deliver, records)
        for record in self._unreported:
            self._on_fatal(record)
        self._reported, self._unreported = self._unreported, []

    async def _process(self, process: Receive, records: Sequence[StoredRecord]) -> None:
        suspects = self._place.suspects
        if suspects is None:
            if records:
                first, last = records[0], records[-1]
                begin, end = (first.number, last.number) if first.piece or last.piece else (first.offset, last.offset)
                await self._place.drive(begin, end, process(records))
            return
        for group in _groups(records, suspects):
            begin, end = group[0].number, group[-1].number
            if len(group) == 1 and suspects.left_out.get(begin) == group[0].timestamp:
                continue
            if len(group) == 1 and self._place.is_fatal(begin):
                self._unreported.append(group[0])
            else:
                await self._place.drive(begin, end, process(group))
        await self._place.flush()


def _groups(records: Sequence[StoredRecord], suspects: Suspects) -> Iterator[Sequence[StoredRecord]]:
    """The records in order: each suspect alone, what is between together."""
    group: list[StoredRecord] = []
    for record in records:
        if suspects.includes(record.number):
            if group:
                yield group
                group = []
            yield [record]
        else:
            group.append(record)
    if group:
        yield group
