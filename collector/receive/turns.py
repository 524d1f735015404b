"""From ready-made turns to records of the turns log.

A chat that is published again whenever it has grown would go into the log again as a whole, each turn with its history:
the square of its length, each time. So what a source has brought lately is remembered, and left out.
"""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any

from collector.errors import BadInput
from collector.logs.log import Record
from collector.readymade import Incoming, comes_again, documents_in, turns_in
from collector.receive.item_count import exceeds
from collector.receive.refusal import NotRedacted, TooLarge
from collector.redact.documents import redacted_document
from collector.redact.redactor import RedactionFailed, Redactor
from collector.telemetry import ASSEMBLED, INGEST_LAG, RECEIVED_BYTES, RECEIVED_ITEMS, Telemetry
from collector.turn_records import turn_record
from evaluators.cases import Turn

SIGNAL: Incoming = "turns"

MOST_BYTES = 64 * 1024**2
"""What one message or document may come to: a chat becomes turns that each hold all that was said before."""

_REMEMBERED = 50_000
_MESSAGES_BACK = 10_000
_MICROSECOND = timedelta(microseconds=1)


def place_of(topic: str, partition: int, position: int) -> str:
    """Where a message stands, out of which its turns get ids where they need a place for it."""
    return f"{topic}/{partition}/{position}"


class Moments:
    """When turns happened that do not say it: when their message was written, each a microsecond after the one before.

    So the turns of a conversation keep the order in which they came.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._last = datetime.min.replace(tzinfo=UTC)

    def next(self, written: float | None = None) -> datetime:
        """The moment of the next turn, which was `written` then (s since the epoch), but not before that has come."""
        now = self._clock()
        at = datetime.fromtimestamp(min(written, now) if written and written > 0 else now, UTC)
        self._last = max(at, self._last + _MICROSECOND)
        return self._last


class Known:
    """The turns that a source has brought lately in documents that may come again; at most 50,000 of them.

    A position is that of a message; what the last 10,000 did not bring is forgotten.
    """

    def __init__(self) -> None:
        self._positions: OrderedDict[bytes, int] = OrderedDict()

    def __contains__(self, turn_id: str) -> bool:
        return _digest(turn_id) in self._positions

    def add(self, turn_ids: Iterable[str], position: int) -> None:
        """The message at `position` has brought these, for the first time or again."""
        for turn_id in turn_ids:
            digest = _digest(turn_id)
            self._positions[digest] = position
            self._positions.move_to_end(digest)

    def forget(self, position: int) -> None:
        """Forget what is too long ago for who has come to `position`."""
        while self._positions:
            digest, oldest = next(iter(self._positions.items()))
            if len(self._positions) <= _REMEMBERED and oldest >= position - _MESSAGES_BACK:
                return
            del self._positions[digest]

    @property
    def oldest(self) -> int | None:
        """The oldest message that brought something that is remembered."""
        return next(iter(self._positions.values()), None)


def _digest(turn_id: str) -> bytes:
    return blake2b(turn_id.encode("utf-8", "replace"), digest_size=16).digest()


@dataclass(frozen=True, slots=True)
class TurnIntake:
    """What documents come to: records to append. `again` are the ids of turns that may come again.

    `known` is how many were left out because they had come before; `became` how many can be judged (`turns`), failed,
    or cannot be judged, by why. `ended_at` (s since the epoch) is when the last of those ended that say it.
    """

    records: list[Record]
    again: list[str]
    known: int
    became: Counter[str]
    ended_at: float | None = None

    @property
    def accepted(self) -> int:
        """How many turns the records hold."""
        return len(self.records)

    def count(self, telemetry: Telemetry, source: str, size: int, now: float | None = None) -> None:
        """Count documents of `size` bytes whose turns are durable, and how late the last came that said its time."""
        if now is not None and self.ended_at is not None:
            telemetry.histogram(INGEST_LAG, source).observe(max(0.0, now - self.ended_at))
        telemetry.counter(RECEIVED_BYTES, source, SIGNAL).inc(size)
        telemetry.counter(RECEIVED_ITEMS, source, SIGNAL, "accepted").inc(self.accepted)
        if self.known:
            telemetry.counter(RECEIVED_ITEMS, source, SIGNAL, "ignored").inc(self.known)
        for what, number in self.became.items():
            telemetry.counter(ASSEMBLED, "readymade", what).inc(number)


def take_in_turns(
    body: bytes,
    place: str,
    *,
    at: Callable[[], datetime],
    known: Callable[[str], bool] = lambda _turn_id: False,
    max_items: int | None = None,
    redactor: Redactor | None = None,
) -> TurnIntake:
    """Read a JSON document, an array of them or one a line. All of it is taken, or nothing.

    `place` is where it stood, the same whenever it comes from there again; `at` gives the moment for a turn that does
    not say when it happened. Turns that are `known` are left out.

    Raises:
        TooLarge: it comes to more than `max_items` turns, or to too many bytes.
        NotRedacted: the redactor failed on it.
        BadInput: it cannot be read.
    """
    if max_items is not None and exceeds(body, max_items, json=True):
        raise TooLarge(f"the message holds more than {max_items} turns")
    records: list[Record] = []
    again: list[str] = []
    became: Counter[str] = Counter()
    left_out = size = 0
    ended_at: float | None = None
    for turn, may_come_again in _turns(body, place, redactor):
        if may_come_again:
            again.append(turn.turn_id)
        if known(turn.turn_id):
            left_out += 1
            continue
        said_when = turn.started_at is not None or turn.ended_at is not None
        record = turn_record(turn if said_when else replace(turn, ended_at=at()))
        records.append(record)
        ended_at = turn.ended_at.timestamp() if turn.ended_at else ended_at
        became["failed" if turn.error is not None else turn.incomplete or "turns"] += 1
        size += len(record.value)
        if size > MOST_BYTES or (max_items is not None and len(records) > max_items):
            raise TooLarge(_TOO_MUCH if size > MOST_BYTES else f"the message holds more than {max_items} turns")
    return TurnIntake(records, again, left_out, became, ended_at)


_TOO_MUCH = (
    f"its turns, each with what was said before it, come to more than {MOST_BYTES >> 20} MiB; give the turns one by one"
)


def _turns(body: bytes, place: str, redactor: Redactor | None) -> Iterator[tuple[Turn, bool]]:
    """The turns, and of each whether it may come again."""
    documents = documents_in(body)
    clean = redactor is None or redactor.quiet(body.decode())
    for number, document in enumerate(documents):
        read = document if clean or redactor is None else _redacted(document, redactor)
        try:
            again = comes_again(read)
            for turn in turns_in(read, f"{place}.{number}"):
                yield turn, again and turn.conversation_id is not None
        except BadInput as error:
            if len(documents) == 1:
                raise
            raise type(error)(f"document {number + 1} of {len(documents)}: {error}") from None


def _redacted(document: object, redactor: Redactor) -> Any:
    try:
        return redacted_document(document, redactor)
    except RedactionFailed as error:
        raise NotRedacted(f"a text could not be redacted ({error}), so nothing of the document is stored") from None
