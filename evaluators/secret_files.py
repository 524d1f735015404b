"""Keys and headers in files, read again when these change: mounted secrets are replaced while a process runs."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

logger = logging.getLogger(__name__)

LOOK_EVERY = 1.0
"""Seconds between two looks at the files: a replaced key may still be sent for so long."""
WARN_AT = 3
"""Looks in a row that find a file unusable, after which that is logged."""


class SecretFiles:
    """The only line of each of some files, by name.

    A file that cannot be read later, or is empty, keeps its earlier content: it may be replaced at that moment. If it
    stays so, that is logged once.

    Raises:
        OSError: one cannot be read.
        ValueError: one holds no text that a header can have; the message is a sentence with the file.
    """

    def __init__(self, files: Mapping[str, Path], clock: Callable[[], float] = time.monotonic) -> None:
        self._files = {name: path.absolute() for name, path in files.items()}  # messages name the one that was tried
        self._clock = clock
        self._stamps: dict[str, tuple[int, int]] = {}
        self._texts: dict[str, str] = {}
        self._unusable = Counter[str]()
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
                    self._unusable[name] = 0
                except (OSError, ValueError) as error:
                    self._unusable[name] += 1
                    if self._unusable[name] == WARN_AT:
                        problem = f"{error.filename} cannot be read" if isinstance(error, OSError) else error
                        logger.warning("%s; its content of before is used until that is mended", problem)
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
