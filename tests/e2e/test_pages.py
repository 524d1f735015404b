"""Every example of README.md and deploy/docs is run or checked; one that cannot be says why, in the line above it.

A page is found by itself. `sh`: each `evalstream` command runs, in a folder of its own, against the stand-in judge.
`yaml`: a piece of configuration, checked as a part of the README's. `json`: the content of a file that commands of the
page read (`<!-- file: NAME -->`). `python`: runs, the blocks of a page one after the other. `promql`: promtool reads
it. `sql`: DuckDB runs it (integration/test_parquet_command.py). `<!-- not run: WHY -->` exempts a block.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from promtool import tool
from stand_in_judge import serve_judge
from typer.testing import CliRunner

from collector import plugins
from collector.cli import app
from collector.config.loading import load
from collector.config.settings import LogSettings
from collector.logs.log import Record
from collector.records.json import evaluation_from_json, evaluation_to_json
from collector.service.open_logs import open_logs

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "deploy" / "docs").glob("*.md"))]
LANGUAGES = {"sh", "yaml", "json", "python", "promql", "toml", "sql"}
COVERED_ELSEWHERE = {
    "align": "integration/test_align_command.py",
    "dataset": "integration/test_cases_command.py",
    "compare releases": "integration/test_compare_command.py",
    "demo": "test_demo.py",
    "fetch": "integration/test_fetch_command.py",
    "compare judges": "integration/test_judges_command.py",
    "plan targets": "integration/test_targets_command.py",
    "plan sampling": "integration/test_plan_command.py",
    "diagnose": "integration/test_diagnose_command.py",
    "mcp": "integration/test_mcp_command.py",
    "export parquet": "integration/test_parquet_command.py",
    "explain": "integration/test_trace_command.py",
}
BLOCK = re.compile(r"(?:<!-- (not run|file): ([^\n]+) -->\n)?^```([^\n]*)\n(.*?)^```", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    """A fenced block of a page, with the marker above it."""

    page: str
    marker: str
    marked: str
    language: str
    text: str


def all_blocks() -> Iterator[Block]:
    for page in PAGES:
        for found in BLOCK.finditer(page.read_text(encoding="utf-8")):
            yield Block(page.name, found[1] or "", found[2] or "", found[3], found[4])


BLOCKS = tuple(all_blocks())
README = PAGES[0].read_text(encoding="utf-8")
EXAMPLE: dict[str, Any] = yaml.safe_load(README.partition("<!-- example:begin -->\n```yaml\n")[2].partition("```")[0])


def runnable(language: str) -> list[Any]:
    chosen = [block for block in BLOCKS if block.language == language and block.marker != "not run"]
    return [pytest.param(block, id=f"{block.page}: {block.text.splitlines()[0][:40]}") for block in chosen]


def test_every_block_has_a_language_that_is_tested() -> None:
    assert {block.language for block in BLOCKS if block.marker != "not run"} <= LANGUAGES
    assert [block for block in BLOCKS if block.language == "json" and not block.marker] == [], "which file is it?"


def test_every_command_is_shown_somewhere() -> None:
    lines = [words for block in runnable("sh") for words in commands(block.values[0].text)]
    shown = {words[1] for words in lines if words[0] == "evalstream"}
    assert shown >= {"demo", "init", "check", "run", "turns", "score", "compare", "calibrate", "rules"}


def commands(block: str) -> Iterator[list[str]]:
    """The words of each command, as a shell takes them apart."""
    for line in block.replace("\\\n", " ").splitlines():
        if line.strip():
            done = subprocess.run(["bash", "-c", f"printf '%s\\0' {line}"], capture_output=True, text=True, check=True)
            yield done.stdout.split("\0")[:-1]


READ_LOGS = tuple(
    f"evalstream {name}"
    for name in ("compare evaluators", "audit", "labels next", "log", "rejudge", "export", "dead-letters")
)
"""Commands that read the service's logs, and refuse to begin where there are none."""


