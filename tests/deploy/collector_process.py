"""The Collector of compose.yaml as a process of this machine, on ports of its own."""

from __future__ import annotations

import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from broker import free_ports
from tools import DEPLOY, tool


@contextmanager
def running_collector(folder: Path, settings: Mapping[str, str], *, scores: int | None = None) -> Iterator[str]:
    """Run it with some settings changed (`exporters::kafka::brokers`); gives its OTLP/HTTP address.

    `scores` is the port for what evalstream gives back.
    """
    grpc, http, any_port, tempo = free_ports(4)
    changes = {
        "receivers::otlp::protocols::grpc::endpoint": f"127.0.0.1:{grpc}",
        "receivers::otlp::protocols::http::endpoint": f"127.0.0.1:{http}",
        "receivers::otlp/scores::protocols::http::endpoint": f"127.0.0.1:{scores or any_port}",
        "exporters::otlp_grpc/tempo::endpoint": f"127.0.0.1:{tempo}",
        **settings,
    }
    options = [f"--config={DEPLOY / 'collector' / 'compose.yaml'}"]
    options += [f"--config=yaml:{path}: {value}" for path, value in changes.items()]
    log = folder / "collector.log"
    with log.open("wb") as output:
        process = subprocess.Popen([tool("otelcol"), *options], stdout=output, stderr=output)
    try:
        address = f"http://127.0.0.1:{http}"
        _wait_until_up(address, process, log)
        yield address
    finally:
        process.kill()
        process.wait()


def post(address: str, signal: str, body: bytes) -> None:
    """Send one OTLP request; that it is not taken is a failure."""
    headers = {"Content-Type": "application/x-protobuf"}
    request = urllib.request.Request(f"{address}/v1/{signal}", data=body, headers=headers)
    with urllib.request.urlopen(request, timeout=5) as answer:
        assert answer.status == 200


def _wait_until_up(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    give_up_at = time.monotonic() + 20
    while time.monotonic() < give_up_at and process.poll() is None:
        with suppress(OSError):
            post(address, "traces", b"")
            return
        time.sleep(0.1)
    raise AssertionError(log.read_text()[-2000:])
