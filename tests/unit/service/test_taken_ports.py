"""A start that fails because somebody else has a port leaves nothing behind."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from collector.config.loading import check
from collector.demo.run import DemoSettings, run_demo
from collector.errors import ConfigError
from collector.service.app import running
from collector.service.workers.supervision import serve_workers

FREE: dict[str, dict[str, Any]] = {
    "receive": {"otlp_http": {"port": 0}, "otlp_grpc": {"port": 0}},
    "page": {"port": 0},
    "export": {"prometheus": {"port": 0}},
}
SECTIONS = ["receive.otlp_http", "receive.otlp_grpc", "page", "export.prometheus"]


def configuration(folder: Path, section: str, port: int):
    stage, _, name = section.partition(".")
    taken = FREE[stage] | {name or "port": {"port": port} if name else port}
    log = {"log": {"path": str(folder / "e.db")}}
    exact = {"evaluators": {"exact": {"kind": "exact_match"}}, "monitors": {"all": {"evaluators": ["exact"]}}}
    return check({**exact, **FREE, **log, stage: taken}, "test.yaml")


def contents(folder: Path):
    return list(folder.iterdir())


@pytest.fixture
def port():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


@pytest.mark.parametrize("section", SECTIONS)
async def test_a_service_that_is_refused_a_port_makes_no_log(section: str, port: int, tmp_path: Path):
    wanted = (
        rf"^{section}: 127.0.0.1:{port} cannot be listened on \(.*\); write another {section}.port \(0: any free one\)"
    )
    with pytest.raises(ConfigError, match=wanted):
        async with running(configuration(tmp_path, section, port)):
            pass
    assert not contents(tmp_path)


async def test_a_second_start_of_a_running_service_says_so_before_the_port(tmp_path: Path):
    """The remedy was another port, which leads away from the cause. Of another log, the port is the cause."""
    async with running(configuration(tmp_path, "receive.otlp_http", 0)) as service:
        again = configuration(tmp_path, "receive.otlp_http", service.otlp_port)
        with pytest.raises(
            ConfigError, match=r"^log: .*e\.db: a process consumes this file already; .*\nreceive\.otlp"
        ):
            async with running(again):
                pass
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.raises(ConfigError, match=r"^receive\.otlp_http: "):
        async with running(configuration(tmp_path, "receive.otlp_http", other.getsockname()[1])):
            pass  # the file is there, and nobody has it


def test_neither_do_workers(port: int, tmp_path: Path):
    with pytest.raises(ConfigError, match="cannot be listened on"):
        serve_workers(configuration(tmp_path, "page", port), [frozenset({"receive", "page"})] * 2)
    assert not contents(tmp_path)


async def test_a_port_of_a_stage_that_does_not_run_here_may_be_taken(port: int, tmp_path: Path):
    async with running(configuration(tmp_path, "page", port), {"receive", "evaluate"}) as service:
        assert service.otlp_port


@pytest.mark.parametrize("option", ["--port", "--metrics-port", "--page-port"])
def test_the_demo_names_its_option_for_a_port_that_is_taken(port, option):
    """It has no configuration file, and port 4318 is taken wherever a Collector runs."""
    ports = {"--port": 0, "--metrics-port": 0, "--page-port": 0} | {option: port}
    settings = DemoSettings(0.1, 45.0, ports["--port"], ports["--metrics-port"], ports["--page-port"])
    with pytest.raises(ConfigError) as refused:
        run_demo(settings)
    assert f'; add another {option} (0: any free one), as in: make demo ARGS="{option} 0"' in str(refused.value)
