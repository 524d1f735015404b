"""The fold that makes turns from the traces of one partition of the spans log.

A record of the spans log has one *piece* of a trace: spans or log records that came in one request. A trace is *open*
while more pieces are awaited. When it *closes*, its turns are made and *emitted*: they are appended to the turns log.
The trace then *lingers* in memory, so that a late piece can open it again.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from operator import attrgetter
from typing import TypeVar

from collector.assemble.collect_trace import TracePiece
from collector.assemble.open_traces import CloseReason, Emitted, OpenTrace, OpenTraces
from collector.assemble.trace import Assembler, Assembly, entry_of
from collector.assemble.turns import AssembledTurn
from collector.assemble.unread.examination import ConversationIdWatch, UnreadTextWatch
from collector.assemble.unwanted_turns import make_noted_record
from collector.errors import BadInput
from collector.link.turn_router import RoutedRecord, TurnRouter
from collector.logs.journal.guard import GuardedPlace
from collector.logs.log import TICK, Log, Record, RecordTooLarge, StoredRecord, append_until_durable, place_of_number
from collector.otlp.decode import Signal, request_from_protobuf
from collector.records.feedback import FeedbackEntry, feedback_record
from collector.records.judged_spans import span_records
from collector.records.noted_turns import NotedTurn, has_note, noted_turn
from collector.records.tenants import in_tenant, tenant_in_key
from collector.records.turns import UNWANTED, turn_outcome
from collector.telemetry.drop_reasons import DropReason
from collector.telemetry.plain import fault_of
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import LATE_FEEDBACK, SPANS_READ, TRACES_CLOSED, TURNS_ASSEMBLED
from evaluators.cases import Turn
from evaluators.promises import FAULTS

logger = logging.getLogger(__name__)

_Appended = TypeVar("_Appended")

_TURN: Callable[[AssembledTurn], Turn] = attrgetter("turn")
_BATCH = 256
"""The most turns in one append, and the most traces that are assembled before other tasks get the event loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SideLogs:
    """The logs for the judged spans and for the feedback in traces. If a log is None, nothing is written for it.

    Comments in feedback are written only with `comments`.
    """

    judged_spans: Log | None = None
    labels: Log | None = None
    comments: bool = True


@dataclass(frozen=True, slots=True)
class GuardedTraces:
    """Finds traces to leave out, because their assembly ends the process again and again. `fatal` is their error."""

    partition: int
    place: GuardedPlace
    fatal: BadInput


