"""The parsing of ready-made turns into records of the turns log.

A chat that is published again with each new turn would go into the log again as a whole, each turn with its history:
the square of its length, each time. So the recent turns of a source are remembered, and skipped.
"""

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from hashlib import blake2b

from collector.errors import BadInput, TooLarge
from collector.logs.log import Record
from collector.otlp.inline_media import omit_from_json
from collector.otlp.outline import has_more_objects_than
from collector.receive.feedback_ingest import redact_item
from collector.records.attachments import within_limits
from collector.records.feedback import entries_of_turn, feedback_record
from collector.records.ready_made import Incoming, comes_again, documents_in, turns_in
from collector.records.tenants import in_tenant
from collector.records.turns import turn_outcome, turn_record
from collector.redact.redactor import Redactor
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import INGEST_LAG, MEDIA_OMITTED, RECEIVE_BYTES, RECEIVE_ITEMS, TURNS_ASSEMBLED
from evaluators.cases import Turn

SIGNAL: Incoming = "turns"

MOST_BYTES = 64 * 1024**2
"""The largest size of the turns of one message or document: each turn of a chat contains all messages before it."""

_REMEMBERED = 50_000
_MESSAGES_BACK = 10_000
_MICROSECOND = timedelta(microseconds=1)


def message_location(topic: str, partition: int, offset: int) -> str:
    """The location of a message. Turns without an id of their own get one from it."""
    return f"{topic}/{partition}/{offset}"


