"""Dead letters: what could not be processed, in a log of its own, with reason, stage, offset and attempts.

An offset is committed only after its dead letters are durable, so that none is lost; a letter written twice has the
same id. Too many of them, in a row or in share, mean that something else is wrong: then the stage stops.
"""

import base64
import hashlib
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY, InitVar, dataclass, field, fields, replace
from itertools import repeat
from operator import attrgetter, itemgetter
from typing import Any, Literal, TypeAlias

import orjson
from pydantic import Field, TypeAdapter, ValidationError

from collector.backoff import Backoff
from collector.durations import Seconds
from collector.errors import BadInput, EvalstreamError
from collector.logs.log import (
    TICK,
    Committed,
    Fold,
    FoldWrapper,
    Log,
    LogUnavailable,
    OpenFold,
    Record,
    RecordTooLarge,
    StoredRecord,
    UnreadableRecords,
)
from collector.logs.whole_log import read_records
from collector.records.ready_made import Incoming
from collector.section import Section
from collector.telemetry.drop_reasons import DropReason
from collector.telemetry.logging import SparseLog
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import DEAD_LETTERS
from collector.wording import plural

Stage = Literal["receive", "assemble", "link", "evaluate", "export", "watch", "page"]
State = Literal["dead", "redriven"]

logger = logging.getLogger(__name__)

_LONGEST = 500
_HEADERS = attrgetter("headers")


class DeadLetterSettings(Section):
    """The limits on dead letters, and the stored parts of each."""

    max_consecutive: int = Field(default=1000, ge=1)
    """Dead letters in a row after which a stage stops."""
    max_ratio: float = Field(default=0.5, gt=0, le=1)
    """Share of dead letters among the last `window` records above which a stage stops."""
    window: int = Field(default=10_000, ge=10)
    """The number of records for `max_ratio`."""
    keep_values: bool | None = None
    """Keep what could not be processed, so it can be processed again. It may hold personal data, so by default nothing
    is kept while texts are redacted or not stored."""
    max_ends: int = Field(default=3, ge=2)
    """If the process ends this many times in a row while it processes one record (killed, out of memory, or standing
    still), the record is dead-lettered, and the next start continues without it."""
    stall_after: Seconds = Field(default=60.0, gt=0)
    """A process that one record holds for so long ends with status 70, for a supervisor to start again."""

    def keeping(self, default: bool) -> "DeadLetterSettings":
        """The settings with `keep_values` decided: `default` where the configuration does not say."""
        return self if self.keep_values is not None else self.model_copy(update={"keep_values": default})


class UnreadableBatch(BadInput):
    """Records of a topic that cannot be read: what they held is not known here."""

    secret = True


class TooManyDeadLetters(EvalstreamError):
    """More records than the configuration allows cannot be processed: the stage stops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """One record that could not be processed.

    `source` is the log or topics it came from. `position` is the offset there; the stored JSON has this name. `value`
    and `key` are base64, None if they are not stored. `at` is when the log appended the record, in seconds since the
    epoch. `reason` is one sentence without the content. `signal` is what a message of a source topic holds.
    `piece` is the record's number, from 0, among those that shared the one at `position`.
    """

    letter_id: str
    stage: Stage
    source: str
    partition: int
    position: int
    at: float
    reason: str
    kind: str
    attempts: int = 1
    size: int = 0
    key: str | None = None
    value: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    signal: Incoming | None = None
    state: State = "dead"
    piece: int = 0


_ADAPTER = TypeAdapter(DeadLetter)
_ATTEMPTS = "attempts"


def letter_of(
    stage: Stage, source: str, record: StoredRecord, error: BadInput, *, keep: bool, signal: Incoming | None = None
) -> DeadLetter:
    """The dead letter of a record. With `keep`, all of the record is in it."""
    where = f"{stage}\x1f{source}\x1f{record.partition}\x1f{record.offset}"
    if record.piece:
        where += f"\x1f{record.piece}"
    headers = dict(record.headers)
    attempts = headers.pop(_ATTEMPTS, b"0")
    return DeadLetter(
        letter_id=hashlib.sha256(where.encode()).hexdigest()[:16],
        stage=stage, source=source, signal=signal,
        partition=record.partition, position=record.offset, piece=record.piece, at=record.timestamp,
        reason=str(error)[:_LONGEST], kind=type(error).__name__,
        attempts=(int(attempts) if attempts.isdigit() and len(attempts) < 6 else 0) + 1,
        size=len(record.value),
        key=_base64(record.key) if keep and record.key is not None else None,
        value=_base64(record.value) if keep else None,
        headers=tuple((name, _base64(value)) for name, value in headers.items()) if keep else (),
    )  # fmt: skip


def record_of(letter: DeadLetter) -> Record | None:
    """The original record, to be appended again; None if it was not stored."""
    if letter.value is None:
        return None
    headers = tuple((name, base64.b64decode(value)) for name, value in letter.headers)
    key = None if letter.key is None else base64.b64decode(letter.key)
    return Record(key, base64.b64decode(letter.value), (*headers, (_ATTEMPTS, str(letter.attempts).encode())))


def letter_to_json(letter: DeadLetter) -> bytes:
    """One line of JSON, without the line end; `piece` only where several records had shared one."""
    if letter.piece:
        return orjson.dumps(letter)
    return orjson.dumps({field.name: getattr(letter, field.name) for field in fields(letter) if field.name != "piece"})


async def letters_in(log: Log) -> AsyncIterator[DeadLetter]:
    """The newest version of each letter in the log, in the order of the first versions."""
    newest: dict[str, DeadLetter] = {}
    async for record in read_records(log):
        if record.value:
            try:
                letter = _ADAPTER.validate_json(record.value)
            except ValidationError:
                continue  # of a newer release
            newest[letter.letter_id] = letter
    for letter in newest.values():
        yield letter


@dataclass(frozen=True, slots=True)
class LetterState:
    """The description of a letter without its record: `piece` and `size` are the record's, as in `DeadLetter`."""

    stage: str
    source: str
    partition: int
    position: int
    piece: int
    size: int
    state: str


