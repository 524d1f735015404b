"""The audit of traces: what the assemble stage's own fold makes of the spans log, against the turns that there are.

Traces are compared by their ids and their number of turns: a turn that another configuration made has another id.
"""

import sqlite3
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import orjson

from collector.assemble.stage import AssembleStage
from collector.commands.audit.positions import LogContent
from collector.config.configured import Config
from collector.link.turn_router import TurnRouter
from collector.logs.log import Committed, Log, Record, StoredRecord
from collector.records.shared_records import divide_records
from collector.service.assembly_builder import build_assembler, trace_limits

EXAMPLES = 5
"""How many traces are named."""

_TABLES = """
CREATE TABLE seen (trace TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE found (trace TEXT, turn TEXT, PRIMARY KEY (trace, turn)) WITHOUT ROWID;
CREATE TABLE expected (trace TEXT, turn TEXT, closed REAL, PRIMARY KEY (trace, turn)) WITHOUT ROWID;
"""
_LACKING = """
SELECT trace, count(*) - (SELECT count(*) FROM found WHERE found.trace = expected.trace) AS lack
FROM expected GROUP BY trace HAVING lack > 0 AND max(closed) >= ? ORDER BY max(closed)
"""


@dataclass(slots=True)
class TraceBalance:
    """The traces that were read: all, those with turns, and those that are open, of which some are named."""

    seen: int = 0
    with_turns: int = 0
    open: int = 0
    open_from: dict[int, int] = field(default_factory=dict[int, int])
    """The low watermark of each partition with open traces."""
    open_examples: list[str] = field(default_factory=list[str])
    passed_over: int = 0
    """Traces that were open when somebody moved the stage's position forward."""
    passed_examples: list[str] = field(default_factory=list[str])
    missing: int = 0
    """Turns that were to be made and are in no log."""
    examples: list[str] = field(default_factory=list[str])

    @property
    def without_turns(self) -> int:
        """Closed traces in which no dialect finds a turn."""
        return max(0, self.seen - self.with_turns - self.open - self.passed_over)


class _Made:
    """The log that takes what the stage would append."""

    name = "turns"

    def __init__(self) -> None:
        self.records: list[Record] = []

    async def append(self, records: Sequence[Record]) -> None:
        self.records += records


class TraceAudit:
    """Collects the turns that there are and those that traces lead to; `balance` compares them."""

    def __init__(self) -> None:
        self._database = sqlite3.connect("")  # a temporary file, deleted when it is closed
        self._database.executescript(_TABLES)
        self._balance = TraceBalance()

    def close(self) -> None:
        """Delete what was collected."""
        self._database.close()

    def see_turn(self, value: bytes) -> bool:
        """A record of the log of turns, or of unlinked ones; whether its turn was seen before."""
        turn = _ids(value)
        return (
            turn is not None and not self._database.execute("INSERT OR IGNORE INTO found VALUES (?, ?)", turn).rowcount
        )

    async def read(
        self,
        config: Config,
        spans: Log,
        content: LogContent,
        committed: Mapping[int, Committed],
        left_out: Collection[tuple[int, int, int]],
    ) -> None:
        """Fold the spans that the stage has read, without dead-lettered records."""
        settings, made = config.settings.assemble, _Made()
        log: Any = made  # the router only appends
        services = settings.link.services if settings.link else ()
        stage = AssembleStage(
            build_assembler(settings, config.settings.dialects), TurnRouter(log, log, services), trace_limits(settings)
        )
        for partition, start in content.starts.items():
            state = committed.get(partition)
            async with stage.open_fold(partition, None) as fold:
                async for batch in spans.read(partition, start):
                    known = [record for record in batch if record.offset < content.ends[partition]]
                    for record in known:
                        content.saw(record, {"assemble": committed})
                    if state is not None:
                        read = divide_records([record for record in known if record.offset < state.offset])
                        # Second by second: a batch of a backlog spans hours, and a turn is no older than its spans.
                        for _, second in groupby(read, lambda record: int(record.timestamp)):
                            pieces = list(second)
                            await fold.deliver([piece for piece in pieces if _place(piece) not in left_out])
                            self._expect(made, pieces, pieces[0].timestamp)
                if state is not None:
                    self._add_open(partition, state.low_watermark, stage.open_trace_ids(partition))
            content.finish(partition)

    def _add_open(self, partition: int, low: int, traces: Sequence[tuple[int, str]]) -> None:
        """Add what is open; the stage does not know traces any more that begin before its low watermark."""
        balance = self._balance
        remembered = [trace for offset, trace in traces if offset >= low]
        balance.open += len(remembered)
        balance.open_from |= {partition: low} if remembered else {}
        balance.open_examples += remembered[: EXAMPLES - len(balance.open_examples)]
        forgotten = [trace for offset, trace in traces if offset < low]
        balance.passed_over += len(forgotten)
        balance.passed_examples += forgotten[: EXAMPLES - len(balance.passed_examples)]

    def _expect(self, made: _Made, read: Sequence[StoredRecord], closed: float) -> None:
        """Note the turns of traces that closed at `closed` (s) or within a second after it."""
        keys = [(record.key.decode(errors="replace"),) for record in read if record.key]
        self._database.executemany("INSERT OR IGNORE INTO seen VALUES (?)", keys)
        turns = [(*turn, closed) for record in made.records if (turn := _ids(record.value)) is not None]
        self._database.executemany("INSERT OR IGNORE INTO expected VALUES (?, ?, ?)", turns)
        made.records.clear()

    def balance(self, since: float) -> TraceBalance:
        """Compare. Traces that closed before `since` (s) are not: retention has deleted turns of that time."""
        balance = self._balance
        counts = "SELECT (SELECT count(*) FROM seen), (SELECT count(DISTINCT trace) FROM expected)"
        with closing(self._database.execute(counts)) as rows:
            balance.seen, balance.with_turns = rows.fetchone()
        with closing(self._database.execute(_LACKING, [since])) as rows:
            for trace, lacking in rows:
                balance.missing += lacking
                balance.examples += [trace] if len(balance.examples) < EXAMPLES else []
        return balance


def _place(record: StoredRecord) -> tuple[int, int, int]:
    return record.partition, record.offset, record.piece


def _ids(value: bytes) -> tuple[str, str] | None:
    """The trace and the turn of a record; None if it holds no turn of a trace."""
    try:
        turn = orjson.loads(value)
        return (turn["trace_id"], turn["turn_id"]) if turn["trace_id"] else None
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None