class ArrivalTimes:
    """End times for turns without any: the time of their message, each a microsecond after the one before.

    So a conversation's turns keep the order of their arrival.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._last = datetime.min.replace(tzinfo=UTC)

    def next(self, written: float | None = None) -> datetime:
        """The time of the next turn, whose message was `written` then (s since the epoch): never in the future."""
        now = self._clock()
        at = datetime.fromtimestamp(min(written, now) if written and written > 0 else now, UTC)
        self._last = max(at, self._last + _MICROSECOND)
        return self._last


class RecentTurns:
    """The recent turns of a source from documents that may be published again; at most 50,000 of them.

    Turns that the last 10,000 messages did not contain are forgotten. Offsets are the offsets of messages.
    """

    def __init__(self) -> None:
        self._offsets: OrderedDict[bytes, int] = OrderedDict()

    def __contains__(self, turn_id: str) -> bool:
        return _digest(turn_id) in self._offsets

    def add(self, turn_ids: Iterable[str], offset: int) -> None:
        """The message at `offset` contains these, for the first time or again."""
        for turn_id in turn_ids:
            digest = _digest(turn_id)
            self._offsets[digest] = offset
            self._offsets.move_to_end(digest)

    def forget(self, offset: int) -> None:
        """Forget what is too old at `offset`."""
        while self._offsets:
            digest, oldest = next(iter(self._offsets.items()))
            if len(self._offsets) <= _REMEMBERED and oldest >= offset - _MESSAGES_BACK:
                return
            del self._offsets[digest]

    @property
    def oldest(self) -> int | None:
        """The oldest message with a turn that is remembered."""
        return next(iter(self._offsets.values()), None)


def _digest(turn_id: str) -> bytes:
    return blake2b(turn_id.encode("utf-8", "replace"), digest_size=16).digest()


@dataclass(frozen=True, slots=True)
class ParsedTurns:
    """The records of documents. `repeatable` are the ids of turns that may be published again.

    `duplicates` is how many were skipped because they had arrived before; `outcomes` counts the others by
    `turn_outcome`. `ended_at` (s since the epoch) is the latest end among them. `feedback` are records for the labels
    log: people's feedback in all of the turns, new or not.
    """

    records: list[Record]
    repeatable: list[str]
    duplicates: int
    outcomes: Counter[tuple[str, str]]
    ended_at: float | None = None
    omitted_media: int = 0
    feedback: tuple[Record, ...] = ()

    @property
    def accepted(self) -> int:
        """How many turns are in the records."""
        return len(self.records)

    def count(self, telemetry: Telemetry, source: str, size: int, now: float | None = None) -> None:
        """Count durable documents of `size` bytes and, if they arrived `now` (s since the epoch), their lag."""
        if now is not None and self.ended_at is not None:
            telemetry.histogram(INGEST_LAG, source).observe(max(0.0, now - self.ended_at))
        telemetry.counter(RECEIVE_BYTES, source, SIGNAL).inc(size)
        telemetry.counter(RECEIVE_ITEMS, source, SIGNAL, "accepted").inc(self.accepted)
        if self.omitted_media:
            telemetry.counter(MEDIA_OMITTED, source).inc(self.omitted_media)
        if self.duplicates:
            telemetry.counter(RECEIVE_ITEMS, source, SIGNAL, "ignored").inc(self.duplicates)
        for (outcome, reason), number in self.outcomes.items():
            telemetry.counter(TURNS_ASSEMBLED, "readymade", outcome, reason).inc(number)


def parse_turns(
    body: bytes,
    location: str,
    *,
    at: Callable[[], datetime],
    known: Callable[[str], bool] = lambda _turn_id: False,
    max_items: int | None = None,
    redactor: Redactor | None = None,
    stored_media: int = 0,
    comments: bool = True,
) -> ParsedTurns:
    """Parse a JSON document, an array of them or one a line: all of it, or nothing.

    `location` must be the same each time the document comes from there; `at` returns the time for a turn that has none.
    Turns that are `known` are skipped, but for their feedback: a chat that comes again may bring some. Its comments are
    left out without `comments`. Media of more than `stored_media` bytes are replaced by hash and size.

    Raises:
        TooLarge: it holds more than `max_items` turns, or too many bytes.
        NotRedacted: the redactor failed on it.
        BadInput: it cannot be read.
    """
    if max_items is not None and has_more_objects_than(body, max_items):
        raise TooLarge(f"the message holds more than {max_items} turns")
    body, omitted = omit_from_json(body, stored_media)
    records: list[Record] = []
    repeatable: list[str] = []
    feedback: list[Record] = []
    outcomes: Counter[tuple[str, str]] = Counter()
    duplicates = size = 0
    ended_at: float | None = None
    for each, is_repeatable in _turns(body, location, redactor):
        turn = in_tenant(each, "")
        if turn.attachments:
            turn = replace(turn, attachments=within_limits(turn.attachments, stored_media))
        if is_repeatable:
            repeatable.append(turn.turn_id)
        feedback += (feedback_record(entry, comments=comments) for entry in entries_of_turn(turn, ""))
        if known(turn.turn_id):
            duplicates += 1
            continue
        has_time = turn.started_at is not None or turn.ended_at is not None
        record = turn_record(turn if has_time else replace(turn, ended_at=at()))
        records.append(record)
        ended_at = turn.ended_at.timestamp() if turn.ended_at else ended_at
        outcomes[turn_outcome(turn)] += 1
        size += len(record.value)
        if size > MOST_BYTES or (max_items is not None and len(records) > max_items):
            raise TooLarge(_TOO_MUCH if size > MOST_BYTES else f"the message holds more than {max_items} turns")
    return ParsedTurns(records, repeatable, duplicates, outcomes, ended_at, omitted, tuple(feedback))


_TOO_MUCH = (
    f"its turns, each with the messages before it, take more than {MOST_BYTES >> 20} MiB; write the turns one by one"
)


def _turns(body: bytes, location: str, redactor: Redactor | None) -> Iterator[tuple[Turn, bool]]:
    """The turns, and for each whether it may be published again."""
    documents = documents_in(body)
    clean = redactor is None or redactor.has_no_pii(body.decode())
    for number, document in enumerate(documents):
        read = document if clean or redactor is None else redact_item(document, redactor)
        try:
            again = comes_again(read)
            for turn in turns_in(read, f"{location}.{number}"):
                yield turn, again and turn.conversation_id is not None
        except BadInput as error:
            if len(documents) == 1:
                raise
            raise type(error)(f"document {number + 1} of {len(documents)}: {error}") from None
