"""The files of journals: a process takes the first that is free, and learns what the one before ended in.

The lock on a file ends with its process. A file holds offsets and names of logs, no text of anybody.
"""

import fcntl
import hashlib
import logging
import mmap
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from collector.logs.journal.processing_journal import JOURNAL_BYTES, ProcessingJournal, Unit
from evaluators.private_files import open_private

logger = logging.getLogger(__name__)

_MOST = 256
"""Files that are looked at: more processes than one machine has for one deployment."""


class JournalFile:
    """The journal of this process. The entries that earlier processes ended in are there until `begin`."""

    def __init__(self, descriptors: Sequence[int]) -> None:
        """The first of these locked files is this process's; the others belonged to processes that have ended."""
        self._buffers = [mmap.mmap(descriptor, JOURNAL_BYTES) for descriptor in descriptors]
        self._descriptors = list(descriptors)
        self.journal = ProcessingJournal(self._buffers[0])

    @classmethod
    def open(cls, prefix: Path) -> Self | None:
        """Open the journal files that begin with a path; None, said once, where that cannot be."""
        descriptors: list[int] = []
        try:
            prefix.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptors.extend(_locked(prefix))
            return cls(descriptors)
        except (OSError, ValueError) as error:
            for descriptor in descriptors:
                os.close(descriptor)
            logger.warning("%s-0 cannot be used: a record that crashes the process is not skipped (%s)", prefix, error)
            return None

    def ended_in(self) -> list[Unit]:
        """The entries in which the former holders of these files ended."""
        units: list[Unit] = []
        for buffer in self._buffers:
            journal = ProcessingJournal(buffer)
            if (unit := journal.last) is not None:
                units.append(unit)
            journal.close()
        return units

    def begin(self) -> None:
        """Forget what is written down elsewhere now, and the files of others."""
        for buffer in self._buffers:
            journal = ProcessingJournal(buffer)
            journal.begin()
            journal.close()
        for buffer, descriptor in zip(self._buffers[1:], self._descriptors[1:], strict=True):
            buffer.close()
            os.close(descriptor)
        del self._buffers[1:], self._descriptors[1:]

    def close(self) -> None:
        """Close the file."""
        self.journal.close()
        for buffer, descriptor in zip(self._buffers, self._descriptors, strict=True):
            buffer.close()
            os.close(descriptor)


def private_folder(*names: str) -> Path | None:
    """A folder of this user alone among the temporary files, the same after a restart; None if another has made it."""
    digest = hashlib.sha256("\x1f".join(names).encode()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"evalstream-{os.getuid()}-{digest}"
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    status = folder.lstat()
    if status.st_uid != os.getuid() or status.st_mode & 0o077 or folder.is_symlink():
        logger.warning("%s belongs to somebody else: a record that crashes the process is not skipped", folder)
        return None
    return folder


def _locked(prefix: Path) -> Iterator[int]:
    """Descriptors of the files that no process holds: all that exist, or a new one."""
    some = False
    for number in range(_MOST):
        path = f"{prefix}-{number}"
        if some and not os.path.exists(path):  # noqa: PTH110 - a name that is not a path of ours alone
            return
        descriptor = open_private(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _allocate(descriptor)
        except BlockingIOError:
            os.close(descriptor)
            continue
        except OSError:
            os.close(descriptor)
            raise
        some = True
        yield descriptor
    if not some:
        raise OSError("too many processes use it")


def _allocate(descriptor: int) -> None:
    """Give the file its size on the disk: to write into a page that there is no room for would end the process."""
    size = os.fstat(descriptor).st_size
    if size < JOURNAL_BYTES:
        os.pwrite(descriptor, bytes(JOURNAL_BYTES - size), size)
