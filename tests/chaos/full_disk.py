"""A disk that is really full: a small tmpfs, and a service of one process whose SQLite file is on it."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
from service import ServiceProcess
from traffic import request

EVALUATORS = 2
FIRST = 900_000
"""The number of its first turn: those of the cluster are lower."""


class SmallDisk:
    """A tmpfs of its own, which can be filled to the last byte."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._filler = path / "filler"

    def fill(self, but: int = 0) -> None:
        """Fill it, but for so many bytes."""
        with self._filler.open("ab", buffering=0) as filler:
            for size in (1 << 20, 4096, 1):
                with suppress(OSError):
                    while filler.write(b"\0" * size):
                        pass
            filler.truncate(max(0, filler.tell() - but))
        assert shutil.disk_usage(self.path).free < but + 8192

    def free(self) -> None:
        self._filler.unlink(missing_ok=True)


class NoDisk(Exception):
    """A tmpfs cannot be mounted here; the message says why."""


@contextmanager
def mounted_disk(path: Path, size: int) -> Iterator[SmallDisk]:
    """Mount a tmpfs of so many bytes. Raises NoDisk."""
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(path)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode:
        raise NoDisk(f"a disk that is really full needs a tmpfs, and mounting one needs root: {mounted.stderr.strip()}")
    try:
        yield SmallDisk(path)
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


class DiskCorner:
    """A service on a small disk, to which a turn a second is sent until it is accepted."""

    def __init__(self, disk: SmallDisk, service: ServiceProcess) -> None:
        self.disk = disk
        self.service = service
        self.accepted = 0
        self.refused = 0
        self._sending = asyncio.create_task(self._send())

    async def _send(self) -> None:
        while True:
            try:
                status = await self.service.post("traces", request([FIRST + self.accepted]))
            except aiohttp.ClientError:
                status = 0
            if status == 200:
                self.accepted += 1
            else:
                self.refused += 1
            await asyncio.sleep(1.0)

    async def broken(self, within: float = 90.0) -> list[str]:
        """Wait until everything is judged; sentences about what is not as promised."""
        self._sending.cancel()
        await asyncio.gather(self._sending, return_exceptions=True)
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                while len(await self.service.ledger()) < EVALUATORS * self.accepted:
                    await asyncio.sleep(1.0)
        await asyncio.sleep(2.0)
        status = await self.service.stop()
        written = Counter(each.evaluation_id for each in await self.service.ledger())
        twice = sum(number - 1 for number in written.values())
        problems = {
            f"{EVALUATORS * self.accepted - len(written)} evaluations are missing": len(written) != EVALUATORS * self.accepted,
            f"{twice} evaluations are there twice": twice,
            f"its process ended with {status}": status != 0,
        }  # fmt: skip
        return [f"on the small disk, {text}" for text, wrong in problems.items() if wrong]


@asynccontextmanager
async def disk_corner(folder: Path, configuration: dict[str, Any], size: int = 64 << 20) -> AsyncIterator[DiskCorner]:
    """Open it. Raises NoDisk."""
    with mounted_disk(folder / "disk", size) as disk:
        log = {"kind": "sqlite", "path": str(disk.path / "evalstream.db")}
        (folder / "service").mkdir()
        service = ServiceProcess(folder / "service", configuration | {"log": log, "receive": {}, "export": {}})
        await service.start()
        try:
            yield DiskCorner(disk, service)
        finally:
            await service.end()
