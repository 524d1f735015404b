"""The history of scores: sums by minute, monitor, evaluator and its version in a log of their own, to outlive restarts.

A record is a stretch of a partition of the evaluations log, about a minute of it, with what it adds to each minute. It
names the first offset that it holds and the one after the last, so that whoever reads on from there counts nothing
twice. Records are small whatever the traffic, and deleted by age: `deploy/docs/page.md` says how many bytes a day.
Sums are rounded to ten digits.

    {"v":1,"partition":0,"first":0,"next":40,"minutes":[[29000000,"support","helpful","0123456789ab",12,…]]}

A minute is in minutes since the epoch; the numbers after the version are `Bin.numbers`, without the zeros at the end.
Earlier releases wrote "all" in place of the version, and read any.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

import orjson

from collector.errors import BadInput
from collector.logs.appending import append_until_durable
from collector.logs.log import Log, Record
from collector.logs.whole_log import IncrementalReader
from collector.page.score_series import Bin

RETENTION = 9 * 86400.0
"""Seconds for which records are kept: a week, and the day before it."""
_VERSION = 1

SeriesKey = tuple[str, str, str]
"""Monitor, evaluator and the evaluator's version, "" where it is not known."""
_UNKNOWN = "all"


@dataclass(frozen=True, slots=True)
class HistoryStretch:
    """The sums that a partition's evaluations from offset `first` up to `next` add to each minute of each series."""

    partition: int
    first: int
    next: int
    minutes: tuple[tuple[int, SeriesKey, Bin], ...]


def stretch_to_json(stretch: HistoryStretch) -> bytes:
    """A stretch as a record's value."""
    minutes = [[minute, *key[:2], key[2] or _UNKNOWN, *_short(bin_.numbers())] for minute, key, bin_ in stretch.minutes]
    return orjson.dumps(
        {
            "v": _VERSION,
            "partition": stretch.partition,
            "first": stretch.first,
            "next": stretch.next,
            "minutes": minutes,
        }
    )


def stretch_from_json(value: bytes) -> HistoryStretch:
    """A stretch out of a record's value.

    Raises:
        BadInput: it is none, or of a later version.
    """
    try:
        read: dict[str, Any] = orjson.loads(value)
        if read["v"] != _VERSION:
            raise BadInput(f"a history of version {read['v']} cannot be read by this version")
        minutes = tuple(_minute(cast("list[Any]", each)) for each in read["minutes"])
        return HistoryStretch(int(read["partition"]), int(read["first"]), int(read["next"]), minutes)
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise BadInput("not a history of scores") from error


def _minute(fields: list[Any]) -> tuple[int, SeriesKey, Bin]:
    minute, monitor, evaluator, version, *numbers = fields
    key = str(monitor), str(evaluator), "" if version == _UNKNOWN else str(version)
    return int(minute), key, Bin.from_numbers([float(number) for number in numbers])


def _short(numbers: list[float]) -> list[float]:
    while numbers and not numbers[-1]:
        numbers.pop()
    rounded = (float(f"{number:.10g}") for number in numbers)
    return [int(each) if each == int(each) else each for each in rounded]


class SumsHistory:
    """The log of stretches: read from where it was read last, and appended to."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._reader = IncrementalReader(log)

    async def read_on(self, oldest: float) -> list[HistoryStretch]:
        """The stretches that were appended since the last call, without those before `oldest` (s).

        Raises:
            LogUnavailable: the log cannot be read now.
        """
        stretches: list[HistoryStretch] = []
        async for batch in self._reader.batches():
            stretches += _readable(
                record.value for record in batch if record.timestamp >= oldest and not record.headers
            )
        return stretches

    async def append(self, stretch: HistoryStretch) -> None:
        """Append a stretch; waits while the log cannot be written. Those of one partition stay in order."""
        record = Record(b"%d" % stretch.partition, stretch_to_json(stretch))
        await append_until_durable(self._log, [record])


def _readable(values: Iterable[bytes]) -> list[HistoryStretch]:
    stretches: list[HistoryStretch] = []
    for value in values:
        try:
            stretches.append(stretch_from_json(value))
        except BadInput:
            continue  # of a later version: its minutes are read from the evaluations that are still there
    return stretches