@pytest.mark.parametrize("block", runnable("sh"))
async def test_the_commands_run(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with serve_judge() as url:
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        prepare(tmp_path, url, block)
        if any(command in block.text for command in READ_LOGS):
            await a_past(tmp_path)
        for words in commands(block.text):
            if words[0] == "make":
                assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE), words
                continue
            assert words[0] == "evalstream", words
            if words[1] in COVERED_ELSEWHERE or " ".join(words[1:3]) in COVERED_ELSEWHERE:
                continue
            if words[1] == "run":
                await run_until_ready(tmp_path)
            else:
                done = await asyncio.to_thread(CliRunner().invoke, app, words[1:])
                assert done.exit_code == 0, (words, done.output, done.exception)


def prepare(folder: Path, url: str, block: Block) -> None:
    """What the commands speak of: a configuration (unless they write it), turns, labels, traces, the page's files."""
    prices = {"usd_per_million_input_tokens": 1.0, "usd_per_million_output_tokens": 1.0}
    judges = {name: {"model": name, "base_url": url, **prices} for name in ("main", "small")}
    evaluators = {name: {**each, "judge": "main"} for name, each in EXAMPLE["evaluators"].items()}
    if " init " not in block.text:
        configuration = EXAMPLE | {"judges": judges, "evaluators": evaluators}
        (folder / "evalstream.yaml").write_text(yaml.safe_dump(configuration))
        (folder / "moved.yaml").write_text(yaml.safe_dump(configuration | {"log": {"path": "moved.db"}}))
    turns = [
        {
            "turn_id": f"t{n}",
            "conversation_id": f"c{n}",
            "input": f"What is {n}?",
            "actual_output": f"What is {n}? The number {n}.",
        }
        for n in range(6)
    ]
    labels = [{"human": n % 2 == 0, "score": (n % 5) / 4} for n in range(12)]
    for name, rows in (("turns.jsonl", turns), ("labels.jsonl", labels)):
        (folder / name).write_text("".join(json.dumps(each) + "\n" for each in rows))
    write_files(block.page, folder)
    shutil.copytree(
        ROOT / "tests" / "golden" / "otlp" / "haystack", folder / "traces", ignore=shutil.ignore_patterns("*.json")
    )


def write_files(page: str, folder: Path) -> None:
    """The files that a page shows."""
    for shown in BLOCKS:
        if shown.page == page and shown.marker == "file":
            (folder / shown.marked).parent.mkdir(exist_ok=True)
            with (folder / shown.marked).open("a") as file:
                file.write(shown.text)


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
    configuration["export"]["prometheus"]["port"] = configuration.setdefault("page", {})["port"] = 0
    path.write_text(yaml.safe_dump(configuration))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "collector.cli", "run", stderr=subprocess.PIPE, env=dict(os.environ)
    )
    assert process.stderr is not None
    async with asyncio.timeout(60):
        log = b""
        while b'"ready: ' not in log:
            line = await process.stderr.readline()
            assert line, log
            log += line
        process.send_signal(signal.SIGINT)
        await process.communicate()
    assert process.returncode == 0


