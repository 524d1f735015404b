"""What a start imports: only what it needs. Counted by names, not by seconds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import yaml

HEAVY = {
    "pydantic",
    "aiohttp",
    "openai",
    "httpx2",
    "kafka",
    "grpc",
    "google",
    "opentelemetry",
    "rich",
    "yaml",
    "uvloop",
}
NOT_FOR_RUN = {
    "openai", "httpx2", "kafka", "grpc", "rich", "jsonschema", "rapidfuzz",
    "json_repair", "numpy", "requests", "opentelemetry.sdk", "opentelemetry.exporter", "collector.logs.kafka",
    "collector.demo", "collector.commands.replay", "collector.commands.score", "collector.export.otlp", "collector.redact.presidio",
}  # fmt: skip
UNTIL_READY = """
import asyncio, sys
from pathlib import Path
import collector.cli
from collector.config.loading import load
from collector.service.app import running, stages_of, STAGES

async def start():
    async with running(load(Path(sys.argv[1])), STAGES):
        print(*sys.modules)

asyncio.run(start())
"""


def printed(*command: str) -> list[set[str]]:
    """The words of each line that Python prints."""
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=True)
    return [set(line.split()) for line in done.stdout.splitlines()]


def test_help_imports_nothing_heavy() -> None:
    code = "import atexit, sys; atexit.register(lambda: print(*sys.modules)); sys.argv[1:] = ['--help']; "
    *helped, modules = printed("-c", code + "from collector.cli import main; main()")
    assert any("demo" in line for line in helped)
    assert "typer" in modules
    assert modules & HEAVY == set()


def test_run_is_ready_before_it_imports_what_it_may_never_need(tmp_path: Path) -> None:
    path = tmp_path / "evalstream.yaml"
    configuration = {
        "log": {"kind": "sqlite", "path": str(tmp_path / "evalstream.db")},
        "receive": {"otlp_http": {"port": 0}},
        "judges": {"main": {"model": "m", "base_url": "http://127.0.0.1:9/v1"}},
        "evaluators": {"good": {"kind": "g_eval", "criteria": "Is it right?", "evaluation_params": ["actual_output"]}},
        "monitors": {"all": {"evaluators": ["good"]}},
        "export": {"prometheus": {"port": 0}},
    }
    path.write_text(yaml.safe_dump(configuration))
    [ready] = printed("-c", UNTIL_READY, str(path))
    assert {"aiohttp", "collector.service.app", "evaluators.turn.g_eval"} <= ready
    assert ready & NOT_FOR_RUN == set()
