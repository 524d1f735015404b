"""Parquet files by day, in a directory or an S3-compatible store: each is written as a whole, or not at all."""

from __future__ import annotations

import importlib
from collections.abc import Generator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

from collector.commands.parquet.columns import Columns
from collector.errors import ConfigError

_ROWS = 10_000
"""Rows of a group: as many are in memory."""


class DayFiles:
    """The folder or store of the files."""

    def __init__(self, destination: str) -> None:
        """Open a directory, or the URL of a store, like `s3://bucket/prefix?endpoint_override=minio:9000`.

        Raises:
            ConfigError: pyarrow is not installed, or the destination is none.
        """
        try:
            self._pa: Any = importlib.import_module("pyarrow")
            self._parquet: Any = importlib.import_module("pyarrow.parquet")
            fs: Any = importlib.import_module("pyarrow.fs")
        except ImportError:
            raise ConfigError("parquet needs the extra `parquet`; install evalstream[parquet]") from None
        self._fs: Any
        try:
            if "://" in destination:
                self._fs, self._root = fs.FileSystem.from_uri(destination)
            else:
                self._fs, self._root = fs.LocalFileSystem(), str(Path(destination).absolute())
        except (OSError, ValueError, TypeError) as error:
            scheme = destination.partition("://")[0]
            raise ConfigError(
                f"the destination of scheme {scheme} cannot be opened ({type(error).__name__}); name a directory, or "
                "a URL like s3://bucket/prefix"
            ) from None
        self._is_local = isinstance(self._fs, fs.LocalFileSystem)

    def path(self, table: str, day: date, partition: int) -> str:
        """The path of a file: `<table>/day=2026-11-22/<table>-000.parquet`."""
        return f"{self._root}/{table}/day={day.isoformat()}/{table}-{partition:03}.parquet"

    def exists(self, path: str) -> bool:
        """Whether a file is there. Raises ConfigError."""
        with _in_a_sentence(path):
            info: Any = self._fs.get_file_info(path)
            return bool(info.is_file)

    @contextmanager
    def writer(self, path: str, columns: Columns) -> Generator[DayWriter]:
        """Write a file; it is there, in place of the one before, once this is left without an error.

        Raises:
            ConfigError: it cannot be written.
        """
        with _in_a_sentence(path):
            folder, _, name = path.rpartition("/")
            target = path
            if self._is_local:  # a store has no folders, and shows a file when it is complete
                self._fs.create_dir(folder, recursive=True)
                target = f"{folder}/.{name}.part"
            schema = self._schema(columns)
            with self._parquet.ParquetWriter(target, schema, filesystem=self._fs, compression="zstd") as file:
                writer = DayWriter(self._pa, file, schema)
                yield writer
                writer.flush()
            if self._is_local:
                self._fs.move(target, path)

    def _schema(self, columns: Columns) -> Any:
        pa = self._pa
        types: dict[str, Any] = {
            "text": pa.string(),
            "number": pa.float64(),
            "whole": pa.int64(),
            "flag": pa.bool_(),
            "time": pa.timestamp("us", tz="UTC"),
            "texts": pa.list_(pa.string()),
            "map": pa.map_(pa.string(), pa.string()),
        }
        return pa.schema([(name, types[kind]) for name, kind in columns.items()])


class DayWriter:
    """Writes the rows of one file, in groups."""

    def __init__(self, pa: Any, file: Any, schema: Any) -> None:
        self._pa = pa
        self._file = file
        self._schema = schema
        self._rows: list[dict[str, Any]] = []

    def add(self, row: dict[str, Any]) -> None:
        """Write a row, sooner or later."""
        self._rows.append(row)
        if len(self._rows) >= _ROWS:
            self.flush()

    def flush(self) -> None:
        """Write the rows that wait."""
        if self._rows:
            self._file.write_table(self._pa.Table.from_pylist(self._rows, schema=self._schema))
            self._rows = []


@contextmanager
def _in_a_sentence(path: str) -> Generator[None]:
    """Say in a sentence that a file cannot be written."""
    try:
        yield
    except OSError as error:
        code = str(error).partition("AWS Error ")[2].partition(" ")[0]
        why = error.strerror or code or type(error).__name__
        raise ConfigError(f"{path}: cannot be written ({why}); name another destination, or mend it") from error
