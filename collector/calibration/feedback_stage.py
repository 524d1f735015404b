"""The stage that joins feedback: folds over the labels log, and one index of what was judged lately.

Each partition of the labels log has one owner, which appends to it what became of its feedback. The evaluations are
read by every process that owns a partition, from as far back as feedback may wait, and only once feedback is there. A
kill loses nothing and joins nothing twice: records appended earlier are read before anything is joined again.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY, InitVar, dataclass, field

from collector.backoff import FailureLog
from collector.calibration.feedback_join import FeedbackJoin, JoinSettings
from collector.calibration.judged_subjects import JudgedSubjects, LogPlace
from collector.errors import BadInput
from collector.logs.log import Committed, Log, LogUnavailable, Record, RecordTooLarge, StoredRecord, UntimedFold
from collector.logs.whole_log import IncrementalReader, first_offsets
from collector.records.epochs import Fence, fence_at
from collector.records.feedback import (
    OPINIONS,
    FeedbackEntry,
    JoinedFeedback,
    ended_feedback,
    is_feedback,
    joined_record,
    parse_feedback_entry,
    repeated_record,
)
from collector.records.json import evaluation_from_json, label_to_json, readable
from collector.records.labels import label_of
from collector.records.references import Reference, reference_records
from collector.telemetry.drop_reasons import DropReason
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import FEEDBACK, FEEDBACK_WAITING
from evaluators.results import Evaluation, Label

GROUP = "feedback"
_BATCH = 200
_PREFIX = "feedback."
"""The name by which evaluators need it: the outcome `feedback.<name>`."""


@dataclass(eq=False, repr=False)
class FeedbackStage:
    """Opens the folds of the labels log, and joins in steps.

    `wanted` are the outcomes that evaluators need: feedback with such a name is sent on to them as a reference.
    """

    labels: Log
    evaluations: InitVar[Log]
    turns: Log
    settings: JoinSettings
    telemetry: Telemetry
    _: KW_ONLY
    wanted: frozenset[str] = frozenset()
    """A new configuration replaces them."""
    subjects: JudgedSubjects = field(default_factory=JudgedSubjects)
    every: float = 1.0
    clock: Callable[[], float] = time.time

    def __post_init__(self, evaluations: Log) -> None:
        self._evaluations = _EvaluationsReader(evaluations, self.subjects)
        self._folds: dict[int, FeedbackFold] = {}
        self._failures = FailureLog("joining feedback")
        for outcome in ("joined", "unmatched", "crowded_out", "duplicate", "unreadable"):
            self.telemetry.counter(FEEDBACK, outcome)
        self.telemetry.gauge(FEEDBACK_WAITING).set_function(
            lambda: sum(fold.join.waiting for fold in self._folds.values())
        )

    @asynccontextmanager
    async def open_fold(self, partition: int, committed: Committed | None) -> "AsyncGenerator[FeedbackFold]":
        """Open the fold of a partition. The results of its feedback are read ahead, to the end of the log."""
        fold = FeedbackFold(FeedbackJoin(self.settings), self._count)
        # From where the replay begins: a step may come before the replay has reached the end.
        async for batch in self.labels.read(partition, 0 if committed is None else committed.low_watermark):
            fold.read_ahead(batch)
        self._folds[partition] = fold
        try:
            yield fold
        finally:
            del self._folds[partition]

    async def run(self) -> None:
        """Join until cancelled."""
        while True:
            with self._failures.attempt(LogUnavailable):
                await self.step()
            await asyncio.sleep(self.every)

    async def step(self) -> None:
        """Join what can be joined now, and give up what has waited long enough. Raises LogUnavailable."""
        now = self.clock()
        for partition, fold in list(self._folds.items()):
            # Only once all is read: the rest of the log may hold feedback that was sent again.
            if fold.join.may_forget(now) and fold.next_offset >= await self.labels.end_offset(partition):
                await self._repeat(partition, fold, now)
                fold.join.forget(now)
        if not any(fold.join.waiting for fold in self._folds.values()):
            return
        keys = await self._evaluations.read_new(now - self.settings.wait)
        for partition, fold in list(self._folds.items()):
            await self._forward(fold.join.arrivals)
            fold.join.match(self.subjects, keys, now)
            due = list(fold.join.due(self.subjects, now))
            for first in range(0, len(due), _BATCH):
                await self._append(partition, fold, due[first : first + _BATCH])

    async def _repeat(self, partition: int, fold: "FeedbackFold", now: float) -> None:
        """Write the end of feedback once more, if it came again and is to be forgotten."""
        names = fold.join.to_repeat(now)
        for first in range(0, len(names), _BATCH):
            batch = names[first : first + _BATCH]
            await self.labels.confirm(GROUP)
            if self._folds.get(partition) is not fold:
                return
            await self.labels.append([repeated_record(each, partition) for each in batch])
            for each in batch:
                fold.join.close(each, fold.next_offset, now)

    async def _append(self, partition: int, fold: "FeedbackFold", batch: Sequence[JoinedFeedback]) -> None:
        records: list[Record] = []
        for feedback in batch:
            labels = await self._labels_of(feedback)
            records += [Record(label.evaluation_id.encode(), label_to_json(label)) for label in labels]
        records += [joined_record(feedback, partition) for feedback in batch]
        await self.labels.confirm(GROUP)
        if self._folds.get(partition) is not fold:
            return  # it is another process's by now
        await self.labels.append(records)
        for feedback in batch:
            fold.join.close(feedback.entry.feedback_id, fold.next_offset, self.clock())
            self._count(feedback.outcome)

    async def _labels_of(self, joined: JoinedFeedback) -> list[Label]:
        """The labels that an expert's feedback is: of the evaluation that it names, or of those by its evaluator."""
        if joined.entry.source != "expert" or joined.outcome != "joined":
            return []
        evaluations = [await self._evaluations.read(each) for each in self.subjects.evaluations_named(joined.entry)]
        labels = [
            _label(joined, evaluation, number, await self._evaluations.read(evaluation.shares or ""))
            for number, evaluation in enumerate(evaluations)
            if evaluation is not None
        ]
        return [label for label in labels if label is not None]

    async def _forward(self, entries: Sequence[FeedbackEntry]) -> None:
        """Send feedback on to the evaluators that ask for it; sent twice, it is one reference there."""
        references = [reference for entry in entries if (reference := _reference(entry, self.wanted)) is not None]
        records = [record for each in references for record in reference_records(each, self.turns)]
        if records:
            try:
                await self.turns.append(records)
            except RecordTooLarge:  # a text of some kilobytes: a log that refuses this refuses turns, too
                self.telemetry.drop("watch", DropReason.TOO_LARGE, len(references))

    def _count(self, outcome: str) -> None:
        self.telemetry.counter(FEEDBACK, outcome).inc()


