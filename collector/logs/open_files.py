"""The identity of the files of a database that a process has open: whether their paths still lead to them."""

import logging
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from collector.logs.log import LogUnavailable

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """A file by device and inode. A process that has it open can write to it long after its path leads elsewhere."""

    path: Path
    device: int
    inode: int

    @classmethod
    def of(cls, path: Path) -> Self:
        """The identity of what is at the path now.

        Raises:
            OSError: nothing is.
        """
        now = path.stat()
        return cls(path, now.st_dev, now.st_ino)

    def problem(self) -> str | None:
        """The problem with the file, as in `was deleted or moved`; None if it is where it was. About 2 µs."""
        try:
            now = os.stat(self.path)  # noqa: PTH116 - before and after every transaction: a Path takes longer
        except OSError:
            return "was deleted or moved"
        return None if (now.st_dev, now.st_ino) == (self.device, self.inode) else "was replaced by another file"


class OpenFiles:
    """A SQLite database, its `-wal` and its `-shm`. Each problem is reported once. Several threads may ask."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._identities: Sequence[FileIdentity] = ()
        self._reported: str | None = None
        self._reporting = threading.Lock()

    def remember(self) -> None:
        """They are open now."""
        paths = [self._path, *(self._path.with_name(self._path.name + end) for end in ("-wal", "-shm"))]
        self._identities = [FileIdentity.of(path) for path in paths if path.exists()]

    def problem(self) -> str | None:
        """The problem with one of the files; None if there is none."""
        for identity in self._identities:
            problem = identity.problem()
            if problem is not None:
                sentence = f"{identity.path} {problem} while in use"
                self._report(sentence, self._remedy(identity.path))
                return sentence
        self._report(None, "")
        return None

    def require_in_place(self) -> None:
        """See that what is written can be found again.

        Raises:
            LogUnavailable: one of the files is not at its path any more.
        """
        problem = self.problem()
        if problem is not None:
            raise LogUnavailable(problem)

    def _remedy(self, path: Path) -> str:
        if path == self._path:
            return "move it back and this continues, or restart evalstream to use what is at the path then"
        return f"stop evalstream by SIGTERM, so that it writes what it holds into {self._path}, and start it again"

    def _report(self, sentence: str | None, remedy: str) -> None:
        if sentence == self._reported:
            return
        with self._reporting:
            if sentence == self._reported:
                return  # another thread has just done it
            self._reported = sentence
        if sentence is not None:
            logger.error("%s, so nothing is accepted: %s", sentence, remedy)
        else:
            logger.info("%s is in its place again: it is written to", self._path)
