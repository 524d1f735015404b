"""The open traces of a partition of the spans log, and the turns of those that close."""

import asyncio
import logging
import math
import traceback
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import TypeVar

from collector.assemble.collect_trace import TracePiece
from collector.assemble.open_traces import CloseReason, Emitted, OpenTrace, OpenTraces
from collector.assemble.thin_turns import make_noted_record
from collector.assemble.trace import Assembler, Assembly, entry_of
from collector.assemble.turns import AssembledTurn
from collector.assemble.unread.examination import ConversationIdWatch, UnreadTextWatch
from collector.errors import BadInput
from collector.link.turn_router import RoutedRecord, TurnRouter
from collector.logs.journal.guard import GuardedPlace
from collector.logs.log import (
    TICK,
    Committed,
    Log,
    Record,
    RecordTooLarge,
    StoredRecord,
    append_until_durable,
    place_of_number,
)
from collector.otlp.decode import Signal, request_from_protobuf
from collector.records.feedback import FeedbackEntry, feedback_record, without_comment
from collector.records.judged_spans import span_records
from collector.records.noted_turns import THIN, NotedTurn, has_note, noted_turn
from collector.records.tenants import in_tenant, tenant_in_key
from collector.records.turns import UNWANTED, turn_outcome
from collector.telemetry.drop_reasons import DropReason
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import LATE_FEEDBACK, SPANS_READ, TRACES_CLOSED, TURNS_ASSEMBLED
from evaluators.cases import Turn

logger = logging.getLogger(__name__)

_Appended = TypeVar("_Appended")

