"""Notes in the definitions log of the rates with which turns were drawn, each from an offset of a partition on.

The committed state has rates only while evaluations are pending. An audit of the past needs all of them.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import orjson

from collector.evaluate.recovery.ledger import RETRY, append_with_retry
from collector.evaluate.recovery.replay_point import SampleRates
from collector.logs.log import Log, LogUnavailable, Record
from collector.logs.whole_log import notes_in

RATES_KEY = b"sample rates"
"""The key of the notes. All notes under it count, unlike other definitions, of which only the first counts."""

Notes = Mapping[int, Sequence[tuple[int, SampleRates]]]
"""For each partition, rates in the order of the offsets from which they apply."""


async def read_sample_rates(log: Log) -> Notes:
    """Read all notes. Raises LogUnavailable."""
    notes: dict[int, list[tuple[int, SampleRates]]] = {}
    async for plain in notes_in(log, RATES_KEY):
        partition, since, rates = plain["partition"], plain["from"], plain["rates"]
        notes[partition] = [*(note for note in notes.get(partition, ()) if note[0] < since), (since, rates)]
    return notes


def draws_by(notes: Sequence[tuple[int, SampleRates]]) -> list[tuple[int, SampleRates]]:
    """The rates, each up to an offset, without the last. The first note also covers earlier records."""
    return [(until, rates) for (_, rates), (until, _) in pairwise(notes)]


async def note_sample_rates(log: Log, partition: int, offset: int, rates: SampleRates) -> None:
    """Note that the turns from an offset on are drawn with these rates, unless the last note says so.

    Waits while the log is unavailable.
    """
    notes = await RETRY.repeat(lambda: read_sample_rates(log), LogUnavailable, action="reading the definitions log")
    earlier = notes.get(partition, ())
    if earlier and earlier[-1][1] == rates:
        return
    value = orjson.dumps({"partition": partition, "from": offset, "rates": rates})
    await append_with_retry(log, Record(RATES_KEY, value, partition=0))
