"""How the processes of one command share the partitions of a SQLite file, and how everybody else is kept out.

A group has a lock of its own: an empty database, which its consumer locks exclusively. A sharing process locks it for
reading, and finds the name of its command in it: another command cannot write its name there while one of these runs.
Locks of SQLite end with the process; a pid file would outlive a crash.
"""

import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from urllib.parse import quote

from collector.logs.log import GroupInUse
from evaluators.private_files import create_private

PARTITIONS = 4
"""Partitions of a new file that several processes share: as many of them there can be."""

_PATIENCE = 1.0
"""Seconds to wait for a sibling, or for one who only tries whether the lock is free."""


@dataclass(frozen=True, slots=True)
class PartitionShare:
    """One process's share of the partitions: each `of`th from `number` on, where 0 is the first.

    `command` is a name that no other command has. Only `groups` are shared, each a pair of the log's name and the
    group's; of any other group one process has all partitions.
    """

    number: int
    of: int
    command: str
    groups: frozenset[tuple[str, str]]

    def has(self, log: str, group: str, partition: int) -> bool:
        """Whether a partition is this process's."""
        return (log, group) not in self.groups or partition % self.of == self.number


def lock_path(file: Path, log: str, group: str) -> Path:
    """The path of a group's lock file."""
    return file.with_name(f"{file.name}-{log}-{quote(group, safe='')}.lock")


def lock_alone(path: Path) -> sqlite3.Connection | None:
    """The lock of a group's only consumer, until it is closed; None if another process has the group.

    Raises:
        sqlite3.Error: the file cannot be written.
    """
    lock = _connect(path, patience=0.0)
    try:
        lock.execute("BEGIN EXCLUSIVE")
    except sqlite3.Error as error:
        lock.close()
        return _in_use(error)
    return lock


def lock_shared(path: Path, command: str) -> sqlite3.Connection | None:
    """The lock of one of a command's processes, until it is closed; None if the group is not reserved for the command.

    Raises:
        sqlite3.Error: the file cannot be read.
    """
    lock = _connect(path, patience=_PATIENCE)
    try:
        lock.execute("BEGIN")
        is_ours = [(command,)] == lock.execute("SELECT name FROM command").fetchall()
    except sqlite3.Error as error:
        lock.close()
        return _in_use(error)
    if is_ours:
        return lock
    lock.close()
    return None


def reserve(path: Path, command: str) -> bool:
    """Reserve a group for the processes that a command is about to start; False if another process has it.

    Raises:
        sqlite3.Error: the file cannot be written.
    """
    lock = lock_alone(path)
    if lock is None:
        return False
    with closing(lock):
        lock.execute("CREATE TABLE IF NOT EXISTS command (name TEXT NOT NULL)")
        lock.execute("DELETE FROM command")
        lock.execute("INSERT INTO command VALUES (?)", [command])
        lock.execute("COMMIT")
    return True


def has_consumer(file: Path) -> bool:
    """Whether a process consumes a log of the file, as far as the locks tell."""
    for path in file.parent.glob(f"{escape(file.name)}-*.lock"):
        with suppress(sqlite3.Error):
            if (lock := lock_alone(path)) is None:
                return True
            lock.close()
    return False


def group_in_use(file: Path, log: str, group: str) -> GroupInUse:
    """The error for a group that another process has."""
    return GroupInUse(
        f"{file}: another process consumes the log {log!r} for {group!r} already; stop it first, or give this "
        "one another log.path, or other stages (--stages)"
    )


def _connect(path: Path, *, patience: float) -> sqlite3.Connection:
    create_private(path)
    return sqlite3.connect(path, timeout=patience, isolation_level=None, check_same_thread=False)


def _in_use(error: sqlite3.Error) -> None:
    if getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_BUSY:
        raise error
