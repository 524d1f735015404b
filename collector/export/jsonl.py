"""Exporter to a file, one evaluation a line as JSON."""

import asyncio
import logging
import os
import stat
from collections.abc import AsyncGenerator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import ClassVar

from collector.errors import ConfigError
from collector.export.exporter import ExportContext, ExporterSettings, ExportUnavailable
from collector.records.json import evaluation_to_json
from evaluators.private_files import PRIVATE, restrict_or_warn
from evaluators.results import Evaluation

logger = logging.getLogger(__name__)

_BLOCK = 64 * 1024
_GROUP_READABLE = 0o640


class JsonlSettings(ExporterSettings):
    """The file to write."""

    path: Path
    """The file; created if missing, else appended to."""
    sync: bool = False
    """Wait after every batch until it is on disk."""
    group_readable: bool = False
    """Let the file's group read it, a log shipper say; else only its owner may."""


class JsonlExporter:
    """Appends to a file. A line that a crash cut off is taken out when the file is opened: it comes again.

    A file that was moved or deleted, as by log rotation, is opened again at its path.
    """

    Settings: ClassVar[type[JsonlSettings]] = JsonlSettings

    def __init__(self, settings: JsonlSettings, file: int, writer: Executor) -> None:
        """`writer` has one thread: batches go to the file one after the other."""
        self._settings = settings
        self._file = file
        self._writer = writer

    @classmethod
    @asynccontextmanager
    async def open(cls, settings: JsonlSettings, context: ExportContext) -> "AsyncGenerator[JsonlExporter]":
        """Open the file.

        Raises:
            ConfigError: it cannot be written.
        """
        try:
            file = await asyncio.to_thread(_open, settings)
        except OSError as error:
            path = settings.path.absolute()
            raise ConfigError(f"{path} cannot be written ({error.strerror}); choose another path") from error
        with ThreadPoolExecutor(1, "jsonl") as writer:  # leaving waits for a write that was begun
            exporter = cls(settings, file, writer)
            try:
                yield exporter
            finally:
                writer.submit(exporter.close)

    async def export(self, batch: Sequence[Evaluation]) -> None:
        """Append one line per evaluation; all of the batch or nothing.

        Raises:
            ExportUnavailable: the disk is full or the like.
        """
        lines = b"".join(evaluation_to_json(evaluation) + b"\n" for evaluation in batch)
        try:
            await asyncio.get_running_loop().run_in_executor(self._writer, self._write, lines)
        except OSError as error:
            raise ExportUnavailable(f"{self._settings.path}: {error.strerror}", reason="write_failed") from error

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _write(self, lines: bytes) -> None:
        if _has_left(self._file, self._settings.path):
            logger.warning("%s was moved or deleted: a new one is written from here on", self._settings.path)
            now = _open(self._settings)
            os.close(self._file)
            self._file = now
        _append(self._file, lines, sync=self._settings.sync)


def _has_left(file: int, path: Path) -> bool:
    """Whether the path does not lead to the open file any more. Pipes and terminals stay."""
    opened = os.fstat(file)
    if not stat.S_ISREG(opened.st_mode):
        return False
    try:
        return not os.path.samestat(opened, path.stat())
    except OSError:
        return True


def _open(settings: JsonlSettings) -> int:
    path, permissions = settings.path, _GROUP_READABLE if settings.group_readable else PRIVATE
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, permissions)
    try:
        restrict_or_warn(path, "evaluations", permissions, "; group_readable: true lets its group read it")
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
        newline = os.pread(file, end - start, start).rfind(b"\n")
        if newline >= 0:
            os.ftruncate(file, start + newline + 1)
            return
        end = start
    os.ftruncate(file, 0)
