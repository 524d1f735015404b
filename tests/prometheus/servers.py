"""Prometheus and Alertmanager as real processes on loopback, and a webhook that keeps what it is sent."""

from __future__ import annotations

import asyncio
import shutil
import signal
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer
from promtool import tool
from service import free_port

READY_WITHIN = 90.0


@asynccontextmanager
async def process(command: Sequence[str], folder: Path, ready: str) -> AsyncGenerator[None]:
    """A process that answers 200 at `ready` while the block runs."""
    said = folder / f"{Path(command[0]).name}.log"
    # It goes when the tests are killed.
    bound = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
    with said.open("ab") as output:
        running = await asyncio.create_subprocess_exec(*bound, *command, cwd=folder, stdout=output, stderr=output)
    try:
        async with asyncio.timeout(READY_WITHIN), aiohttp.ClientSession() as session:
            while not await _answers(session, ready):
                assert running.returncode is None, said.read_text()[-3000:]
                await asyncio.sleep(0.05)
        yield
    finally:
        if running.returncode is None:
            running.send_signal(signal.SIGKILL)
        await running.wait()


async def _answers(session: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with session.get(url) as response:
            return response.status == 200
    except aiohttp.ClientError:
        return False


@dataclass
class Webhook:
    """What Alertmanager sent: one entry for each alert of each message."""

    url: str = ""
    alerts: list[dict[str, Any]] = field(default_factory=list)

    async def take(self, request: web.Request) -> web.Response:
        self.alerts += (await request.json())["alerts"]
        return web.Response()

    def firing(self, **labels: str) -> list[dict[str, Any]]:
        return [each for each in self.alerts if each["status"] == "firing" and labels.items() <= each["labels"].items()]


@asynccontextmanager
async def webhook() -> AsyncGenerator[Webhook]:
    taken = Webhook()
    application = web.Application()
    application.router.add_post("/hook", taken.take)
    async with TestServer(application) as server:
        taken.url = str(server.make_url("/hook"))
        yield taken


@asynccontextmanager
async def alertmanager(folder: Path, configuration: str) -> AsyncGenerator[str]:
    """Alertmanager with a configuration file's text; its URL."""
    path = folder / "alertmanager.yml"
    path.write_text(configuration)
    url = f"http://127.0.0.1:{free_port()}"
    command = [
        tool("prometheus-alertmanager"), f"--config.file={path}", f"--storage.path={folder / 'alertmanager'}",
        f"--web.listen-address={url.removeprefix('http://')}", "--cluster.listen-address=",
    ]  # fmt: skip
    async with process(command, folder, f"{url}/-/ready"):
        yield url


@dataclass
class Prometheus:
    """A running Prometheus."""

    url: str

    async def query(self, expression: str) -> list[dict[str, Any]]:
        """The samples of an instant query: `metric` (labels) and `value` (time, text)."""
        return (await self._get("query", query=expression))["result"]

    async def descriptions(self, alert: str) -> list[str]:
        """The texts of the alerts of a name, as they are now."""
        alerts: list[dict[str, Any]] = (await self._get("alerts"))["alerts"]
        return [each["annotations"]["description"] for each in alerts if each["labels"]["alertname"] == alert]

    async def _get(self, path: str, **parameters: str) -> Any:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{self.url}/api/v1/{path}", params=parameters) as response,
        ):
            answer = await response.json()
        assert answer["status"] == "success", answer
        return answer["data"]

    async def value(self, expression: str) -> float | None:
        """The value of a query with one sample; None if it has none."""
        found = await self.query(expression)
        assert len(found) <= 1, found
        return float(found[0]["value"][1]) if found else None

    async def until(self, expression: str, within: float = 90.0) -> float:
        """Wait until a query has a sample; its value."""
        async with asyncio.timeout(within):
            while (value := await self.value(expression)) is None:
                await asyncio.sleep(0.1)
        return value


@asynccontextmanager
async def prometheus(
    folder: Path, rules: str, targets: Sequence[str], alertmanager: str | None = None, every: str = "1s"
) -> AsyncGenerator[Prometheus]:
    """Prometheus with a rule file's text, which scrapes `targets` (host:port).

    A scrape that takes longer than `every` counts as a target that is gone: a busy machine needs room.
    """
    (folder / "rules.yml").write_text(rules)
    configuration: dict[str, Any] = {
        "global": {"scrape_interval": every, "scrape_timeout": every, "evaluation_interval": "1s"},
        "rule_files": [str(folder / "rules.yml")],
        "scrape_configs": [{"job_name": "evalstream", "static_configs": [{"targets": list(targets)}]}],
    }
    if alertmanager is not None:
        to = [{"targets": [alertmanager.removeprefix("http://")]}]
        configuration["alerting"] = {"alertmanagers": [{"static_configs": to}]}
    path = folder / "prometheus.yml"
    path.write_text(yaml.safe_dump(configuration))
    url = f"http://127.0.0.1:{free_port()}"
    command = [
        tool("prometheus"), f"--config.file={path}", f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={url.removeprefix('http://')}", "--enable-feature=exemplar-storage",
        "--rules.alert.resend-delay=1s",
    ]  # fmt: skip
    async with process(command, folder, f"{url}/-/ready"):
        yield Prometheus(url)