_STATE = itemgetter(*(state_field.name for state_field in fields(LetterState)))


async def letter_states(log: Log) -> Collection[LetterState]:
    """The letters in the log, each once as it is now."""
    newest: dict[str, LetterState] = {}
    async for record in read_records(log):
        try:
            plain: dict[str, Any] = orjson.loads(record.value)
            newest[plain["letter_id"]] = LetterState(*_STATE({"piece": 0, **plain}))
        except (orjson.JSONDecodeError, KeyError, TypeError):
            continue  # a tick, or of a newer release
    return newest.values()


async def append_letters(log: Log, letters: Sequence[DeadLetter]) -> None:
    """Append letters; one that is too large without its value. Raises LogUnavailable."""
    records = [Record(letter.letter_id.encode(), letter_to_json(letter)) for letter in letters]
    try:
        await log.append(records)
    except RecordTooLarge:
        for record in records:
            try:
                await log.append([record])
            except RecordTooLarge:
                slim = replace(_ADAPTER.validate_json(record.value), value=None, key=None, headers=())
                await log.append([Record(record.key, letter_to_json(slim))])


@dataclass(slots=True)
class _FailureRate:
    """Counts consecutive and recent failures."""

    settings: DeadLetterSettings
    consecutive: int = 0
    failed: int = 0
    recent: deque[bool] = field(init=False)

    def __post_init__(self) -> None:
        self.recent = deque(maxlen=self.settings.window)

    def add(self, delivered: Iterable[bool]) -> str | None:
        """Count records, of each whether it failed; returns the limit that is exceeded, in words, if there is one."""
        settings, recent = self.settings, self.recent
        for failed in delivered:
            self.consecutive = self.consecutive + 1 if failed else 0
            self.failed += failed - (recent[0] if len(recent) == settings.window else False)
            recent.append(failed)
            if self.consecutive >= settings.max_consecutive:
                return f"{self.consecutive} records in a row"
            if len(recent) >= settings.window and self.failed > settings.max_ratio * len(recent):
                return f"{self.failed} of the last {len(recent)} records"
        return None


LetterSource: TypeAlias = str | Callable[[int], tuple[str, int]]
"""A log's name, or what returns the topic and its partition for a record's partition."""


