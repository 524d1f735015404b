"""A SQLite file as the target of a copy: another name until it is whole."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from collector.config.settings import LogSettings
from collector.errors import ConfigError
from collector.service.open_logs import Logs, open_logs

UNFINISHED = ".copy"
"""What the name of the file ends in until the copy is whole."""


@asynccontextmanager
async def sqlite_target(
    settings: LogSettings, where: str, *, linking: bool, judged_spans: bool
) -> AsyncGenerator[Logs]:
    """The logs of a new file. Left without an error, it has its name: that is one step, and on the disk.

    Raises:
        ConfigError: there is such a file already.
    """
    path = Path(settings.path)
    unfinished = path.with_name(path.name + UNFINISHED)
    _begin(path, unfinished, where)
    copied = settings.model_copy(update={"path": str(unfinished)})
    async with open_logs(copied, linking=linking, judged_spans=judged_spans) as logs:
        yield logs
    _finish(path, unfinished, where)


def _begin(path: Path, unfinished: Path, where: str) -> None:
    if path.exists():
        raise ConfigError(
            f"{where}: log.path: there is a file {path} already; name one that does not exist, "
            "or use it if log copy made it: a copy gets its name once it is whole"
        )
    for end in ("", "-wal", "-shm"):  # of a copy that was interrupted
        unfinished.with_name(unfinished.name + end).unlink(missing_ok=True)


def _finish(path: Path, unfinished: Path, where: str) -> None:
    if path.exists():
        raise ConfigError(f"{where}: log.path: meanwhile there is a file {path}; name one that does not exist")
    unfinished.rename(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
