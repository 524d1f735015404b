"""Guards: they note in the journal what a consumer takes, and leave out the records that processes have ended in."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from collector.errors import BadInput
from collector.logs.fold_wrapper import FoldWrapper
from collector.logs.journal.fatal_units import FatalUnits, Suspects
from collector.logs.journal.processing_journal import ProcessingJournal, Slot, Unit
from collector.logs.log import Committed, Fold, OpenFold, StoredRecord

T = TypeVar("T")

logger = logging.getLogger(__name__)

OnFatal = Callable[[StoredRecord, BadInput], None]


class FatalRecord(BadInput):
    """A record in which the process ended again and again."""


class Guard:
    """Guards of one process: its journal, and what earlier processes ended in. The default notes for nobody."""

    def __init__(self, journal: ProcessingJournal | None = None, fatal: FatalUnits | None = None) -> None:
        self.journal = journal or ProcessingJournal()
        self.fatal = fatal or FatalUnits()

    async def place(self, name: str) -> GuardedPlace:
        """The guard of a place, with what other processes know of it. Close it."""
        await self.fatal.catch_up()
        return self.known_place(name)

    def known_place(self, name: str) -> GuardedPlace:
        """The same with what is known in this process. Close it."""
        return GuardedPlace(name, self.journal.open_slot(name), self.fatal)

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
            place = await self.place(f"{consumer} {log} {partition}")
            try:
                async with open_fold(partition, committed) as fold:
                    yield _GuardedFold(fold, place, reporting(partition))
            finally:
                place.close()

        return open_guarded


class GuardedPlace:
    """The guard of one place: notes what is taken there, and knows what is to be left out."""

    def __init__(self, name: str, slot: Slot, fatal: FatalUnits) -> None:
        self.name = name
        self._slot = slot
        self._fatal = fatal

    @property
    def suspects(self) -> Suspects | None:
        """What happened here; None, nearly always, if nothing has."""
        return self._fatal.at(self.name)

    def is_fatal(self, offset: int) -> bool:
        """Whether this is to be left out."""
        return self._fatal.is_fatal(self.name, offset)

    def is_left_out(self, record: StoredRecord) -> bool:
        """Whether it was left out before."""
        suspects = self.suspects
        return suspects is not None and suspects.left_out.get(record.number) == record.timestamp

    def taking(self, offset: int) -> Slot:
        """The context in which one unit is processed without waiting. Call `survived` behind it."""
        return self._slot.at(offset)

    async def drive(self, first: int, last: int, work: Awaitable[T]) -> T:
        """Await the processing of records; a process that ends in it ends in these."""
        result = await self._slot.at(first, last).drive(work)
        self.survived(first, last)
        return result

    def survived(self, first: int, last: int | None = None) -> None:
        """What was taken was processed."""
        last = first if last is None else last
        suspects = self.suspects
        if suspects is not None and suspects.changed_by(first, last):
            self._fatal.happened("survived", Unit(self.name, first, last))

    def leave_out(self, record: StoredRecord) -> None:
        """It was left out: after a restart nobody tries it again."""
        self._fatal.happened("left_out", Unit(self.name, record.number, record.number), record.timestamp)

    async def flush(self) -> None:
        """Write down what was survived or left out."""
        await self._fatal.flush()

    def close(self) -> None:
        """Give the place up."""
        self._slot.close()


class _GuardedFold(FoldWrapper):
    """A fold whose records are noted before it gets them: all of a delivery together, a suspect alone."""

    def __init__(self, fold: Fold, place: GuardedPlace, on_fatal: Callable[[StoredRecord], None]) -> None:
        super().__init__(fold)
        self._place = place
        self._on_fatal = on_fatal
        self._unreported: list[StoredRecord] = []
        self._reported: list[StoredRecord] = []

    @property
    def takes_unreadable(self) -> bool:
        return getattr(self._fold, "takes_unreadable", False)

    async def replay(self, records: Sequence[StoredRecord]) -> None:
        await self._process(self._fold.replay, records)

    async def deliver(self, records: Sequence[StoredRecord]) -> None:
        if self._reported:  # in the delivery before, which has ended: what it reported is durable
            for record in self._reported:
                self._place.leave_out(record)
            self._reported = []
            await self._place.flush()
        await self._process(self._fold.deliver, records)
        for record in self._unreported:
            self._on_fatal(record)
            self._reported.append(record)
        self._unreported = []

    async def _process(
        self, process: Callable[[Sequence[StoredRecord]], Awaitable[None]], records: Sequence[StoredRecord]
    ) -> None:
        suspects = self._place.suspects
        if not records:
            await process(records)
            return
        if suspects is None:
            await self._place.drive(records[0].number, records[-1].number, process(records))
            return
        for group in _groups(records, suspects):
            first, last = group[0].number, group[-1].number
            if len(group) == 1 and self._place.is_left_out(group[0]):
                continue
            if len(group) == 1 and self._place.is_fatal(first):
                self._unreported.append(group[0])
            else:
                await self._place.drive(first, last, process(group))
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
