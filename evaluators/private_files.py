"""Files with judged text: only their owner may read and write them, whatever the umask.

Keys and headers in files, read again when these change: mounted secrets are replaced while a process runs.
"""

import logging
import os
import stat
import time
from collections.abc import Callable, Mapping
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


LOOK_EVERY = 1.0
"""Seconds between two looks at the files: a replaced key may still be sent for so long."""


class SecretFiles:
    """The only line of each of some files, by name.

    A file that cannot be read later, or is empty, keeps its earlier content: it may be replaced at that moment.

    Raises:
        OSError: one cannot be read.
        ValueError: one holds no text that a header can have; the message is a sentence with the file.
    """

    def __init__(self, files: Mapping[str, Path], clock: Callable[[], float] = time.monotonic) -> None:
        self._files = dict(files)
        self._clock = clock
        self._stamps: dict[str, tuple[int, int]] = {}
        self._texts: dict[str, str] = {}
        for name in self._files:
            self._read(name)
        self._look_at = clock() + LOOK_EVERY

    def texts(self) -> Mapping[str, str]:
        """The contents of the files, at most one second old."""
        if self._files and self._clock() >= self._look_at:
            self._look_at = self._clock() + LOOK_EVERY
            for name in self._files:
                try:
                    self._read(name)
                except (OSError, ValueError):
                    continue
        return self._texts

    def _read(self, name: str) -> None:
        path = self._files[name]
        stat = path.stat()
        stamp = stat.st_mtime_ns, stat.st_ino
        if self._stamps.get(name) != stamp:
            self._texts = {**self._texts, name: _only_line(path)}
            self._stamps[name] = stamp


def _only_line(path: Path) -> str:
    text = path.read_bytes().decode("ascii", "replace").strip()
    if not text or not text.isprintable() or "\ufffd" in text:
        raise ValueError(f"{path} holds no key: one line of printable ASCII is needed")
    return text