_TURN: Callable[[AssembledTurn], Turn] = attrgetter("turn")
_BATCH = 256
"""The most turns in one append, and the most traces that are assembled before other tasks get the event loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SideLogs:
    """The logs for the judged spans and the feedback of traces; comments in feedback need `comments`. Without a log,
    nothing is written for it.
    """

    judged_spans: Log | None = None
    labels: Log | None = None
    comments: bool = True


@dataclass(frozen=True, slots=True)
class GuardedTraces:
    """Guards the traces of a partition while they are assembled; `fatal` says why a trace is left out."""

    partition: int
    place: GuardedPlace
    fatal: BadInput


class AssembleFold:
    """The open traces of one partition of the spans log, and the turns of those that close.

    Time is the time of the records, and moves before a record is added, so a replay closes the same traces in the same
    order. By the process's clock, other traces would close after a restart, and their turns would be judged twice.
    """

    def __init__(
        self,
        assembler: Assembler,
        router: TurnRouter,
        open_traces: OpenTraces,
        *,
        telemetry: Telemetry,
        on_bad_record: Callable[[StoredRecord, BadInput], None],
        guarded: GuardedTraces,
        ids: ConversationIdWatch,
        side_logs: SideLogs,
    ) -> None:
        self._side_logs = side_logs
        self._spans: list[Record] = []
        self._assembler = assembler
        self._router = router
        self._open_traces = open_traces
        self._telemetry = telemetry
        self._on_bad_record = on_bad_record
        self._guarded = guarded
        self._traces = guarded.place
        self._feedback: list[Record] = []
        self._counts = _Counts()
        self._unread = UnreadTextWatch(assembler, telemetry)
        self._ids = ids
        self.due_at: float | None = None
        """When the next trace is closed or released."""
        self.low_watermark: int | None = None
        """The oldest record of a trace that is open or lingers."""
        self.metadata = repr(open_traces.time)
        """The time of the log at the low watermark; `time_in` reads it."""

    @property
    def open_traces(self) -> int:
        """The number of open traces."""
        return len(self._open_traces)

    def open_trace_ids(self) -> list[tuple[int, str]]:
        """The open traces in the order of the offsets where they begin."""
        still_open = (trace for trace in self._open_traces.traces() if trace.closed_at is None)
        return [(place_of_number(trace.position)[0], trace.trace_id) for trace in still_open]

    def _note_state(self) -> None:
        """Update the public state, once for each batch: only records change it, and it is read often."""
        number, self.due_at = self._open_traces.low_watermark, self._open_traces.due_at
        self.metadata = repr(self._open_traces.time)
        self.low_watermark = None if number is None else place_of_number(number)[0]

    async def replay(self, records: Sequence[StoredRecord]) -> None:
        """Rebuild the open traces. Traces closed meanwhile are only assembled if late pieces of them arrive."""
        for number, record in enumerate(records):
            for trace, reason in self._apply(record, _ignore_bad):
                if reason == "bytes":  # its pieces are dropped next
                    self._read_earlier_closings(trace)
            if number % _BATCH == 0:
                await asyncio.sleep(0)
        self._note_state()

    async def deliver(self, records: Sequence[StoredRecord]) -> None:
        """Add new records; the turns of the traces that they close are durable on return."""
        outgoing: list[RoutedRecord] = []
        self._feedback.clear()
        closed = 0
        for record in records:
            for trace, reason in self._apply(record, self._on_bad_record):
                self._counts.closed[reason,] += 1
                outgoing += self._close(trace, reason)
                closed += 1
                if len(outgoing) >= _BATCH or closed % _BATCH == 0:
                    await self._append(outgoing)
        if closed:
            await self._append(outgoing)
        self._note_state()

    async def _append(self, outgoing: list[RoutedRecord]) -> None:
        """Append spans and feedback, then turns. Their readers recognize records that a crash made the process append
        twice.
        """
        self._counts.flush(self._telemetry)
        if self._feedback and self._side_logs.labels is not None:
            append = partial(append_until_durable, self._side_logs.labels)
            await self._append_what_fits(append, self._feedback, DropReason.FEEDBACK_TOO_LARGE)
        if not outgoing:
            await asyncio.sleep(0)
            return
        if self._spans and self._side_logs.judged_spans is not None:
            append = partial(append_until_durable, self._side_logs.judged_spans)
            await self._append_what_fits(append, self._spans, DropReason.SPAN_TOO_LARGE)
        await self._append_what_fits(self._router.append, outgoing, DropReason.TOO_LARGE)

    async def _append_what_fits(
        self, append: Callable[[list[_Appended]], Awaitable[None]], records: list[_Appended], reason: DropReason
    ) -> None:
        """Append records, except one that the log can never take: it would stop the partition for good."""
        try:
            await append(records)
        except RecordTooLarge:
            for record in records:
                try:
                    await append([record])
                except RecordTooLarge as error:  # the traceback tells nothing
                    logger.error("a record is left out (%s): %s", reason, error)  # noqa: TRY400
                    self._telemetry.drop("assemble", reason)
        records.clear()

    def _apply(
        self, record: StoredRecord, on_bad: Callable[[StoredRecord, BadInput], None]
    ) -> Iterator[tuple[OpenTrace, CloseReason]]:
        yield from self._open_traces.advance(record.timestamp)
        if record.headers == TICK:
            return
        try:
            piece = parse_piece(record)
        except BadInput as error:
            on_bad(record, error)
            return
        yield from self._open_traces.add((record.key or b"").decode("ascii"), piece, piece.offset, record.timestamp)

    def _close(self, trace: OpenTrace, reason: CloseReason) -> Sequence[RoutedRecord]:
        """The turns of a trace that was just closed, without those emitted before."""
        is_fatal = self._traces.is_fatal(trace.position)  # it ended the process again and again
        tenant = tenant_in_key(trace.trace_id)
        may_stay_unread = reason in {"quiet", "age"} and not self._assembler.agent_runs and self._router.selects
        if trace.unread_closings == [1] and trace.emitted is None and not is_fatal:
            noted = self._find_noted_turn(trace, trace.pieces[0], may_stay_unread)
            if noted is not None:
                return self._close_noted(trace, noted)
        last = trace.unread_closings.pop()
        if is_fatal:
            trace.unread_closings.clear()
            self._leave_out(trace, last)
            return ()
        selects = may_stay_unread and not trace.may_have_turns
        if trace.unread_closings:
            self._read_earlier_closings(trace)
        assembly = self._assemble(trace, last, tenant, selects=selects)
        self._examine(trace, last, tenant, assembly)
        for dialect, number in assembly.spans.items():
            self._counts.spans[dialect,] += number
        if assembly.at_a_glance:
            trace.unread_closings.append(last)  # as after a restart, it is assembled only if a late piece arrives
            new_turns = [*map(_TURN, assembly.turns)]
        else:
            earlier = frozenset(trace.emitted.turn_ids) if assembly.feedback and trace.emitted else frozenset[str]()
            new_turns = _find_new_turns(assembly, trace)
            for turn_id, entry in _find_new_feedback(assembly, trace) if assembly.feedback else ():
                self._feedback.append(feedback_record(entry if self._side_logs.comments else without_comment(entry)))
                self._counts.late_feedback += turn_id is None or turn_id in earlier
            if self._side_logs.judged_spans is not None and new_turns:
                wanted = {turn.span_id for turn in new_turns if turn.span_id and self._router.is_wanted(turn)}
                pieces = [piece.value for piece in trace.pieces if piece.signal == "traces"]
                self._spans += span_records(trace.trace_id.encode(), pieces, wanted)
        for turn in new_turns:
            self._counts.turns[turn.dialect or "", *turn_outcome(turn)] += 1
        return self._router.route(new_turns, whole=map(_TURN, assembly.turns))

    def _find_noted_turn(self, trace: OpenTrace, piece: TracePiece, may_stay_unread: bool) -> NotedTurn | None:
        """Find the turn that a trace's only piece notes; None if the trace must be assembled."""
        if not (piece.thin or (may_stay_unread and has_note(piece.value))) or trace.last_at >= self._ids.next_at:
            return None
        turn = noted_turn(piece.value)
        if piece.thin:
            return None if self._side_logs.judged_spans is not None else turn
        return None if self._router.is_key_wanted(turn.conversation, tenant_in_key(trace.trace_id)) else turn

    def _close_noted(self, trace: OpenTrace, noted: NotedTurn) -> Sequence[RoutedRecord]:
        """The turn of a trace's only piece, equal to what assembling gives."""
        made = make_noted_record(noted, tenant_in_key(trace.trace_id))
        self._ids.see(trace.trace_id, (made.conversation_id,))
        for dialect in noted.spans.values():
            self._counts.spans[dialect,] += 1
        self._counts.turns[noted.dialect, *UNWANTED] += 1
        return [RoutedRecord(made.record, unwanted=self._router.selects)]

    def _examine(self, trace: OpenTrace, pieces: int, tenant: str, assembly: Assembly) -> None:
        is_read = False
        for turn in map(_TURN, assembly.turns):
            is_read = is_read or turn.error is not None or turn.incomplete in {None, "unwanted"}
        if is_read:
            self._ids.see(trace.trace_id, [turn.turn.conversation_id for turn in assembly.turns])
        watch = self._ids if is_read else self._unread
        if trace.last_at < watch.next_at or (is_read and tenant):
            return  # the turns of a tenant have other ids
        try:
            with self._traces.slot.at(trace.position):
                watch.look(trace.trace_id, trace.pieces[:pieces], trace.last_at)
        except Exception as error:  # noqa: BLE001 - an explanation must not stop the partition
            logger.error("a trace is not examined for what the configuration lacks: %s", type(error).__name__)  # noqa: TRY400

    def _read_earlier_closings(self, trace: OpenTrace) -> None:
        """Find the turns that the trace emitted at earlier closings, before a restart."""
        numbers, trace.unread_closings = trace.unread_closings, []
        for number in numbers if not self._traces.is_fatal(trace.position) else ():
            assembly = self._assemble(trace, number, tenant_in_key(trace.trace_id))
            _find_new_turns(assembly, trace)
            for _ in _find_new_feedback(assembly, trace):
                pass

    def _assemble(self, trace: OpenTrace, pieces: int, tenant: str, *, selects: bool = False) -> Assembly:
        """The turns of a trace's first pieces. If the stage `selects`, one whose turn is unwanted may stay unread."""

        def is_wanted(turn: Turn) -> bool:
            return self._router.is_wanted(in_tenant(turn, tenant))

        try:
            with self._traces.slot.at(trace.position):
                assembly = self._assembler.assemble(trace.pieces[:pieces], is_wanted=is_wanted if selects else None)
            if self._traces.suspects is not None:
                self._traces.survived(trace.position)
            return _in_tenant(assembly, tenant)
        except Exception as error:  # noqa: BLE001 - a trace that hits a bug must not stop the partition for good
            frame = traceback.extract_tb(error.__traceback__)[-1]
            logger.error("a trace is left out: %s at %s:%s", type(error).__name__, frame.filename, frame.lineno)  # noqa: TRY400 - the message may hold judged text
            self._telemetry.drop("assemble", DropReason.CRASHED)
            return Assembly()

    def _leave_out(self, trace: OpenTrace, pieces: int) -> None:
        """Dead-letter the records of a trace that ends the process."""
        logger.error("assemble: the trace of record %d is left out: %s", trace.position, self._guarded.fatal)
        for piece in trace.pieces[:pieces]:
            headers = THIN if piece.thin else (("signal", piece.signal.encode()),)
            key = trace.trace_id.encode()
            offset, number = place_of_number(piece.offset)
            record = StoredRecord(self._guarded.partition, offset, trace.opened_at, key, piece.value, headers, number)
            self._on_bad_record(record, self._guarded.fatal)


