"""The journal of batches: which requests were sent (by hashes of their content), in which batch, and their answers. One
SQLite file; it survives any kill.

A request is known by its content, so a restarted run finds its earlier requests. A request is recorded before it is
sent, and an answer before it is used. The file holds answers but no requests, and only its owner may read it.
"""

import secrets
import sqlite3
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from evaluators.judges.batches.results import BatchResult, Missing
from evaluators.private_files import open_private

_QUICK = 1
"""zlib's level: it shrinks token probabilities to a tenth, in next to no time."""


class JournalInUse(Exception):
    """Another process works with the journal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """The state of a request: in a batch, answered, or unanswered after `attempts` batches.

    `at_once` says that it was answered outside of batches, at the full price.
    """

    batch: str | None = None
    attempts: int = 0
    at_once: bool = False
    status: int | None = None
    content: bytes = b""
    missing: Missing | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenBatch:
    """A batch with missing results. Without an id it is unknown whether it was submitted."""

    key: str
    id: str | None
    planned: float


class BatchJournal:
    """The journal in one file. The argument `home` of its methods names a judge and its endpoint.

    Close it with `close`.

    Without a path the file is temporary, and only this object can open it.

    Raises:
        JournalInUse: another process has the file open. OSError: the file cannot be written. sqlite3.DatabaseError: the
        file is no journal.
    """

    def __init__(self, path: Path | None) -> None:
        if path is not None:
            with open(path, "ab", opener=open_private):  # SQLite would make it readable by all
                pass
        self.path = path
        self._file = sqlite3.connect(path or "", timeout=0.0)
        try:
            self._file.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._file.execute("BEGIN EXCLUSIVE")
            self._file.execute("COMMIT")
            self._file.executescript(
                files("evaluators.judges.batches").joinpath("journal.sql").read_text(encoding="utf-8")
            )
            self.secret = self._stored_secret()
            """The secret for keys and markers: the same for all runs, so that equal questions are equal requests."""
        except sqlite3.OperationalError as error:
            self._file.close()
            if "locked" in str(error):
                raise JournalInUse(str(path)) from None
            raise
        except sqlite3.DatabaseError:
            self._file.close()
            raise

    def close(self) -> None:
        """Close the file; it stays."""
        self._file.close()

    def remove(self) -> None:
        """Close the file and delete it."""
        self.close()
        if self.path is not None:
            self.path.unlink(missing_ok=True)

    def _stored_secret(self) -> bytes:
        with self._file:
            row = self._file.execute("SELECT value FROM secret").fetchone()
            if row is None:
                row = (secrets.token_bytes(32),)
                self._file.execute("INSERT INTO secret VALUES (?)", row)
        return bytes(row[0])

    def entry(self, home: str, name: str) -> JournalEntry | None:
        """The state of a request; None if it was never sent."""
        with closing(self._file.cursor()) as cursor:
            row = cursor.execute(
                "SELECT batch, attempts, at_once, status, content, missing FROM request WHERE home = ? AND name = ?",
                (home, name),
            ).fetchone()
        if row is None:
            return None
        batch, attempts, at_once, status, content, missing = row
        return JournalEntry(
            batch=batch,
            attempts=attempts,
            at_once=bool(at_once),
            status=status,
            content=b"" if content is None else zlib.decompress(content),
            missing=missing,
        )

    def has_request(self, home: str, name: str) -> bool:
        """Whether the journal knows a request."""
        row = self._file.execute("SELECT 1 FROM request WHERE home = ? AND name = ?", (home, name)).fetchone()
        return row is not None

    def has_answered_shape(self, home: str, shape: str) -> bool:
        """Whether a request of this shape was answered."""
        row = self._file.execute("SELECT 1 FROM shape WHERE home = ? AND name = ?", (home, shape)).fetchone()
        return row is not None

    def record_shape(self, home: str, shape: str) -> None:
        """Record that a request of this shape was answered."""
        with self._file:
            self._file.execute("INSERT OR IGNORE INTO shape VALUES (?, ?)", (home, shape))

    async def record_at_once(self, home: str, name: str, content: bytes) -> None:
        """Record a request that was answered outside of batches."""
        with self._file:
            self._file.execute(
                "INSERT OR REPLACE INTO request (home, name, at_once, status, content) VALUES (?, ?, 1, 200, ?)",
                (home, name, zlib.compress(content, _QUICK)),
            )

    async def plan(self, home: str, key: str, names: Collection[str], now: float) -> None:
        """Record requests that are about to be submitted as one batch."""
        with self._file:
            self._file.execute("INSERT OR REPLACE INTO batch (key, home, planned) VALUES (?, ?, ?)", (key, home, now))
            self._file.executemany(
                "INSERT INTO request (home, name, batch) VALUES (?, ?, ?) "
                "ON CONFLICT (home, name) DO UPDATE SET batch = excluded.batch, missing = NULL",
                [(home, name, key) for name in names],
            )

    async def drop_plan(self, key: str) -> None:
        """Forget a planned batch that was certainly not submitted; its requests are free again."""
        with self._file:
            self._file.execute("DELETE FROM request WHERE batch = ? AND attempts = 0", (key,))
            self._file.execute("UPDATE request SET batch = NULL WHERE batch = ?", (key,))
            self._file.execute("DELETE FROM batch WHERE key = ?", (key,))

    async def record_submission(self, key: str, batch_id: str) -> None:
        """Record that the batch was submitted, under the provider's id."""
        with self._file:
            self._file.execute("UPDATE batch SET id = ? WHERE key = ?", (batch_id, key))

    def open_batches(self, home: str | None = None) -> Sequence[OpenBatch]:
        """The batches that have not ended: all of them, or the batches of one home."""
        rows = self._file.execute(
            "SELECT key, id, planned FROM batch WHERE NOT ended AND (? IS NULL OR home = ?) ORDER BY planned, key",
            (home, home),
        ).fetchall()
        return [OpenBatch(key=key, id=batch_id, planned=planned) for key, batch_id, planned in rows]

    def batch(self, key: str) -> OpenBatch:
        """The open batch with this key."""
        return next(open_batch for open_batch in self.open_batches() if open_batch.key == key)

    def ids(self) -> frozenset[str]:
        """The provider's ids of all batches."""
        return frozenset(row[0] for row in self._file.execute("SELECT id FROM batch WHERE id IS NOT NULL"))

    def unanswered(self, key: str) -> frozenset[str]:
        """The requests of a batch that have no answer."""
        rows = self._file.execute("SELECT name FROM request WHERE batch = ? AND status IS NULL", (key,))
        return frozenset(row[0] for row in rows)

    async def record(self, home: str, results: Iterable[BatchResult]) -> None:
        """Record results of a batch."""
        with self._file:
            self._file.executemany(
                "UPDATE request SET status = ?, content = ? WHERE home = ? AND name = ? AND status IS NULL",
                [(result.status, zlib.compress(result.content, _QUICK), home, result.name) for result in results],
            )

    async def end(self, key: str, missing: Mapping[str, Missing], otherwise: Missing) -> None:
        """Record that the batch has ended, and for each request without an answer why it has none."""
        with self._file:
            self._file.executemany(
                "UPDATE request SET missing = ? WHERE batch = ? AND name = ? AND status IS NULL",
                [(reason, key, name) for name, reason in missing.items()],
            )
            self._file.execute(
                "UPDATE request SET batch = NULL, attempts = attempts + 1, missing = coalesce(missing, ?) "
                "WHERE batch = ? AND status IS NULL",
                (otherwise, key),
            )
            self._file.execute("UPDATE batch SET ended = 1 WHERE key = ?", (key,))
