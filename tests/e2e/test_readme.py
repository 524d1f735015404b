"""Every command in README.md runs, in a folder of its own, against the stand-in judge; every piece of configuration is right."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from collector.cli import app
from collector.config.loading import check
from collector.config.settings import LogSettings
from collector.demo.judge import serve_judge
from collector.logs.log import Record
from collector.opening import open_logs
from collector.records import evaluation_from_json, evaluation_to_json

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
NOT_RUN = {
    "make demo": "test_demo.py runs the demo; make would set up another virtual environment",
    "make test": "that is this very run",
}
EXAMPLE: dict[str, Any] = yaml.safe_load(
    README.partition("<!-- example:begin -->\n```yaml\n")[2]
    .partition("```")[0]
    .replace("${env:OPENAI_API_KEY}", "none")
)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def commands(block: str) -> Iterator[list[str]]:
    """The words of each command, as a shell takes them apart."""
    for line in block.replace("\\\n", " ").splitlines():
        if line.strip():
            done = subprocess.run(["bash", "-c", f"printf '%s\\0' {line}"], capture_output=True, text=True, check=True)
            yield done.stdout.split("\0")[:-1]


def test_nothing_is_left_out() -> None:
    shells = re.findall(r"^```(sh|bash|console|shell)$", README, re.MULTILINE)
    assert set(shells) == {"sh"}
    run = {" ".join(words) for block in blocks("sh") for words in commands(block)}
    assert set(NOT_RUN) <= run
    assert {line.split()[1] for line in run - set(NOT_RUN)} >= {"init", "check", "run", "score", "replay", "calibrate"}


@pytest.mark.parametrize("block", blocks("sh"), ids=lambda block: " ".join(block.split()[:2]))
async def test_the_commands_run(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with serve_judge() as url:
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        prepare(tmp_path, url, own_configuration=" init " in block)
        if " replay " in block:
            await a_past(tmp_path)
        for words in commands(block):
            if " ".join(words) in NOT_RUN:
                continue
            assert words[0] == "evalstream"
            if words[1] == "run":
                await run_until_ready(tmp_path)
            else:
                done = await asyncio.to_thread(CliRunner().invoke, app, words[1:])
                assert done.exit_code == 0, (done.output, done.exception)


def prepare(folder: Path, url: str, *, own_configuration: bool) -> None:
    """What the commands speak of: a configuration (unless they write it), turns, labels, traces."""
    prices = {"usd_per_million_input_tokens": 1.0, "usd_per_million_output_tokens": 1.0}
    judges = {name: {"model": name, "base_url": url, **prices} for name in ("main", "small")}
    evaluators = {name: {**each, "judge": "main"} for name, each in EXAMPLE["evaluators"].items()}
    if not own_configuration:
        configuration = EXAMPLE | {"judges": judges, "evaluators": evaluators}
        (folder / "evalstream.yaml").write_text(yaml.safe_dump(configuration))
    turns = [
        {
            "turn_id": f"t{n}",
            "conversation_id": f"c{n}",
            "input": f"What is {n}?",
            "actual_output": f"What is {n}? The number {n}.",
        }
        for n in range(6)
    ]
    (folder / "turns.jsonl").write_text("".join(json.dumps(each) + "\n" for each in turns))
    (folder / "chats.jsonl").write_text(blocks("json")[0])
    labels = [{"human": n % 2 == 0, "score": (n % 5) / 4} for n in range(12)]
    (folder / "labels.jsonl").write_text("".join(json.dumps(each) + "\n" for each in labels))
    shutil.copytree(
        ROOT / "tests" / "golden" / "otlp" / "haystack", folder / "traces", ignore=shutil.ignore_patterns("*.json")
    )


async def a_past(folder: Path) -> None:
    """Logs as the service leaves them: the turns, and their evaluations."""
    done = await asyncio.to_thread(CliRunner().invoke, app, ["score", "turns.jsonl", "-o", "past.jsonl"])
    assert done.exit_code == 0, (done.output, done.exception)
    async with open_logs(LogSettings(path=str(folder / "evalstream.db"))) as logs:
        for line in (folder / "turns.jsonl").read_bytes().splitlines():
            await logs.turns.append([Record(json.loads(line)["conversation_id"].encode(), line)])
        for line in (folder / "past.jsonl").read_bytes().splitlines():
            made = evaluation_from_json(line)
            await logs.evaluations.append([Record(made.evaluation_id.encode(), evaluation_to_json(made))])


async def run_until_ready(folder: Path) -> None:
    """The service with the configuration that is there, on free ports, until it is ready; then Ctrl-C."""
    path = folder / "evalstream.yaml"
    configuration = yaml.safe_load(path.read_text())
    configuration["receive"] = {"otlp_http": {"port": 0}}
    configuration["export"]["prometheus"]["port"] = configuration["page"]["port"] = 0
    path.write_text(yaml.safe_dump(configuration))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "collector.cli", "run", stderr=subprocess.PIPE, env=dict(os.environ)
    )
    assert process.stderr is not None
    async with asyncio.timeout(60):
        said = b""
        while b'"ready: ' not in said:
            line = await process.stderr.readline()
            assert line, said
            said += line
        process.send_signal(signal.SIGINT)
        await process.communicate()
    assert process.returncode == 0


@pytest.mark.parametrize("block", blocks("yaml"), ids=lambda block: block.split("\n", 1)[0])
def test_the_configurations_are_right(block: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each piece, put into the whole example."""
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    piece: dict[str, Any] = yaml.safe_load(block.replace("${env:OPENAI_API_KEY}", "none"))
    whole = dict(EXAMPLE)
    for section, value in piece.items():
        whole[section] = {**whole.get(section, {}), **value}
    named = {each if isinstance(each, str) else each["name"] for each in whole["monitors"]["chatbot"]["evaluators"]}
    free = {name: {"kind": "refusal"} for name in named - set(whole["evaluators"])}
    judged = {name: {**each, "judge": "main"} for name, each in whole["evaluators"].items()}
    check(whole | {"evaluators": judged | free}, "README.md")


def test_links_within_it_lead_somewhere() -> None:
    headings = re.findall(r"^#+ (.*)$", README, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert set(re.findall(r"\]\(#([^)]+)\)", README)) <= anchors
