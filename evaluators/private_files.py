"""Files with judged text: only their owner may read and write them, whatever the umask."""

import logging
import os
import stat
from contextlib import suppress
from pathlib import Path

logger = logging.getLogger(__name__)

PRIVATE = 0o600
"""Permissions: the owner reads and writes."""


def open_private(path: str, flags: int) -> int:
    """Open a file; a new one is private. For `open(path, "a", opener=open_private)`.

    Raises:
        OSError: as `os.open`.
    """
    return os.open(path, flags, PRIVATE)


def restrict(path: Path, permissions: int = PRIVATE) -> int | None:
    """Remove from an existing file all permissions but these. Pipes, devices and missing files stay as they are.

    Returns:
        The permissions that the file had, if they were wider.

    Raises:
        OSError: the file belongs to another user.
    """
    if not path.exists():
        return None
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode) or not mode & 0o777 & ~permissions:
        return None
    path.chmod(stat.S_IMODE(mode) & permissions)
    return stat.S_IMODE(mode)


def restrict_or_warn(path: Path, content: str, permissions: int = PRIVATE, advice: str = "") -> None:
    """Like `restrict`, with a warning if the file had wider permissions, or if they cannot be removed."""
    try:
        before = restrict(path, permissions)
    except OSError as error:
        logger.warning("%s holds %s and cannot be made private: %s", path, content, error.strerror)
        return
    if before is not None:
        now = before & permissions
        logger.warning("%s holds %s and had permissions %04o, now %04o%s", path, content, before, now, advice)


def create_private(path: Path) -> None:
    """Create the file if it is missing; if that fails, the next opening reports the fault.

    An existing one is not opened: closing it would release the locks that this process holds on it.
    """
    with suppress(OSError):
        os.close(open_private(str(path), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC))
