"""The assemble stage: a fold over a partition of the spans log that gives rise to turns."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager

from collector.assemble.gather import Piece
from collector.assemble.open_traces import CloseReason, OpenTrace, OpenTraces, Waits
from collector.assemble.trace import Assembler, Assembly
from collector.assemble.turns import Assembled
from collector.errors import BadInput
from collector.link.outlet import Outgoing, Outlet
from collector.logs.log import Committed, Stored
from collector.otlp import Signal, request_from_protobuf

logger = logging.getLogger(__name__)

Count = Callable[[str, str, int], None]
"""Counts what became of spans: the dialect ("" for none), what, and how many.

What is `spans` (read), `turns` (can be judged), `failed`, a reason why a turn cannot be judged, `closed_<reason>` for
a closed trace, `late_feedback` for feedback that came when its turn was made, or `crashed` for a trace that could not
be assembled because of a bug.
"""

_BATCH = 256
"""Turns appended at once, and traces assembled before others get their turn on the event loop."""


class AssembleStage:
    """Opens the folds of the spans log's partitions.

    A record's key is its trace id in hex, its header `signal` says `traces` or `logs`, and its value is a serialized
    Export…ServiceRequest that holds nothing but that trace.
    """

    def __init__(
        self,
        assembler: Assembler,
        outlet: Outlet,
        waits: Waits | None = None,
        *,
        count: Count = lambda _dialect, _what, _number: None,
        on_bad_record: Callable[[Stored, BadInput], None] = lambda _record, _error: None,
    ) -> None:
        self._assembler = assembler
        self._outlet = outlet
        self._waits = waits or Waits()
        self._count = count
        self._on_bad_record = on_bad_record
        self._folds: dict[int, AssembleFold] = {}

    @property
    def open_traces(self) -> int:
        """How many traces are waited for in this process, over all partitions."""
        return sum(fold.open_traces for fold in self._folds.values())

    @property
    def open_bytes(self) -> int:
        """How many bytes open and lingering traces hold in this process."""
        return sum(fold.open_bytes for fold in self._folds.values())

    @asynccontextmanager
    async def open_fold(self, partition: int, _committed: Committed | None) -> AsyncGenerator[AssembleFold]:
        """Open the fold of a partition; its state comes by replay."""
        fold = AssembleFold(
            self._assembler, self._outlet, self._waits, count=self._count, on_bad_record=self._on_bad_record
        )
        self._folds[partition] = fold
        try:
            yield fold
        finally:
            del self._folds[partition]


class AssembleFold:
    """What one partition of the spans log leads to.

    Time is that of the records. It passes before a record is taken, so that a replay closes the same traces in the
    same order.
    """

    note = ""

    def __init__(
        self,
        assembler: Assembler,
        outlet: Outlet,
        waits: Waits,
        *,
        count: Count,
        on_bad_record: Callable[[Stored, BadInput], None],
    ) -> None:
        self._assembler = assembler
        self._outlet = outlet
        self._open = OpenTraces(waits)
        self._count = count
        self._on_bad_record = on_bad_record

    @property
    def open_traces(self) -> int:
        """How many traces are waited for."""
        return len(self._open)

    @property
    def open_bytes(self) -> int:
        """How many bytes open and lingering traces hold."""
        return self._open.bytes

    @property
    def due_at(self) -> float | None:
        """When the next trace is closed or forgotten."""
        return self._open.due_at

    @property
    def low_watermark(self) -> int | None:
        """The oldest record of a trace that is open or lingers."""
        return self._open.low_watermark

    async def replay(self, records: Sequence[Stored]) -> None:
        """Rebuild the open traces. Those closed meanwhile are assembled only if late pieces ask for it."""
        for number, record in enumerate(records):
            for trace, reason in self._apply(record, _ignore_bad):
                if reason == "bytes":  # its pieces are about to go
                    self._catch_up(trace)
            if number % _BATCH == 0:
                await asyncio.sleep(0)

    async def deliver(self, records: Sequence[Stored]) -> None:
        """Take new records; the turns they lead to are durable on return."""
        made: list[Outgoing] = []
        closed = 0
        for record in records:
            for trace, reason in self._apply(record, self._on_bad_record):
                self._count("", f"closed_{reason}", 1)
                made += self._news(trace)
                closed += 1
                if len(made) >= _BATCH or closed % _BATCH == 0:
                    await self._append(made)
        await self._append(made)

    async def _append(self, made: list[Outgoing]) -> None:
        if made:
            await self._outlet.append(made)
            made.clear()
        else:
            await asyncio.sleep(0)

    def _apply(
        self, record: Stored, on_bad: Callable[[Stored, BadInput], None]
    ) -> Iterator[tuple[OpenTrace, CloseReason]]:
        yield from self._open.advance(record.timestamp)
        if record.is_tick:
            return
        try:
            piece = _piece(record)
        except BadInput as error:
            on_bad(record, error)
            return
        yield from self._open.add((record.key or b"").decode("ascii"), piece, record.position, record.timestamp)

    def _news(self, trace: OpenTrace) -> Iterator[Outgoing]:
        """The turns of a trace that was just closed, without those it gave before."""
        last = trace.closings.pop()
        self._catch_up(trace)
        assembly = self._assemble(trace.pieces[:last])
        for (dialect, what), number in assembly.counts.items():
            self._count(dialect, what, number)
        if late := _late_feedback(assembly, trace):
            self._count("", "late_feedback", late)
        news = [each.turn for each in _unknown(assembly, trace)]
        return self._outlet.routed(news, whole=(each.turn for each in assembly.turns))

    def _catch_up(self, trace: OpenTrace) -> None:
        """Find out what the trace gave at earlier closings, before a restart."""
        for number in trace.closings:
            for _ in _unknown(self._assemble(trace.pieces[:number]), trace):
                pass
        trace.closings.clear()

    def _assemble(self, pieces: Sequence[Piece]) -> Assembly:
        try:
            return self._assembler.assemble(pieces)
        except Exception as error:  # noqa: BLE001 - a trace that hits a bug must not stop the partition for good
            frame = traceback.extract_tb(error.__traceback__)[-1]
            logger.error("a trace is left out: %s at %s:%s", type(error).__name__, frame.filename, frame.lineno)  # noqa: TRY400 - the message may hold judged text
            self._count("", "crashed", 1)
            return Assembly()


def _ignore_bad(_record: Stored, _error: BadInput) -> None:
    """Bad records were reported when they came."""


def _piece(record: Stored) -> Piece:
    signal = _SIGNALS.get(dict(record.headers).get("signal", b""))
    if signal is None:
        raise BadInput("the record does not say whether it holds traces or logs")
    if not record.key or not record.key.isascii():
        raise BadInput("the record names no trace")
    request_from_protobuf(record.value, signal)
    return Piece(signal, record.value)


_SIGNALS: dict[bytes, Signal] = {b"traces": "traces", b"logs": "logs"}


def _unknown(assembly: Assembly, trace: OpenTrace) -> Iterator[Assembled]:
    """The turns that the trace has not given yet, marking them as given.

    Late pieces may put a turn in other words, as when a wrapper tells the question better than the prompt did; it is
    the same turn if it is about the same span, unless nothing could be made of that span before.
    """
    for each in assembly.turns:
        turn = each.turn
        if turn.turn_id in trace.emitted or turn.span_id in trace.covered:
            continue
        trace.emitted[turn.turn_id] = len(turn.feedback)
        if turn.incomplete is None and turn.span_id is not None:
            trace.covered.add(turn.span_id)
        yield each


def _late_feedback(assembly: Assembly, trace: OpenTrace) -> int:
    """How much feedback has come for turns that the trace gave before: it reaches nobody. Counted once."""
    late = 0
    for turn in (each.turn for each in assembly.turns):
        had = trace.emitted.get(turn.turn_id)
        if had is not None and len(turn.feedback) > had:
            late += len(turn.feedback) - had
            trace.emitted[turn.turn_id] = len(turn.feedback)
    return late
