"""What CONTRIBUTING.md shows works as it stands there."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from made_up import Trace

from collector.config.loading import check
from collector.logs.log import Record
from collector.records.json import evaluation_from_json, evaluation_to_json
from collector.service.app import running
from evaluators.results import Evaluation, Subject

Handler = Callable[[web.Request], Awaitable[web.Response]]
ROOT = Path(__file__).parents[2]
FILES = {
    "evaluator": "evaluators/turn/brevity.py",
    "dialect": "collector/dialects/globex.py",
    "exporter": "collector/export/http_lines.py",
}


def shown(language: str, section: str) -> str:
    """The code block of a language in a worked example."""
    example = (
        (ROOT / "CONTRIBUTING.md")
        .read_text()
        .partition(f"<!-- {section}:begin -->")[2]
        .partition(f"<!-- {section}:end -->")[0]
    )
    block = re.search(rf"```{language}\n(.*?)```", example, re.DOTALL)
    assert block is not None
    return block[1]


def write_information(folder: Path, name: str, version: str, points: Mapping[str, Mapping[str, str]]) -> None:
    """What an installation leaves of a package beside its modules: its name and its entry points."""
    information = folder / f"{name}-{version}.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines: list[str] = []
    for group, named in points.items():
        lines += [f"[{group}]", *(f"{key} = {value}" for key, value in named.items())]
    (information / "entry_points.txt").write_text("\n".join(lines))


def installed(folder: Path, section: str, module: str, plugin: str) -> None:
    """A package with a worked example, as `pip install` leaves it."""
    (folder / f"{module}.py").write_text(shown("python", section))
    ((group, (name, *_)),) = tomllib.loads(shown("toml", section))["project"]["entry-points"].items()
    write_information(folder, module, "1.0", {group: {name: f"{module}:{plugin}"}})


def normalized(path: Path, *options: str, packages: Path | None) -> str:
    """What `evalstream turns` prints in a process of its own, with the packages of a folder installed."""
    environment = {**os.environ, **({"PYTHONPATH": str(packages)} if packages else {})}
    done = subprocess.run(
        [sys.executable, "-m", "collector.cli", "turns", *options, str(path)],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout


def test_the_worked_dialect_in_a_package_of_its_own(tmp_path: Path) -> None:
    packages = tmp_path / "site-packages"
    packages.mkdir()
    installed(packages, "dialect", "evalstream_globex", "DIALECT")
    said = {"globex.question": "Where is it?", "globex.answer": "Here.", "globex.model": "m-1", "globex.chat": "c-1",
            "globex.tokens.in": 7, "globex.tokens.out": 2}  # fmt: skip
    trace = Trace().span(1, "ask", said).span(2, "ask", {"globex.question": "And now?"}, error="out of tokens")
    path = tmp_path / "traces.pb"
    path.write_bytes(trace.spans.SerializeToString())

    assert normalized(path, packages=None) == "", "nobody else reads it"
    answered, failed = (json.loads(line) for line in normalized(path, packages=packages).splitlines())
    assert (answered["input"], answered["actual_output"]) == ("Where is it?", "Here.")
    assert (answered["dialect"], answered["model"], answered["conversation_id"]) == ("globex", "m-1", "c-1")
    assert answered["usage"] == {"input_tokens": 7, "output_tokens": 2}
    assert (failed["input"], failed["error"]) == ("And now?", "out of tokens")
    explained = normalized(path, "--explain", packages=packages)
    assert "read by globex as model: input from globex.question, output from globex.answer" in explained


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository with the worked examples in it: of each one file, and one line in `pyproject.toml`."""
    tree = tmp_path_factory.mktemp("tree")
    for folder in ("collector", "evaluators", "deploy", "tests"):
        shutil.copytree(ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
    for page in ROOT.glob("*.md"):
        shutil.copy(page, tree)
    (tree / ".venv").symlink_to(sys.prefix)
    project = (ROOT / "pyproject.toml").read_text()
    for section, file in FILES.items():
        (tree / file).write_text(shown("python", section))
        table, line = shown("toml", section).splitlines(keepends=True)
        assert table in project
        project = project.replace(table, table + line)
    (tree / "pyproject.toml").write_text(project)
    described = tomllib.loads(project)["project"]
    write_information(tree, described["name"], described["version"], described["entry-points"])
    return tree


def in_tree(tree: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """A command in the copy, which finds the copy's code and entry points before those of this checkout."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV"))}
    done = subprocess.run(
        [str(Path(sys.executable).parent / command[0]), *command[1:]],
        cwd=tree, env={**ours, "PYTHONPATH": str(tree), "CI": "true"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.mark.long
@pytest.mark.parametrize(
    "gate",
    [
        ("ruff", "format", "--check", "--no-cache", "."),
        ("ruff", "check", "--no-cache", "."),
        ("pyright", *FILES.values()),
        ("mypy", FILES["dialect"]),
        ("lint-imports", "--no-cache"),
    ],
    ids=lambda gate: " ".join(gate[:2]),
)
def test_the_worked_examples_pass_lint(tree: Path, gate: Sequence[str]) -> None:
    in_tree(tree, *gate)


@pytest.mark.long
def test_the_worked_examples_pass_what_is_tested_of_every_plug_in(tree: Path) -> None:
    in_tree(tree, "python", "-m", "deploy.reference")
    suites = ["tests/contract", "tests/unit/dialects/test_catalogue.py", "tests/deploy/test_reference.py"]
    suites += ["tests/unit/evaluators/test_package.py", "tests/unit/test_words.py", "tests/hostile/test_fuzz.py"]
    of_examples = "brevity or globex or http_lines or reference or package or words or catalogue"
    ran = in_tree(tree, "python", "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *suites, "-k", of_examples)
    assert "failed" not in ran.stdout
    page = (tree / "deploy" / "docs" / "evaluators.md").read_text()
    assert "### brevity" in page
    code = (
        "from evaluators import Brevity, Turn, evaluate_sync\n"
        "turns = [Turn(turn_id='t', input='?', actual_output='x' * length) for length in (5, 10, 15, 20, 99)]\n"
        "print([evaluate_sync(Brevity(name='short', limit=10), turn).outcome.value for turn in turns])"
    )
    assert in_tree(tree, "python", "-c", code).stdout == "[1.0, 1.0, 0.5, 0.0, 0.0]\n"


async def test_the_worked_exporter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Installed as somebody's package, named in a configuration, against a server that is busy at first."""
    installed(tmp_path, "exporter", "worked_exporter", "HttpLinesExporter")
    monkeypatch.syspath_prepend(tmp_path)
    got: list[bytes] = []
    statuses = iter((503, 200))

    async def take(request: web.Request) -> web.Response:
        got.append(await request.read())
        return web.Response(status=next(statuses))

    async with served(take) as url:
        values: dict[str, Any] = {
            "log": {"kind": "memory"},
            "evaluators": {"refused": {"kind": "refusal"}},
            "monitors": {"all": {"evaluators": ["refused"]}},
            "export": {"http_lines": {"endpoint": url}},
        }
        async with running(check(values, "evalstream.yaml"), {"export"}) as service:
            made = an_evaluation()
            await service.logs.evaluations.append([Record(made.evaluation_id.encode(), evaluation_to_json(made))])
            async with asyncio.timeout(60):
                while len(got) < 2:
                    await asyncio.sleep(0.01)
    assert [evaluation_from_json(each) for each in got] == [made, made]


def an_evaluation() -> Evaluation:
    now = datetime(2026, 11, 21, tzinfo=UTC)
    return Evaluation(
        evaluation_id="e", evaluator="refused", evaluator_version="v", scope="turn", monitor="all",
        subject=Subject(conversation_id="c", turn_id="t"), outcome="scored", score=1.0, started_at=now, ended_at=now,
    )  # fmt: skip


@asynccontextmanager
async def served(handler: Handler) -> AsyncIterator[str]:
    application = web.Application()
    application.router.add_post("/", handler)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield site.name.replace(":0", f":{runner.addresses[0][1]}") + "/"
    finally:
        await runner.cleanup()