class FeedbackFold(UntimedFold):
    """One partition of the labels log: what waits there, and what is known."""

    def __init__(self, join: FeedbackJoin, count: Callable[[str], None]) -> None:
        self.join = join
        self.next_offset = 0
        self._count = count

    @property
    def low_watermark(self) -> int | None:
        """The oldest record that is needed to know what waits and what came before."""
        return self.join.low_watermark

    def read_ahead(self, records: Sequence[StoredRecord]) -> None:
        """Remember which feedback has its end later in the log."""
        for record in records:
            if (name := ended_feedback(record)) is not None:
                self.join.expect(name)

    async def replay(self, records: Sequence[StoredRecord]) -> None:
        """Know again what waits."""
        for record in records:
            self._take(record, lambda _outcome: None)

    async def deliver(self, records: Sequence[StoredRecord]) -> None:
        """Take new feedback; it is joined in a step of the stage."""
        for record in records:
            self._take(record, self._count)

    def _take(self, record: StoredRecord, count: Callable[[str], None]) -> None:
        self.next_offset = record.offset + 1
        if (name := ended_feedback(record)) is not None:
            self.join.close(name, record.offset, record.timestamp)
        elif is_feedback(record):
            try:
                entry = parse_feedback_entry(record.value)
            except BadInput:
                count("unreadable")
                return
            if not self.join.add(entry, record.offset, record.timestamp):
                count("duplicate")


class _EvaluationsReader:
    """Reads the evaluations log into an index, each time the records since the last reading."""

    def __init__(self, log: Log, subjects: JudgedSubjects) -> None:
        self._log = log
        self._subjects = subjects
        self._reader: IncrementalReader | None = None
        self._fences: list[Fence] = []

    async def read_new(self, since: float) -> set[str]:
        """Read on, the first time from what the log took at `since` (s); gives the keys of what is new."""
        if self._reader is None:
            starts = await first_offsets(self._log, since)
            self._fences = [await fence_at(self._log, partition, start) for partition, start in enumerate(starts)]
            self._reader = IncrementalReader(self._log, starts)
        keys: set[str] = set()
        async for record in self._reader.records():
            if self._fences[record.partition].observe(record):
                keys.update(self._add(record))
        self._subjects.expire(since)
        return keys

    def _add(self, record: StoredRecord) -> tuple[str, ...]:
        if record.headers or not record.value:
            return ()
        if (evaluation := readable(evaluation_from_json, record.value)) is None:
            return ()
        return self._subjects.add(evaluation, LogPlace(record.partition, record.offset), record.timestamp)

    async def read(self, evaluation_id: str) -> Evaluation | None:
        """An evaluation that is in the index."""
        place = self._subjects.place_of(evaluation_id)
        if place is None:
            return None
        async for batch in self._log.read(place.partition, place.offset):
            return evaluation_from_json(batch[0].value)
        return None


def _label(joined: JoinedFeedback, evaluation: Evaluation, number: int, paid: Evaluation | None) -> Label | None:
    """An expert's feedback as a label. A person picked the evaluation, so it has no probability.

    `number` counts the evaluations that one piece of feedback is about: each label has an id of its own.
    """
    entry = joined.entry
    opinion = entry.label if entry.label in OPINIONS else None
    if opinion is None and joined.score is None and not entry.comment:
        return None
    label_id = entry.feedback_id if number == 0 else f"{entry.feedback_id}-{number}"
    fields = {"opinion": opinion, "score": joined.score, "note": entry.comment, "given_by": entry.author}
    return label_of(evaluation, label_id, entry.at or joined.received_at, paid, **fields)


def _reference(entry: FeedbackEntry, wanted: frozenset[str]) -> Reference | None:
    """The reference that gives feedback to evaluators; None if none asks for it, or it names no turn by an id."""
    name = f"{_PREFIX}{entry.name}"
    value = entry.label if entry.value is None else entry.value
    ids = {each: getattr(entry, each) for each in ("turn_id", "response_id", "trace_id", "conversation_id")}
    span = entry.spans[0] if len(entry.spans) == 1 else entry.span_id
    if name not in wanted or value is None or not (span or any(ids.values())):
        return None
    return Reference(reference_id=entry.feedback_id, tenant=entry.tenant, span_id=span, outcomes={name: value}, **ids)