@dataclass(eq=False, repr=False)
class AssembleFold:
    """Keeps the open traces of one partition, and makes turns from each trace that closes.

    Time passes only by the records' timestamps. Each record first closes the traces that are due at its timestamp, and
    then adds its piece, so a replay closes the same traces in the same order. By the process's clock, a replay
    would close traces differently, and turns would be judged twice.
    """

    assembler: Assembler
    router: TurnRouter
    traces: OpenTraces
    _: KW_ONLY
    telemetry: Telemetry
    on_bad_record: Callable[[StoredRecord, BadInput], None]
    guarded: GuardedTraces
    ids: ConversationIdWatch
    side_logs: SideLogs

    finishes_delivery = True

    def __post_init__(self) -> None:
        self._judged_spans: list[Record] = []
        self._guarded_place = self.guarded.place
        self._feedback: list[Record] = []
        self._counts = _Counts()
        self._text_watch = UnreadTextWatch(self.assembler, self.telemetry)
        self.due_at: float | None = None
        """When the next trace closes, or leaves memory after lingering."""
        self.low_watermark: int | None = None
        """The oldest record of a trace that is open or lingers."""
        self.metadata = self.traces.commit_text(0)
        """The committed state with which `OpenTraces.at` begins a replay."""

    @property
    def open_traces(self) -> int:
        """The number of open traces."""
        return len(self.traces)

    def open_trace_ids(self) -> list[tuple[int, str, float]]:
        """The first record's offset, the trace id and the begin of each open trace, in the order of the offsets."""
        still_open = (trace for trace in self.traces.traces() if trace.closed_at is None)
        return [(place_of_number(trace.position)[0], trace.trace_id, trace.first_at) for trace in still_open]

    def _note_state(self, records: Sequence[StoredRecord]) -> None:
        """Update `due_at`, `low_watermark` and `metadata` after a batch: only records change them."""
        if not records:
            return
        number, self.due_at = self.traces.low_watermark, self.traces.due_at
        self.low_watermark = None if number is None else place_of_number(number)[0]
        after = records[-1].offset + 1
        self.metadata = self.traces.commit_text(after if self.low_watermark is None else self.low_watermark)

    async def replay(self, records: Sequence[StoredRecord]) -> None:
        """Rebuild the open traces. A trace that closed before the restart is assembled only if a late piece arrives."""
        for number, record in enumerate(records):
            self.traces.use_past_limits(record.offset)
            for trace, reason in self._apply(record, _ignore_bad):
                if reason == "bytes":  # the pieces of the trace are dropped next
                    self._read_earlier_closings(trace)
            if number % _BATCH == 0:
                await asyncio.sleep(0)
        self._note_state(records)

    async def deliver(self, records: Sequence[StoredRecord]) -> None:
        """Add new records. On return the turns of the traces that these records close are durable."""
        outgoing: list[RoutedRecord] = []
        self._feedback.clear()
        if records:
            self.traces.use_configured_limits(records[0].offset)
        closed = 0
        for record in records:
            for trace, reason in self._apply(record, self.on_bad_record):
                self._counts.closed[reason,] += 1
                outgoing += self._close(trace, reason)
                closed += 1
                if len(outgoing) >= _BATCH or closed % _BATCH == 0:
                    await self._append(outgoing)
        if closed:
            await self._append(outgoing)
        self._note_state(records)

    async def _append(self, outgoing: list[RoutedRecord]) -> None:
        """Append feedback and spans, then turns. Readers recognize records that were appended twice after a crash."""
        self._counts.flush(self.telemetry)
        if self._feedback and self.side_logs.labels is not None:
            append = partial(append_until_durable, self.side_logs.labels)
            await self._append_what_fits(append, self._feedback, DropReason.FEEDBACK_TOO_LARGE)
        if not outgoing:
            await asyncio.sleep(0)
            return
        if self._judged_spans and self.side_logs.judged_spans is not None:
            append = partial(append_until_durable, self.side_logs.judged_spans)
            await self._append_what_fits(append, self._judged_spans, DropReason.SPAN_TOO_LARGE)
        await self._append_what_fits(self.router.append, outgoing, DropReason.TOO_LARGE)

    async def _append_what_fits(
        self, append: Callable[[list[_Appended]], Awaitable[None]], records: list[_Appended], reason: DropReason
    ) -> None:
        """Append records, and leave out any that is too large for the log: it would stop the partition for good."""
        try:
            await append(records)
        except RecordTooLarge:
            for record in records:
                try:
                    await append([record])
                except RecordTooLarge as error:  # a traceback would add nothing
                    logger.error("a record is left out (%s): %s", reason, error)  # noqa: TRY400
                    self.telemetry.drop("assemble", reason)
        records.clear()

    def _apply(
        self, record: StoredRecord, on_bad: Callable[[StoredRecord, BadInput], None]
    ) -> Iterator[tuple[OpenTrace, CloseReason]]:
        """Let time pass up to a record, then add the record's piece. Yields the traces that close, with the reason."""
        yield from self.traces.advance(record.timestamp)
        if record.headers == TICK:
            return
        try:
            piece = parse_piece(record)
        except BadInput as error:
            on_bad(record, error)
            return
        yield from self.traces.add((record.key or b"").decode("ascii"), piece, piece.number, record.timestamp)

    def _close(self, trace: OpenTrace, reason: CloseReason) -> Sequence[RoutedRecord]:
        """The records for the turns of a trace that has just closed, without the turns that it has emitted before."""
        is_fatal = self._guarded_place.is_fatal(trace.position)  # the trace ended the process again and again
        tenant = tenant_in_key(trace.trace_id)
        # The content of a trace need not be read if no monitor selects the trace's only turn.
        may_stay_unread = reason in {"quiet", "age"} and not self.assembler.agent_runs and self.router.selects
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
            trace.unread_closings.append(last)  # the trace is assembled only if a late piece arrives
            new_turns = [*map(_TURN, assembly.turns)]
        else:
            earlier = frozenset(trace.emitted.turn_ids) if assembly.feedback and trace.emitted else frozenset[str]()
            new_turns = _take_new_turns(assembly, trace)
            for turn_id, entry in _take_new_feedback(assembly, trace) if assembly.feedback else ():
                self._feedback.append(feedback_record(entry, comments=self.side_logs.comments))
                self._counts.late_feedback += turn_id is None or turn_id in earlier
            if self.side_logs.judged_spans is not None and new_turns:
                wanted = {turn.span_id for turn in new_turns if turn.span_id and self.router.is_wanted(turn)}
                pieces = [piece.value for piece in trace.pieces if piece.signal == "traces"]
                self._judged_spans += span_records(trace.trace_id.encode(), pieces, wanted)
        for turn in new_turns:
            self._counts.turns[turn.dialect or "", *turn_outcome(turn)] += 1
        return self.router.route(new_turns, whole=map(_TURN, assembly.turns))

    def _find_noted_turn(self, trace: OpenTrace, piece: TracePiece, may_stay_unread: bool) -> NotedTurn | None:
        """Find the turn in the receiver's note on a trace's only piece; None if the trace must be assembled."""
        if not (may_stay_unread and has_note(piece.value)) or trace.last_at >= self.ids.next_at:
            return None
        turn = noted_turn(piece.value)
        return None if self.router.is_key_wanted(turn.conversation, tenant_in_key(trace.trace_id)) else turn

    def _close_noted(self, trace: OpenTrace, noted: NotedTurn) -> Sequence[RoutedRecord]:
        """The record of the turn in a piece's note. Assembling the trace would give the same record."""
        made = make_noted_record(noted, tenant_in_key(trace.trace_id))
        self.ids.note_ids(trace.trace_id, (made.conversation_id,))
        for dialect in noted.spans.values():
            self._counts.spans[dialect,] += 1
        self._counts.turns[noted.dialect, *UNWANTED] += 1
        return [RoutedRecord(made.record, unwanted=self.router.selects)]

    def _examine(self, trace: OpenTrace, pieces: int, tenant: str, assembly: Assembly) -> None:
        """From time to time, look in a trace for texts or conversation ids that other settings would read."""
        turns = map(_TURN, assembly.turns)
        is_read = any(turn.error is not None or turn.incomplete in {None, "unwanted"} for turn in turns)
        if is_read:
            self.ids.note_ids(trace.trace_id, [turn.turn.conversation_id for turn in assembly.turns])
        watch = self.ids if is_read else self._text_watch
        if trace.last_at < watch.next_at or (is_read and tenant):
            return  # the conversation ids in a tenant's turns have a prefix, unlike those in its spans
        try:
            with self._guarded_place.slot.at(trace.position):
                watch.examine(trace.trace_id, trace.pieces[:pieces], trace.last_at)
        except FAULTS as error:  # the search must not stop the partition
            logger.error("a trace cannot be searched for missing settings: %s", type(error).__name__)  # noqa: TRY400

    def _read_earlier_closings(self, trace: OpenTrace) -> None:
        """Assemble the trace as it was at each of `unread_closings`, and mark these turns and feedback as emitted."""
        numbers, trace.unread_closings = trace.unread_closings, []
        for number in numbers if not self._guarded_place.is_fatal(trace.position) else ():
            assembly = self._assemble(trace, number, tenant_in_key(trace.trace_id))
            _take_new_turns(assembly, trace)
            for _ in _take_new_feedback(assembly, trace):
                pass

    def _assemble(self, trace: OpenTrace, pieces: int, tenant: str, *, selects: bool = False) -> Assembly:
        """Assemble the first pieces of a trace, `pieces` of them. With `selects`, unwanted content is not read."""

        def is_wanted(turn: Turn) -> bool:
            return self.router.is_wanted(in_tenant(turn, tenant))

        try:
            with self._guarded_place.slot.at(trace.position):
                assembly = self.assembler.assemble(trace.pieces[:pieces], is_wanted=is_wanted if selects else None)
            if self._guarded_place.suspects is not None:
                self._guarded_place.survived(trace.position)
            return _in_tenant(assembly, tenant)
        except FAULTS as error:  # a trace that hits a bug must not stop the partition for good
            logger.error("a trace is left out: %s", fault_of(error))  # noqa: TRY400 - the message may hold judged text
            self.telemetry.drop("assemble", DropReason.CRASHED)
            return Assembly()

    def _leave_out(self, trace: OpenTrace, pieces: int) -> None:
        """Dead-letter the first pieces of a trace, `pieces` of them, because its assembly ends the process."""
        logger.error("assemble: the trace of record %d is left out: %s", trace.position, self.guarded.fatal)
        for piece in trace.pieces[:pieces]:
            headers, key = (("signal", piece.signal.encode()),), trace.trace_id.encode()
            offset, number = place_of_number(piece.number)
            record = StoredRecord(self.guarded.partition, offset, trace.opened_at, key, piece.value, headers, number)
            self.on_bad_record(record, self.guarded.fatal)


