"""The processing journal: the present work of the event loop, in memory that a file backs: it outlives the process.

A process that dies by a signal, or is ended because it stands still, has no time to write anything. So each consumer
writes what it takes next into a slot of its own, and one word of the journal says which slot the event loop works for.
Between two steps of the loop that word is 0: a process that is killed while it waits is killed in no slot.

A step costs two stores into memory, and nothing is ever flushed: the kernel keeps the page when the process is gone.
"""

import struct
from collections.abc import Awaitable, Generator
from types import TracebackType, coroutine
from typing import Any, NamedTuple, Self, TypeVar, cast

from collector.errors import EvalstreamError

T = TypeVar("T")

MAGIC = b"evalstream processing 1\n"
SLOTS, _SLOT_BYTES, _HEADER_BYTES = 511, 256, 256
JOURNAL_BYTES = _HEADER_BYTES + (SLOTS + 1) * _SLOT_BYTES
_CURRENT, _FATAL = 8, 9
"""The words that hold the number of the slot in process, and of the one whose error ended the process."""

_RANGE = struct.Struct("<qqH")
_MAX_PLACE = _SLOT_BYTES - _RANGE.size


class Unit(NamedTuple):
    """The records that are processed at once: records `first` to `last` of a place, which is a consumer's partition of
    a log.
    """

    place: str
    first: int
    last: int


class ProcessingJournal:
    """The journal of one process, in a buffer of `JOURNAL_BYTES`. One event loop writes; another thread may read."""

    def __init__(self, buffer: Any = None) -> None:
        """Without a buffer it is in memory, and ends with the process."""
        self.bytes = memoryview(bytearray(JOURNAL_BYTES) if buffer is None else buffer)
        self.words = self.bytes.cast("I")
        self.steps = 0
        """Counts what was begun: if it stands still while a unit is current, that unit holds the event loop."""
        self._free = list(range(SLOTS, 0, -1))

    def begin(self) -> None:
        """Forget what another process has left."""
        self.bytes[:] = MAGIC + bytes(JOURNAL_BYTES - len(MAGIC))

    @property
    def current(self) -> Unit | None:
        """The entry that the event loop works for now; None if it waits, or does something else."""
        return self._unit(self.words[_CURRENT])

    @property
    def last(self) -> Unit | None:
        """The entry that the writing process ended in: the one that raised an error, or else the current one."""
        if bytes(self.bytes[: len(MAGIC)]) != MAGIC:
            return None
        return self._unit(self.words[_FATAL] or self.words[_CURRENT])

    def take_fatal(self) -> Unit | None:
        """The entry whose error ended its consumer, which is closed; its slot is free again."""
        number, self.words[_FATAL] = self.words[_FATAL], 0
        unit = self._unit(number)
        self.release(number)
        return unit

    def open_slot(self, place: str) -> "Slot":
        """A slot for a place. If none is free, a slot that is never read."""
        number = self._free.pop() if self._free else 0
        name = place.encode()[:_MAX_PLACE]
        start = _HEADER_BYTES + number * _SLOT_BYTES
        _RANGE.pack_into(self.bytes, start, 0, 0, len(name))
        self.bytes[start + _RANGE.size : start + _RANGE.size + len(name)] = name
        return Slot(self, number, len(name))

    def release(self, number: int) -> None:
        """Free a slot, unless it says what the process ends of."""
        if number and number != self.words[_FATAL] and number not in self._free:
            self._free.append(number)

    def close(self) -> None:
        """Let the buffer be closed."""
        self.words.release()
        self.bytes.release()

    def _unit(self, number: int) -> Unit | None:
        if not 0 < number <= SLOTS:
            return None
        start = _HEADER_BYTES + number * _SLOT_BYTES
        first, last, length = _RANGE.unpack_from(self.bytes, start)
        if length > _MAX_PLACE:
            return None
        name = bytes(self.bytes[start + _RANGE.size : start + _RANGE.size + length])
        return Unit(name.decode(errors="replace"), first, last)


class Slot:
    """A slot of the journal. A context manager around what is done without waiting; `drive` is for the rest."""

    __slots__ = ("_before", "_journal", "_length", "_number")

    def __init__(self, journal: ProcessingJournal, number: int, length: int) -> None:
        self._journal = journal
        self._number = number
        self._length = length
        self._before = 0

    def at(self, first: int, last: int | None = None) -> Self:
        """Write down what is taken next."""
        start = _HEADER_BYTES + self._number * _SLOT_BYTES
        _RANGE.pack_into(self._journal.bytes, start, first, first if last is None else last, self._length)
        return self

    @coroutine
    def drive(self, work: Awaitable[T]) -> Generator[Any, Any, T]:
        """Await `work`; whenever the event loop runs a step of it, the journal says so."""
        journal, number = self._journal, self._number
        words, steps, error = journal.words, work.__await__(), None
        while True:
            before, words[_CURRENT] = words[_CURRENT], number
            journal.steps += 1
            try:
                awaited = steps.send(None) if error is None else cast("Any", steps).throw(error)
            except StopIteration as end:
                return end.value
            except Exception as raised:
                self._fail(raised)
                raise
            finally:
                words[_CURRENT] = before
            try:
                error = None
                yield awaited
            except BaseException as raised:  # noqa: BLE001 - a cancellation, which is the work's to handle
                error = raised

    def __enter__(self) -> None:
        journal = self._journal
        self._before = journal.words[_CURRENT]
        journal.words[_CURRENT] = self._number
        journal.steps += 1

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._journal.words[_CURRENT] = self._before
        if error is not None:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        if isinstance(error, Exception) and not isinstance(error, EvalstreamError):
            self._journal.words[_FATAL] = self._number  # the caller does not expect it: it ends the process

    def close(self) -> None:
        """Free the slot."""
        self._journal.release(self._number)
