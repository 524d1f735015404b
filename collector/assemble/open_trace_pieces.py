"""Finds the records of the spans log that belong to open traces, by the stage's own fold. For copies of the log."""

from collections.abc import Iterable
from dataclasses import dataclass

from collector.assemble.fold import parse_piece
from collector.assemble.open_traces import OpenTraces, TraceLimits
from collector.errors import BadInput
from collector.logs.log import Committed, StoredRecord


@dataclass(frozen=True, slots=True)
class OpenPieces:
    """The numbers of records that are still needed (`StoredRecord.number`).

    `closed` are pieces whose turns have been made; late pieces are assembled together with them. `open` are pieces
    whose turns have not been made.
    """

    closed: frozenset[int]
    open: frozenset[int]


def open_pieces(records: Iterable[StoredRecord], limits: TraceLimits, committed: Committed | None = None) -> OpenPieces:
    """Sort out the records that were delivered, from the low watermark on."""
    traces = OpenTraces.at(committed, limits)
    for record in records:
        traces.use_past_limits(record.offset)
        for _ in traces.advance(record.timestamp):
            pass
        if record.is_tick:
            continue
        try:
            piece = parse_piece(record)
        except BadInput:
            continue  # it was dead-lettered
        for _ in traces.add((record.key or b"").decode("ascii"), piece, record.number, record.timestamp):
            pass
    closed: set[int] = set()
    opened: set[int] = set()
    for trace in traces.traces():
        number = trace.unread_closings[-1] if trace.unread_closings else 0
        closed.update(trace_piece.number for trace_piece in trace.pieces[:number])
        opened.update(trace_piece.number for trace_piece in trace.pieces[number:])
    return OpenPieces(frozenset(closed), frozenset(opened))