def time_in(committed: Committed | None) -> float:
    """The time of the log at a committed low watermark (s since the epoch); 0 where no fold has written it."""
    try:
        time = float(committed.metadata) if committed is not None else 0.0
    except ValueError:
        return 0.0
    return time if math.isfinite(time) else 0.0


class _Counts:
    """Counts that are added together with the next append, since a counter costs as much as looking at a span."""

    def __init__(self) -> None:
        self.closed, self.spans, self.turns = _Counter(int), _Counter(int), _Counter(int)
        self.late_feedback = 0

    def flush(self, telemetry: Telemetry) -> None:
        for series, counts in ((TRACES_CLOSED, self.closed), (SPANS_READ, self.spans), (TURNS_ASSEMBLED, self.turns)):
            for labels, number in counts.items():
                telemetry.counter(series, *labels).inc(number)
            counts.clear()
        if self.late_feedback:
            telemetry.counter(LATE_FEEDBACK).inc(self.late_feedback)
            self.late_feedback = 0


_Counter = defaultdict[tuple[str, ...], int]


def _in_tenant(assembly: Assembly, tenant: str) -> Assembly:
    turns = [
        assembled if (turn := in_tenant(assembled.turn, tenant)) is assembled.turn else assembled._replace(turn=turn)
        for assembled in assembly.turns
    ]
    return assembly._replace(turns=tuple(turns))