@dataclass(eq=False, repr=False)
class DeadLetterWriter:
    """Dead-letters the bad records of one stage and one source, and stops the stage when there are too many.

    Wrap the stage's `open_fold`, and give the stage `take` for its bad records: a delivery ends when its dead letters
    are durable, however long that takes.
    """

    stage: Stage
    source: LetterSource
    log: Log
    telemetry: Telemetry
    settings: DeadLetterSettings
    _: KW_ONLY
    signal: Incoming | None = None
    backoff: Backoff = field(default_factory=Backoff)
    clock: InitVar[Callable[[], float]] = time.monotonic

    def __post_init__(self, clock: Callable[[], float]) -> None:
        self._keep = bool(self.settings.keep_values)
        self.unwritten: dict[int, dict[int, DeadLetter]] = {}
        self._sparse_log = SparseLog(logger, clock)

    def take(self, record: StoredRecord, error: BadInput) -> None:
        """Dead-letter a record when its delivery ends."""
        source, partition = (
            (self.source, record.partition) if isinstance(self.source, str) else self.source(record.partition)
        )
        where = replace(record, partition=partition)
        letter = letter_of(self.stage, source, where, error, keep=self._keep and not error.secret, signal=self.signal)
        self.unwritten.setdefault(record.partition, {})[record.number] = letter

    def take_unreadable(self, records: Sequence[StoredRecord]) -> Sequence[StoredRecord]:
        """Dead-letter what could not even be read; returns the other records."""
        for batch in [record for record in records if isinstance(record, UnreadableRecords)]:
            self.telemetry.drop(self.stage, DropReason.UNREADABLE_BATCH, batch.end_offset - batch.offset)
            self.take(
                batch,
                UnreadableBatch(f"records {batch.offset} to {batch.end_offset - 1} cannot be read: {batch.reason}"),
            )
        return [record for record in records if not isinstance(record, UnreadableRecords)]

    def wrap(self, open_fold: OpenFold) -> OpenFold:
        """Open the same folds, each with its dead letters durable before its delivery ends."""

        @asynccontextmanager
        async def open_wrapped(partition: int, committed: Committed | None) -> AsyncGenerator[Fold]:
            async with open_fold(partition, committed) as fold:
                yield _DeadLetteringFold(fold, partition, self, _FailureRate(self.settings))

        return open_wrapped

    def forget(self, partition: int) -> None:
        """Replays without dead-lettering: the bad records were dead-lettered before."""
        self.unwritten.pop(partition, None)

    async def settle(self, partition: int, records: Sequence[StoredRecord], rate: _FailureRate) -> None:
        """Make the dead letters of a delivery durable.

        Raises:
            TooManyDeadLetters: they are durable, but too many.
        """
        letters = self.unwritten.pop(partition, {})
        if letters:
            await self._write(list(letters.values()))
        failed = [bool(letters) and record.number in letters for record in records if record.headers != TICK]
        if exceeded := rate.add(failed):
            raise self._too_many(exceeded, letters)

    async def _write(self, letters: Sequence[DeadLetter]) -> None:
        await self.backoff.repeat(
            lambda: append_letters(self.log, letters), LogUnavailable, action="writing to the dead-letter log"
        )
        for letter in letters:
            self.telemetry.counter(DEAD_LETTERS, self.stage, letter.kind).inc()
        first = letters[0]
        self._sparse_log.warn(
            f"{self.stage} dead-lettered {plural(len(letters), 'record')}, the first at {first.source}, partition "
            f"{first.partition}, offset {first.position}: {first.reason}. See: evalstream dead-letters list",
            len(letters),
        )

    def _too_many(self, exceeded: str, letters: dict[int, DeadLetter]) -> TooManyDeadLetters:
        last = next(reversed(letters.values())).reason if letters else "see the others"
        return TooManyDeadLetters(
            f"{self.stage}: {exceeded} cannot be processed, so it stops rather than dead-letter everything; "
            f"the last: {last}. See: evalstream dead-letters list. The limits are in dead_letters."
        )


class _DeadLetteringFold(FoldWrapper):
    """A fold whose dead letters are durable before its delivery ends: then the offsets may be committed."""

    def __init__(self, fold: Fold, partition: int, letters: DeadLetterWriter, rate: _FailureRate) -> None:
        super().__init__(fold)
        self.takes_unreadable = True
        self._partition = partition
        self._letters = letters
        self._rate = rate

    async def replay(self, records: Sequence[StoredRecord]) -> None:
        await self._fold.replay([record for record in records if not isinstance(record, UnreadableRecords)])
        self._letters.forget(self._partition)

    async def deliver(self, records: Sequence[StoredRecord]) -> None:
        letters, rate = self._letters, self._rate
        if UnreadableRecords in map(type, records):
            await self._fold.deliver(letters.take_unreadable(records))
        else:
            await self._fold.deliver(records)
        if rate.failed or self._partition in letters.unwritten:
            await letters.settle(self._partition, records, rate)
        else:
            rate.recent.extend(repeat(False, len(records) - [*map(_HEADERS, records)].count(TICK)))


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
