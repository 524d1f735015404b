"""The service under attack: a process with one core and little memory, and what it costs it to be attacked."""

from __future__ import annotations

import asyncio
import os
import re
import resource
import sys
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from service import ServiceProcess

MIB = 1024 * 1024
MEMORY = 1024 * MIB
"""Bytes of data that the process may have: RLIMIT_DATA, so no privilege is needed."""
_TICKS = os.sysconf("SC_CLK_TCK")


class Usage(NamedTuple):
    """CPU seconds since the start, resident and highest resident bytes, bytes on disk, open descriptors."""

    cpu: float
    resident: int
    peak: int
    disk: int
    descriptors: int


class LimitedService(ServiceProcess):
    """`evalstream run` on one core, which is not the attacker's where there are two, with `MEMORY` at most."""

    def __init__(self, folder: Path, config: dict[str, Any], receive: dict[str, Any]) -> None:
        super().__init__(folder, config)
        config["receive"] = {**receive, "otlp_http": {**receive["otlp_http"], "port": self.port}}
        self.path.write_text(yaml.safe_dump(self.config))

    async def launch(self) -> asyncio.subprocess.Process:
        with self.stderr.open("ab") as stderr:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "collector.cli", "run", "-c", str(self.path),
                stdout=stderr, stderr=stderr, cwd=self.folder, env=dict(os.environ), preexec_fn=_limit,
            )  # fmt: skip
        return self._process

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.returncode is None

    def usage(self) -> Usage:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        status = Path(f"/proc/{self.pid}/status").read_text()
        disk = sum(each.stat().st_size for each in self.folder.iterdir() if each.name.startswith("evalstream.db"))
        return Usage(
            cpu=sum(map(int, fields[11:15])) / _TICKS,  # its children's too, once they have ended
            resident=_bytes(status, "VmRSS"),
            peak=_bytes(status, "VmHWM"),
            disk=disk,
            descriptors=len(list(Path(f"/proc/{self.pid}/fd").iterdir())),
        )

    def forget_peak(self) -> None:
        """Let the highest resident memory begin again at what it is now."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")


async def until_idle(process: LimitedService, *, within: float = 120.0) -> None:
    """Wait until nothing is left to do: most of a second with hardly any CPU time."""
    async with asyncio.timeout(within):
        calm, last = 0, process.usage().cpu
        while calm < 3 and process.runs:
            await asyncio.sleep(0.25)
            now = process.usage().cpu
            calm, last = (calm + 1 if now - last <= 0.06 else 0), now


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def _bytes(status: str, name: str) -> int:
    match = re.search(rf"{name}:\s+(\d+) kB", status)
    return int(match[1]) * 1024 if match else 0
