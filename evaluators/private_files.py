"""Files with judged text: only their owner may read and write them, whatever the umask."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

PRIVATE = 0o600
"""Permissions: the owner reads and writes."""


def open_private(path: str, flags: int) -> int:
    """Open a file; a new one is private. For `open(path, "a", opener=open_private)`.

    Raises:
        OSError: as `os.open`.
    """
    return os.open(path, flags, PRIVATE)


def restrict(path: Path, permissions: int = PRIVATE) -> int | None:
    """Take from an existing file the permissions beyond these. Pipes, devices and missing files stay as they are.

    Returns:
        The permissions that the file had, if they were wider.

    Raises:
        OSError: the file belongs to somebody else.
    """
    if not path.exists():
        return None
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode) or not mode & 0o777 & ~permissions:
        return None
    path.chmod(stat.S_IMODE(mode) & permissions)
    return stat.S_IMODE(mode)


def create_private(path: Path) -> None:
    """Create the file if it is missing; who opens it next says what is wrong where that fails.

    An existing one is not opened: closing it would release the locks that this process holds on it.
    """
    with suppress(OSError):
        os.close(open_private(str(path), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC))
