"""How much memory something takes at its highest."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Self


class PeakMemory:
    """How far the resident memory (bytes) rose above where it was at the start, at its highest."""

    def __enter__(self) -> Self:
        Path("/proc/self/clear_refs").write_text("5")
        self._start = self._peak()
        return self

    def __exit__(self, *_: object) -> None:
        self.grown = self._peak() - self._start

    def _peak(self) -> int:
        return int(re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024
