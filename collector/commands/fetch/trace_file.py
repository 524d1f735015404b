"""The file of the traces: its owner's alone, and there as a whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from collector.errors import ConfigError
from evaluators.private_files import open_private

_PART = ".part"


@contextmanager
def whole_file(path: Path) -> Generator[BinaryIO, None, None]:
    """A file to write, which has its name only once the block has ended without an error.

    Raises:
        ConfigError: it exists already, or cannot be written.
    """
    part = path.with_name(f"{path.name}.{os.getpid()}{_PART}")
    _refuse_existing(path)
    try:
        with open(part, "xb", opener=open_private) as file:
            try:
                yield file
                file.flush()
                os.fsync(file.fileno())
                _refuse_existing(path)  # once more: reading may take an hour
                part.rename(path)
            finally:
                part.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written ({error.strerror}); name another file") from None


def _refuse_existing(path: Path) -> None:
    if path.exists():
        raise ConfigError(f"{path}: exists already; name another file with --output")
