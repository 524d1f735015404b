"""Real processes of the service, for measuring: started with a configuration, asked for their metrics, stopped."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml
from measured import cpu_seconds, resident


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def children(pid: int) -> list[int]:
    """The processes that a process has started and that run."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread that has just ended
            found += map(int, (task / "children").read_text().split())
    return found


class Process:
    """`evalstream run` with some stages."""

    def __init__(self, folder: Path, config: dict[str, Any], stages: str | None = None, *, workers: int = 1) -> None:
        self.metrics_port = free_port()
        given = config | {"export": {"prometheus": {"port": self.metrics_port}}}
        path = folder / f"{stages or 'all'}-{self.metrics_port}.yaml"
        path.write_text(yaml.safe_dump(given))
        command = [sys.executable, "-m", "collector.cli", "run", "-c", str(path)]
        self._said = (folder / f"{path.stem}.txt").open("w+b")
        self._started = time.monotonic()
        self._process = subprocess.Popen(
            [*command, "--workers", str(workers), *(["--stages", stages] if stages else [])],
            cwd=folder,
            stdout=self._said,
            stderr=self._said,
        )
        self.pid = self._process.pid
        self._until_ready(within=120.0)
        self.ready_after = time.monotonic() - self._started
        self._answers("metrics")  # the first scrape: until then scores are not counted, and their cost would come later

    def _until_ready(self, within: float) -> None:
        while not self._answers("readyz"):
            if self._process.poll() is not None or time.monotonic() - self._started > within:
                self._said.seek(0)
                self.stop()
                raise RuntimeError(f"the service does not start: {self._said.read()[-800:].decode(errors='replace')}")
            time.sleep(0.01)

    def _answers(self, path: str) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/{path}", timeout=5) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric's series that have these labels."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        found = re.findall(rf"^{name}(?:\{{(.*?)\}})? (\S+)", text, re.MULTILINE)
        wanted = [f'{label}="{value}"' for label, value in labels.items()]
        return sum(float(value) for series, value in found if all(each in series for each in wanted))

    @property
    def cpu_by_process(self) -> dict[int, float]:
        """Seconds until now, by process: of the command, and of its workers."""
        return {pid: cpu_seconds(pid) for pid in (self.pid, *children(self.pid))}

    @property
    def cpu(self) -> float:
        """Seconds until now, of all processes."""
        return sum(self.cpu_by_process.values())

    @property
    def memory(self) -> float:
        """Resident MB."""
        return resident(self.pid)

    def settle(self, within: float = 30.0) -> None:
        """Wait until it is at rest: after it is ready it imports the judges' client, which is no cost of a turn."""
        give_up, used = time.monotonic() + within, -1.0
        while self.cpu - used > 0.02 and time.monotonic() < give_up:
            used = self.cpu
            time.sleep(0.5)

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@contextmanager
def processes(folder: Path, config: dict[str, Any], *stages: str | None) -> Iterator[list[Process]]:
    """One process for each of these sets of stages, the last started first: it is furthest down."""
    running: list[Process] = []
    try:
        for each in reversed(stages):
            running.insert(0, Process(folder, config, each))
        for each in running:
            each.settle()
        yield running
    finally:
        for each in running:
            each.stop()


def configuration(
    judge: str, *, sample: float = 1.0, quiet: float = 0.5, port: int = 0, keep: str | None = None
) -> dict[str, Any]:
    """One monitor with one g_eval, over SQLite; all that `keep` is not given for is as `init` leaves it."""
    return {
        "log": {"kind": "sqlite", "path": "bench.db"},
        "receive": {"otlp_http": {"port": port}},
        "assemble": {"idle_timeout": quiet, "allowed_lateness": 5} | ({"keep": keep} if keep else {}),
        "judges": {"main": {"model": "m", "base_url": judge, "concurrency": 64}},
        "evaluators": {
            "good": {
                "kind": "g_eval",
                "evaluation_steps": ["Compare what is asked with what is answered, point by point."] * 3,
                "evaluation_params": ["input", "actual_output"],
                "threshold": 0.5,
            }
        },
        "monitors": {"all": {"evaluators": ["good"], "sample": sample}},
    }
