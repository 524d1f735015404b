"""A real service process for a test: started, talked to, killed, and its ledger read."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from collector.config.settings import LogSettings
from collector.evaluate.recovery.control_records import CONTROL_HEADERS
from collector.logs.log import TICK
from collector.records.json import evaluation_from_json
from collector.service.open_logs import open_logs
from evaluators.results import Evaluation

READY_WITHIN = 150.0


_RETURNED: set[int] = set()


def free_port() -> int:
    """A port that nobody listens on and that no earlier call returned: the kernel may offer one twice in a row."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        if port not in _RETURNED:
            _RETURNED.add(port)
            return port


class ServiceProcess:
    """`evalstream run` with a configuration of its own; started again after a kill it goes on where it was."""

    def __init__(self, folder: Path, config: dict[str, Any], arguments: Sequence[str] = ()) -> None:
        self.folder = folder
        self.port = free_port()
        self.metrics_port = free_port()
        receive = config.setdefault("receive", {})
        if "kafka" not in receive:
            receive["otlp_http"] = {"port": self.port}
        config.setdefault("export", {}).setdefault("prometheus", {})["port"] = self.metrics_port
        self.config = config
        self.path = folder / "evalstream.yaml"
        self.path.write_text(yaml.safe_dump(config))
        self._arguments = arguments
        self._process: asyncio.subprocess.Process | None = None
        self.stderr = folder / "stderr.txt"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def launch(self) -> asyncio.subprocess.Process:
        """Start the process, whatever becomes of it."""
        with self.stderr.open("ab") as stderr:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "collector.cli", "run", "-c", str(self.path), *self._arguments,
                stdout=stderr, stderr=stderr, cwd=self.folder, env=dict(os.environ),
            )  # fmt: skip
        return self._process

    async def ended(self, within: float = READY_WITHIN) -> int:
        """Wait until it has ended by itself; the exit status."""
        assert self._process is not None
        async with asyncio.timeout(within):
            return await self._process.wait()

    async def start(self) -> None:
        self._process = await self.launch()
        async with asyncio.timeout(READY_WITHIN):
            while not await self._ready():
                if self._process.returncode is not None:
                    raise AssertionError(
                        f"the service ended with {self._process.returncode}: {self.stderr.read_text()}"
                    )
                await asyncio.sleep(0.05)

    async def _ready(self) -> bool:
        """Whether it says so itself: /metrics answers before traces are taken."""
        ready = self.metrics_url.replace("/metrics", "/readyz")
        try:
            async with aiohttp.ClientSession() as session, session.get(ready) as response:
                return response.status == 200
        except aiohttp.ClientError:
            return False

    @property
    def metrics_url(self) -> str:
        return f"http://127.0.0.1:{self.metrics_port}/metrics"

    async def metrics(self) -> str:
        async with aiohttp.ClientSession() as session, session.get(self.metrics_url) as response:
            return await response.text()

    async def kill(self) -> None:
        """SIGKILL: no last words."""
        assert self._process is not None
        self._process.kill()
        await self._process.wait()

    async def end(self) -> None:
        """Kill it if it still runs: it shall not outlive a test that fails."""
        if self._process is not None and self._process.returncode is None:
            await self.kill()

    async def stop(self) -> int:
        """SIGTERM, and the exit status."""
        assert self._process is not None
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(60):
            return await self._process.wait()

    async def post(self, name: str, body: bytes, content_type: str = "application/x-protobuf") -> int:
        signal_name = "logs" if "logs" in name else "traces"
        headers = {"Content-Type": content_type}
        url = f"{self.url}/v1/{signal_name}"
        async with aiohttp.ClientSession() as session, session.post(url, data=body, headers=headers) as response:
            return response.status

    async def ledger(self) -> list[Evaluation]:
        """Every evaluation of the evaluations log, as often as it is there."""
        log = LogSettings.model_validate(self.config["log"])
        log = log.model_copy(update={"path": str(self.folder / log.path)})
        async with open_logs(log) as logs:
            return [
                evaluation_from_json(record.value)
                for partition in range(logs.evaluations.partitions)
                async for batch in logs.evaluations.read(partition, 0)
                for record in batch
                if record.headers not in (CONTROL_HEADERS, TICK)
            ]


@asynccontextmanager
async def service(folder: Path, config: dict[str, Any], *arguments: str) -> AsyncIterator[ServiceProcess]:
    process = ServiceProcess(folder, config, arguments)
    await process.start()
    try:
        yield process
    finally:
        await process.stop()


async def until_ledger(
    process: ServiceProcess,
    count: int,
    within: float = 60.0,
    of: Callable[[Sequence[Evaluation]], Sequence[Evaluation]] = list,
) -> list[Evaluation]:
    """Wait until the ledger holds so many different evaluations, of those that `of` counts; then all of it.

    It waits four times as long as it reads: reading is work, above all from Kafka, and the service needs the machine.
    """
    ledger: list[Evaluation] = []
    took = 0.0
    try:
        async with asyncio.timeout(within):
            while len({each.evaluation_id for each in of(ledger)}) < count:
                await asyncio.sleep(min(1.0, max(0.1, 4 * took)))
                started = time.monotonic()
                ledger = await process.ledger()
                took = time.monotonic() - started
    except TimeoutError:
        said = process.stderr.read_text()[-3000:]
        raise AssertionError(
            f"{len(of(ledger))} of {count} evaluations after {within} s; the service said: {said}"
        ) from None
    return ledger
