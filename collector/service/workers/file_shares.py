"""How the workers of one command share a SQLite file: each has partitions of the stages that all of them run."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

from collector.config.settings import LogSettings
from collector.errors import ConfigError
from collector.evaluate.stage import GROUP
from collector.logs.sqlite_shares import PartitionShare, group_in_use, lock_path, reserve

GROUPS = frozenset({("spans", "assemble"), ("unlinked", "link"), ("turns", GROUP)})
"""By log, what consumes the partitions of the stages that every worker runs; others are in the first one alone."""


def share_file(settings: LogSettings, workers: int) -> Sequence[PartitionShare | None]:
    """What each worker has of the file, which is theirs from now on; None where the logs are no file.

    Raises:
        GroupInUse: another process has the file.
        ConfigError: nothing can be written beside it.
    """
    if settings.kind != "sqlite":
        return [None] * workers
    command, file = uuid4().hex, Path(settings.path)
    for log, group in sorted(GROUPS):
        try:
            is_ours = reserve(lock_path(file, log, group), command)
        except sqlite3.Error as error:
            raise ConfigError(f"log: {file}: {error}; see that the folder exists and can be written") from error
        if not is_ours:
            raise group_in_use(file, log, group)
    return [PartitionShare(number, workers, command, GROUPS) for number in range(workers)]
