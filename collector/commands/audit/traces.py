"""The audit of traces: what the assemble stage's own fold makes of the spans log, against the turns that there are.

Traces are compared by their ids and their number of turns: a turn that another configuration made has another id.
Of turns that are made like this only since a change of `assemble` or `dialects`, earlier ones are no loss.
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
from collector.logs.log import TICK, Committed, Log, Record, StoredRecord
from collector.records.shared_records import divide_records
from collector.service.assembly_builder import build_assembler, trace_limits
from collector.service.assembly_history import ReadSince

EXAMPLES = 5
"""How many traces are named."""

_AT_LAST = 1e12
"""A time (s) at which every trace has closed."""
_TABLES = """
CREATE TABLE seen (trace TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE found (trace TEXT, turn TEXT, PRIMARY KEY (trace, turn)) WITHOUT ROWID;
CREATE TABLE expected (trace TEXT, turn TEXT, dialect TEXT, closed REAL, PRIMARY KEY (trace, turn)) WITHOUT ROWID;
"""
_LACKING = """
SELECT trace, count(*) - (SELECT count(*) FROM found WHERE found.trace = expected.trace) AS lack,
    sum(closed < read_since(dialect))
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
    """Traces that were open when somebody moved the stage's position forward, so that turns are missing."""
    passed_examples: list[str] = field(default_factory=list[str])
    missing: int = 0
    """Turns that were to be made and are in no log."""
    not_compared: int = 0
    """Further ones, of traces that closed before `assemble` or `dialects` said so."""
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
        self._released = set[str]()

    def close(self) -> None:
        """Delete what was collected."""
        self._database.close()

    def see_turn(self, value: bytes) -> bool:
        """A record of the log of turns, or of unlinked ones; whether its turn was seen before."""
        turn, add = _fields(value), "INSERT OR IGNORE INTO found VALUES (?, ?)"
        return turn is not None and not self._database.execute(add, turn[:2]).rowcount

    async def read(
        self,
        config: Config,
        spans: Log,
        content: LogContent,
        committed: Mapping[int, Committed],
        left_out: Collection[tuple[int, int, int]],
    ) -> None:
        """Fold the spans that the stage has read, without dead-lettered records."""

        def is_processed(piece: StoredRecord) -> bool:
            return (piece.partition, piece.offset, piece.piece) not in left_out

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
                            await fold.deliver([piece for piece in pieces if is_processed(piece)])
                            self._expect(made, pieces, pieces[0].timestamp)
                if state is not None:
                    released = self._add_open(partition, state.low_watermark, stage.open_trace_ids(partition))
                    await fold.deliver([StoredRecord(partition, state.offset, _AT_LAST, None, b"", TICK)])
                    self._expect(made, [], 0.0, released)
            content.finish(partition)

    def _add_open(self, partition: int, low: int, traces: Sequence[tuple[int, str, float]]) -> dict[str, float]:
        """Add what is open. Returns the begin of each trace before the low watermark, which the stage does not know any
        more: shorter limits closed it, or somebody moved the stage's position forward, so that it has no turns.
        """
        balance = self._balance
        remembered = [trace for offset, trace, _ in traces if offset >= low]
        balance.open += len(remembered)
        balance.open_from |= {partition: low} if remembered else {}
        balance.open_examples += remembered[: EXAMPLES - len(balance.open_examples)]
        released = {trace.partition("@")[0]: began for offset, trace, began in traces if offset < low}
        self._released |= released.keys()
        return released

    def _expect(
        self, made: _Made, read: Sequence[StoredRecord], closed: float, released: Mapping[str, float] | None = None
    ) -> None:
        """Note the turns of traces that closed at `closed` (s) or within a second after it; or of the `released` alone,
        with their times.
        """
        keys = [(record.key.decode(errors="replace"),) for record in read if record.key]
        self._database.executemany("INSERT OR IGNORE INTO seen VALUES (?)", keys)
        turns = [turn for record in made.records if (turn := _fields(record.value)) is not None]
        times = {turn[0]: closed for turn in turns} if released is None else released
        timed = [(*turn, times[turn[0]]) for turn in turns if turn[0] in times]
        self._database.executemany("INSERT OR IGNORE INTO expected VALUES (?, ?, ?, ?)", timed)
        made.records.clear()

    def balance(self, since: float, read_since: ReadSince) -> TraceBalance:
        """Compare. Traces that closed before `since` (s) are not: retention has deleted turns of that time."""
        balance = self._balance
        self._database.create_function("read_since", 1, read_since.of)
        counts = "SELECT (SELECT count(*) FROM seen), (SELECT count(DISTINCT trace) FROM expected)"
        with closing(self._database.execute(counts)) as rows:
            balance.seen, balance.with_turns = rows.fetchone()
        with closing(self._database.execute(_LACKING, [since])) as rows:
            for trace, lacking, earlier in rows:
                balance.not_compared += min(lacking, earlier)
                if lacking > earlier and trace in self._released:
                    balance.passed_over += 1
                    balance.passed_examples += [trace] if len(balance.passed_examples) < EXAMPLES else []
                elif lacking > earlier:
                    balance.missing += lacking - earlier
                    balance.examples += [trace] if len(balance.examples) < EXAMPLES else []
        balance.with_turns -= balance.passed_over
        return balance


def _fields(value: bytes) -> tuple[str, str, str] | None:
    """The trace ("" for a turn of none), the turn and the dialect of a record; None if it holds no turn."""
    try:
        turn = orjson.loads(value)
        return str(turn.get("trace_id") or ""), str(turn["turn_id"]), turn.get("dialect") or ""
    except (orjson.JSONDecodeError, AttributeError, KeyError):
        return None
