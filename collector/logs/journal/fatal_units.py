"""What processes ended in: counted over all processes in a log that they share, so that it moves with a partition.

A unit in which processes ended so often in a row is *fatal*: it is left out. Three things are written down: that a
process ended in a unit, that one survived it, and that it was left out. A unit may be a range of records, of which
nobody knows which one it was: it is then taken record by record, and counts for the first in which a process ends
alone. What is survived counts from zero.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import orjson

from collector.logs.journal.processing_journal import Unit
from collector.logs.log import Log, LogUnavailable, Record, place_of_number

logger = logging.getLogger(__name__)

Happened = Literal["ended", "survived", "left_out"]

KEY = "in process/"
"""How the keys of these records begin. Whoever reads the log for other things does not know them."""

CATCH_UP_AFTER = 1.0
"""Seconds for which what was read of the log is new enough: a process opens many partitions at once."""


@dataclass(slots=True)
class Suspects:
    """What happened in one place: ranges that a process ended in, by their first record, and ends by record."""

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
            for begin in [each for each, end in self.ranges.items() if _order(end) <= _order(last)]:
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
"""Pieces of a record share its offset, and are taken one after the other."""


class FatalUnits:
    """What happened in all places. A unit is fatal after `limit` ends in a row."""

    def __init__(self, log: Log | None = None, limit: int = 3) -> None:
        """Without a log everything is forgotten at the end of the process."""
        self.limit = limit
        self._log = log
        self._next_offset = 0
        self._caught_up_at = -math.inf
        self._reading = asyncio.Lock()
        self._places: dict[str, Suspects] = {}
        self._unwritten: list[tuple[Happened, Unit, float]] = []

    def at(self, place: str) -> Suspects | None:
        """What happened in a place; None, nearly always, if nothing has."""
        return self._places.get(place)

    def is_fatal(self, place: str, offset: int) -> bool:
        """Whether a record of a place is to be left out."""
        suspects = self._places.get(place)
        return suspects is not None and suspects.ends.get(offset, 0) >= self.limit

    def happened(self, happened: Happened, unit: Unit, timestamp: float = 0.0) -> None:
        """Take in what has happened; `flush` writes it down. `timestamp` is that of a record that was left out."""
        self._unwritten.append((happened, unit, timestamp))
        self._apply(happened, unit, timestamp)

    async def flush(self) -> None:
        """Write down what has happened. While the log is unavailable, only this process knows."""
        if not self._unwritten or self._log is None:
            return
        records = [_record(*each) for each in self._unwritten]
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
                async for batch in self._log.read(0, self._next_offset):
                    for record in batch:
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
        suspects = self._places.setdefault(unit.place, Suspects())
        suspects.apply(happened, unit.first, unit.last, timestamp)
        if not (suspects.ranges or suspects.ends or suspects.left_out):
            del self._places[unit.place]


def _record(happened: Happened, unit: Unit, timestamp: float = 0.0) -> Record:
    value = {"happened": happened, "place": unit.place, "first": unit.first, "last": unit.last, "at": time.time()}
    if timestamp:
        value["timestamp"] = timestamp
    return Record(f"{KEY}{unit.place}/{unit.first}".encode(), orjson.dumps(value), partition=0)
