"""Evaluations to a file, one JSON line each."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncGenerator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from collector.errors import ConfigError
from collector.export.exporter import ExportContext, ExporterSettings, ExportUnavailable
from collector.records import evaluation_to_json
from evaluators.outcome import Evaluation

_BLOCK = 64 * 1024


class JsonlSettings(ExporterSettings):
    """Where to."""

    path: Path = Field(description="The file; it is made where there is none, and appended to where there is one.")
    sync: bool = Field(default=False, description="Wait after every batch until the disk has it.")


class JsonlExporter:
    """Appends to a file. A line that a crash cut off is taken out when the file is opened: it comes again."""

    Settings: ClassVar[type[JsonlSettings]] = JsonlSettings

    def __init__(self, settings: JsonlSettings, file: int, writer: Executor) -> None:
        """`writer` has one thread: batches go to the file one after the other."""
        self._settings = settings
        self._file = file
        self._writer = writer

    @classmethod
    @asynccontextmanager
    async def open(cls, settings: JsonlSettings, context: ExportContext) -> AsyncGenerator[JsonlExporter]:
        """Open the file.

        Raises:
            ConfigError: it cannot be written.
        """
        del context
        try:
            file = await asyncio.to_thread(_open, settings.path)
        except OSError as error:
            raise ConfigError(f"{settings.path} cannot be written ({error.strerror}); choose another path") from error
        try:
            with ThreadPoolExecutor(1, "jsonl") as writer:  # leaving waits for a write that was begun
                yield cls(settings, file, writer)
        finally:
            os.close(file)

    async def export(self, batch: Sequence[Evaluation]) -> None:
        """Append one line per evaluation; all of the batch or nothing.

        Raises:
            ExportUnavailable: the disk is full or the like.
        """
        lines = b"".join(evaluation_to_json(each) + b"\n" for each in batch)
        write = partial(_append, self._file, lines, sync=self._settings.sync)
        try:
            await asyncio.get_running_loop().run_in_executor(self._writer, write)
        except OSError as error:
            raise ExportUnavailable(f"{self._settings.path}: {error.strerror}", reason="write_failed") from error


def _open(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
    try:
        _cut_torn_line(file)
    except BaseException:
        os.close(file)
        raise
    return file


def _append(file: int, lines: bytes, *, sync: bool) -> None:
    before = os.fstat(file).st_size
    try:
        rest = memoryview(lines)
        while rest:
            rest = rest[os.write(file, rest) :]
        if sync:
            os.fsync(file)
    except OSError:
        with suppress(OSError):  # a pipe cannot be cut, and need not be
            os.ftruncate(file, before)
        raise


def _cut_torn_line(file: int) -> None:
    """Cut off what follows the last line end."""
    if not stat.S_ISREG(os.fstat(file).st_mode):
        return
    end = os.fstat(file).st_size
    while end > 0:
        start = max(0, end - _BLOCK)
        found = os.pread(file, end - start, start).rfind(b"\n")
        if found >= 0:
            os.ftruncate(file, start + found + 1)
            return
        end = start
    os.ftruncate(file, 0)