def _ignore_bad(_record: StoredRecord, _error: BadInput) -> None:
    """Ignore a bad record: it was reported when it was first read."""


def parse_piece(record: StoredRecord) -> TracePiece:
    """The piece of a trace that a record of the spans log holds. Raises BadInput."""
    if not record.key or not record.key.isascii():
        raise BadInput("the record's key is not a trace id")
    if record.headers == THIN:
        noted_turn(record.value)
        return TracePiece("traces", record.value, record.number, thin=True)
    signal = _SIGNALS.get(dict(record.headers).get("signal", b""))
    if signal is None:
        raise BadInput("the record's header `signal` is neither traces, logs nor thin")
    if signal == "traces" and has_note(record.value):
        # The receiver has checked the request already.
        if noted_turn(record.value).trace.encode() != record.key.partition(b"@")[0]:
            raise BadInput("the note is about another trace")
    else:
        request_from_protobuf(record.value, signal)
    return TracePiece(signal, record.value, record.number)


_SIGNALS: dict[bytes, Signal] = {b"traces": "traces", b"logs": "logs"}


def _find_new_turns(assembly: Assembly, trace: OpenTrace) -> list[Turn]:
    """The turns that the trace has not emitted yet; they are marked as emitted.

    Late pieces may change the text of a turn, as when an enclosing span has the question without its template. It is
    still the same turn if it is about the same span, unless that span's turn was incomplete before.
    """
    new: list[Turn] = []
    for assembled in assembly.turns:
        turn = assembled.turn
        emitted = trace.emitted = trace.emitted or Emitted()
        if turn.turn_id in emitted.turn_ids or turn.span_id in emitted.covered_spans:
            continue
        if turn.incomplete == "unwanted" and not assembled.models.isdisjoint(emitted.covered_spans):
            continue  # the call came whole before
        emitted.turn_ids.add(turn.turn_id)
        if turn.incomplete in {None, "unwanted"} and turn.span_id is not None:
            emitted.covered_spans.add(turn.span_id)
        new.append(turn)
    return new


def _find_new_feedback(assembly: Assembly, trace: OpenTrace) -> Iterator[tuple[str | None, FeedbackEntry]]:
    """The feedback that the trace has not emitted yet, each with its turn; it is marked as emitted."""
    for feedback in assembly.feedback:
        emitted = trace.emitted = trace.emitted or Emitted()
        entry = entry_of(feedback, tenant_in_key(trace.trace_id))
        if entry is not None and entry.feedback_id not in emitted.feedback_ids:
            emitted.feedback_ids.add(entry.feedback_id)
            yield feedback.turn_id, entry