@pytest.mark.parametrize("block", runnable("yaml"))
def test_the_configurations_are_valid(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each piece, put into the README's example, as a file."""
    for name in re.findall(r"\$\{env:(\w+)\}", block.text + README):
        monkeypatch.setenv(name, "a-secret-of-at-least-16-characters")
    piece: dict[str, Any] = yaml.safe_load(block.text)
    if "plugins" in piece:
        write_files(block.page, tmp_path)
        monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
        plugins.open_folder(tmp_path / piece["plugins"])
    whole = dict(EXAMPLE)
    for section, value in piece.items():
        whole[section] = {**whole.get(section, {}), **value} if isinstance(value, dict) else value
    named = {
        each if isinstance(each, str) else each["name"]
        for monitor in whole["monitors"].values()
        for each in monitor["evaluators"]
    }
    free = {name: {"kind": "refusal"} for name in named - set(whole["evaluators"])}
    with_judge = {
        name: {"judge": "main", **each} if plugins.evaluator_class(each["kind"]).needs_judge else each
        for name, each in whole["evaluators"].items()
    }
    path = tmp_path / "evalstream.yaml"
    path.write_text(yaml.safe_dump(whole | {"evaluators": with_judge | free}))
    load(path)


RECIPES = [block for block in BLOCKS if block.page == "recipes.md" and block.language == "yaml"]


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.marked)
def test_the_recipes_pass_check(recipe: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each recipe is a whole configuration."""
    for name in re.findall(r"\$\{env:(\w+)\}", recipe.text):
        monkeypatch.setenv(name, "a-secret-of-at-least-16-characters")
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.chdir(tmp_path)
    (tmp_path / recipe.marked).write_text(recipe.text)
    done = CliRunner().invoke(app, ["check", "--offline", "-c", recipe.marked])
    assert done.exit_code == 0, done.output


def test_there_are_ten_recipes() -> None:
    assert len(RECIPES) == 10


@pytest.mark.parametrize("block", runnable("json"))
def test_the_documents_are_json(block: Block) -> None:
    assert [json.loads(line) for line in block.text.splitlines()]


async def test_the_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    names: dict[str, dict[str, Any]] = {}
    async with serve_judge() as url:
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        for block in (each.values[0] for each in runnable("python") if each.values[0].marker != "file"):
            code = compile(block.text, block.page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            waiting = eval(code, names.setdefault(block.page, {"__name__": "page"}))
            if inspect.iscoroutine(waiting):
                await waiting


@pytest.mark.parametrize("place", ["alone", "in a clone", "below a clone"])
def test_the_plug_in_that_asks_a_judge_passes_its_own_tests(tmp_path: Path, place: str) -> None:
    """By the page's command: `init` had written beside evalstream's own settings of pytest, which need its test tools."""
    if place != "alone":
        (tmp_path / "pyproject.toml").write_text(
            '[tool.pytest.ini_options]\naddopts = "--strict-config"\nno_such = 1\n'
        )
        (tmp_path / "conftest.py").write_text("import no_such_tool\n")
    folder = tmp_path / "mine" if place == "below a clone" else tmp_path
    folder.mkdir(exist_ok=True)
    write_files("plugins.md", folder)
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV"))}
    [line] = re.findall(
        r"`python (-m pytest [^`]+)`", (ROOT / "deploy" / "docs" / "plugins.md").read_text(encoding="utf-8")
    )
    done = subprocess.run(
        [sys.executable, *line.split()], cwd=folder, env=ours, capture_output=True, text=True, check=False
    )
    assert "2 passed" in done.stdout, done.stdout + done.stderr
    assert "Warning" not in done.stdout + done.stderr, "of a plug-in of pytest that the command does not need"


@pytest.mark.parametrize("block", runnable("promql"))
def test_prometheus_reads_the_queries(block: Block, tmp_path: Path) -> None:
    path = tmp_path / "rules.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "page", "rules": [{"record": "page", "expr": block.text}]}]}))
    done = subprocess.run([tool("promtool"), "check", "rules", path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_readme_is_short_and_counts_the_dialects() -> None:
    assert len(README.splitlines()) <= 200
    assert len(plugins.names(plugins.DIALECTS)) > 20
    assert "over twenty [dialects]" in README
    assert "over 20 trace dialects" in (ROOT / "deploy" / "pictures" / "flow.svg").read_text(encoding="utf-8")


def test_every_page_is_in_the_navigation() -> None:
    shown = (ROOT / "deploy" / "mkdocs.yml").read_text(encoding="utf-8")
    assert [page.name for page in PAGES[1:] if f": {page.name}\n" not in shown] == []
