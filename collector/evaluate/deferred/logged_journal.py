"""The journal of a partition's batches: records of the evaluations log, applied to a temporary file.

Each record is written before it takes effect, and carries the owner's epoch, so that records of a former owner are
void. The questions of pending evaluations lie after the offset from which the ledger is read back, because their turns
are not older than the low watermark. So the journal is read back together with the ledger, and needs no position of its
own.
"""

import base64
import zlib
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from evaluators.judges.batches.journal import BatchJournal
from evaluators.judges.batches.results import BatchResult, Missing

Note = Callable[[Mapping[str, Any]], Awaitable[None]]

_BYTES_AT_ONCE = 200_000
"""The most bytes of answers in one record: a topic takes a megabyte."""


class LoggedJournal(BatchJournal):
    """A journal that writes its changes into a log. First `apply` the changes that were read back, then set `note`.

    `shapes` are the shapes of requests that were answered, by home; the judges of all partitions of a process share
    them.
    """

    def __init__(self, shapes: set[tuple[str, str]]) -> None:
        super().__init__(None)
        self._file.execute("CREATE INDEX names ON request (name)")
        self._shapes = shapes
        self.note: Note = _unwritten

    async def apply(self, event: Mapping[str, Any]) -> None:
        """Apply a change that was read back; a kind of change that this version does not know has no effect."""
        match event.get("event"):
            case "planned":
                self.secret = bytes.fromhex(event["secret"])
                await super().plan(event["home"], event["key"], event["names"], event["at"])
            case "dropped":
                await super().drop_plan(event["key"])
            case "submitted":
                await super().record_submission(event["key"], event["id"])
            case "answered":
                answers = [BatchResult(name, status, _read_content(text)) for name, status, text in event["answers"]]
                await super().record(event["home"], answers)
            case "ended":
                await super().end(event["key"], event["missing"], event["otherwise"])
            case "at_once":
                self.secret = bytes.fromhex(event["secret"])
                await super().record_at_once(event["home"], event["name"], _read_content(event["content"]))
            case _:
                pass

    def has_answered_shape(self, home: str, shape: str) -> bool:
        """See `BatchJournal.has_answered_shape`. Shapes are not written down, so a restart asks one request of each at
        once.
        """
        return (home, shape) in self._shapes

    def record_shape(self, home: str, shape: str) -> None:
        """See `BatchJournal.record_shape`."""
        self._shapes.add((home, shape))

    async def record_at_once(self, home: str, name: str, content: bytes) -> None:
        """See `BatchJournal.record_at_once`."""
        secret = self.secret.hex()
        await self.note({"event": "at_once", "home": home, "name": name, "content": _packed(content), "secret": secret})
        await super().record_at_once(home, name, content)

    async def plan(self, home: str, key: str, names: Collection[str], now: float) -> None:
        """See `BatchJournal.plan`."""
        # Each such record has the secret, because the first record may lie before the offset that is read back from.
        event = {"event": "planned", "home": home, "key": key, "names": list(names), "at": now}
        await self.note({**event, "secret": self.secret.hex()})
        await super().plan(home, key, names, now)

    async def drop_plan(self, key: str) -> None:
        """See `BatchJournal.drop_plan`."""
        await self.note({"event": "dropped", "key": key})
        await super().drop_plan(key)

    async def record_submission(self, key: str, batch_id: str) -> None:
        """See `BatchJournal.record_submission`."""
        if any(open_batch.key == key and open_batch.id == batch_id for open_batch in self.open_batches()):
            return
        await self.note({"event": "submitted", "key": key, "id": batch_id})
        await super().record_submission(key, batch_id)

    async def record(self, home: str, results: Iterable[BatchResult]) -> None:
        """See `BatchJournal.record`."""
        for part in _parts([(result, _packed(result.content)) for result in results]):
            answers = [[result.name, result.status, content] for result, content in part]
            await self.note({"event": "answered", "home": home, "answers": answers})
            await super().record(home, [result for result, _ in part])

    async def end(self, key: str, missing: Mapping[str, Missing], otherwise: Missing) -> None:
        """See `BatchJournal.end`."""
        await self.note({"event": "ended", "key": key, "missing": missing, "otherwise": otherwise})
        await super().end(key, missing, otherwise)

    def knows_owner(self, owner: str) -> bool:
        """Whether anything was sent for an evaluation; the names of its requests begin with `owner`."""
        return self._file.execute(f"SELECT 1 {_OF_OWNER}", (f"{owner}-", f"{owner}.")).fetchone() is not None

    def forget(self, owner: str) -> None:
        """Remove the questions of an evaluation that is in the ledger, except those in an open batch."""
        with self._file:
            self._file.execute(
                f"DELETE {_OF_OWNER} AND (status IS NOT NULL OR batch IS NULL)", (f"{owner}-", f"{owner}.")
            )


_OF_OWNER = "FROM request WHERE name > ? AND name < ?"


async def _unwritten(_event: Mapping[str, Any]) -> None:
    raise AssertionError("a journal is written after its log was read back")


def _packed(content: bytes) -> str:
    return base64.b85encode(zlib.compress(content)).decode()


def _read_content(packed: str) -> bytes:
    return zlib.decompress(base64.b85decode(packed))


def _parts(results: Sequence[tuple[BatchResult, str]]) -> Iterator[Sequence[tuple[BatchResult, str]]]:
    part: list[tuple[BatchResult, str]] = []
    size = 0
    for result in results:
        if part and size + len(result[1]) > _BYTES_AT_ONCE:
            yield part
            part, size = [], 0
        part.append(result)
        size += len(result[1]) + 100
    if part:
        yield part
