"""What CONTRIBUTING.md shows works as it stands there."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import AsyncIterator, Awaitable, Callable
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
from evaluators.cases import Turn
from evaluators.evaluation import evaluate
from evaluators.judge import NoJudge
from evaluators.results import Evaluation, Score, Subject

Handler = Callable[[web.Request], Awaitable[web.Response]]
CONTRIBUTING = Path(__file__).parents[2] / "CONTRIBUTING.md"


def shown(language: str, section: str) -> str:
    """The code block of a language in a worked example."""
    example = CONTRIBUTING.read_text().partition(f"<!-- {section}:begin -->")[2].partition(f"<!-- {section}:end -->")[0]
    block = re.search(rf"```{language}\n(.*?)```", example, re.DOTALL)
    assert block is not None
    return block[1]


def installed(folder: Path, module: str) -> None:
    """What `pip install` leaves of a package with the worked dialect: one file, and its entry points."""
    (folder / f"{module}.py").write_text(shown("python", "dialect"))
    points = tomllib.loads(shown("toml", "dialect"))["project"]["entry-points"]
    information = folder / f"{module}-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    lines = [f"[{group}]\n{name} = {value}\n" for group, each in points.items() for name, value in each.items()]
    (information / "entry_points.txt").write_text("".join(lines))


def normalized(path: Path, *options: str, packages: Path | None) -> str:
    """What `evalstream normalize` prints in a process of its own, with the packages of a folder installed."""
    environment = {**os.environ, **({"PYTHONPATH": str(packages)} if packages else {})}
    done = subprocess.run(
        [sys.executable, "-m", "collector.cli", "normalize", *options, str(path)],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout


def test_the_worked_dialect_in_a_package_of_its_own(tmp_path: Path) -> None:
    packages = tmp_path / "site-packages"
    packages.mkdir()
    installed(packages, "evalstream_acme")
    said = {"acme.question": "Where is it?", "acme.answer": "Here.", "acme.model": "m-1", "acme.chat": "c-1",
            "acme.tokens.in": 7, "acme.tokens.out": 2}  # fmt: skip
    trace = Trace().span(1, "ask", said).span(2, "ask", {"acme.question": "And now?"}, error="out of tokens")
    path = tmp_path / "traces.pb"
    path.write_bytes(trace.spans.SerializeToString())

    assert normalized(path, packages=None) == "", "nobody else reads it"
    answered, failed = (json.loads(line) for line in normalized(path, packages=packages).splitlines())
    assert (answered["input"], answered["actual_output"]) == ("Where is it?", "Here.")
    assert (answered["dialect"], answered["model"], answered["conversation_id"]) == ("acme", "m-1", "c-1")
    assert answered["usage"] == {"input_tokens": 7, "output_tokens": 2}
    assert (failed["input"], failed["error"]) == ("And now?", "out of tokens")
    explained = normalized(path, "--explain", packages=packages)
    assert "read by acme as model: input from acme.question, output from acme.answer" in explained


async def test_the_worked_evaluator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "worked_example.py").write_text(shown("python", "evaluator"))
    monkeypatch.syspath_prepend(tmp_path)
    worked: Any = importlib.import_module("worked_example")
    brevity = worked.Brevity(name="short", limit=10)
    for length, expected in ((5, 1.0), (10, 1.0), (15, 0.5), (20, 0.0), (99, 0.0)):
        turn = Turn(turn_id="t", input="?", actual_output="x" * length)
        result = await evaluate(brevity, turn, NoJudge(), now=lambda: datetime.now(UTC))
        assert isinstance(result.outcome, Score)
        assert result.outcome.value == expected


async def test_the_worked_exporter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Installed as somebody's package, named in a configuration, against a server that is busy at first."""
    (tmp_path / "worked_exporter.py").write_text(shown("python", "exporter"))
    installed = tmp_path / "acme-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text("[evalstream.exporters]\nwebhook = worked_exporter:WebhookExporter\n")
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
            "export": {"webhook": {"url": url}},
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