class _Counts:
    """Counts that go to the metrics together, before the next append: one increment costs as much as reading a span."""

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
    """The piece of a trace in a record of the spans log. Raises BadInput."""
    if not record.key or not record.key.isascii():
        raise BadInput("the record's key is not a trace id")
    signal = _SIGNALS.get(dict(record.headers).get("signal", b""))
    if signal is None:
        raise BadInput("the record's header `signal` is neither traces nor logs")
    if signal == "traces" and has_note(record.value):
        # The receiver has checked the request already.
        if noted_turn(record.value).trace.encode() != record.key.partition(b"@")[0]:
            raise BadInput("the note is about another trace")
    else:
        request_from_protobuf(record.value, signal)
    return TracePiece(signal, record.value, record.number)


_SIGNALS: dict[bytes, Signal] = {b"traces": "traces", b"logs": "logs"}


def _take_new_turns(assembly: Assembly, trace: OpenTrace) -> list[Turn]:
    """Find the turns that the trace has not emitted yet, and mark them as emitted.

    Late pieces may change a turn's text, and with it the turn's id: an enclosing span may have the question without its
    template. So if a complete or an `unwanted` turn about a span was emitted, no other turn about the same span is
    emitted.
    """
    new: list[Turn] = []
    for assembled in assembly.turns:
        turn = assembled.turn
        emitted = trace.emitted = trace.emitted or Emitted()
        if turn.turn_id in emitted.turn_ids or turn.span_id in emitted.covered_spans:
            continue
        if turn.incomplete == "unwanted" and not assembled.models.isdisjoint(emitted.covered_spans):
            continue  # a turn with the content of this call was emitted before
        emitted.turn_ids.add(turn.turn_id)
        if turn.incomplete in {None, "unwanted"} and turn.span_id is not None:
            emitted.covered_spans.add(turn.span_id)
        new.append(turn)
    return new


def _take_new_feedback(assembly: Assembly, trace: OpenTrace) -> Iterator[tuple[str | None, FeedbackEntry]]:
    """Find the feedback that the trace has not emitted yet, each with its turn's id, and mark it as emitted."""
    for feedback in assembly.feedback:
        emitted = trace.emitted = trace.emitted or Emitted()
        entry = entry_of(feedback, tenant_in_key(trace.trace_id))
        if entry is not None and entry.feedback_id not in emitted.feedback_ids:
            emitted.feedback_ids.add(entry.feedback_id)
            yield feedback.turn_id, entry
