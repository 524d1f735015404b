"""What CONTRIBUTING.md shows works as it stands there."""

from __future__ import annotations

import asyncio
import importlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from collector.app import running
from collector.config.loading import check
from collector.evaluate.plan import NoJudge
from collector.logs.log import Record
from collector.records import evaluation_from_json, evaluation_to_json
from evaluators.cases import Turn
from evaluators.outcome import Evaluation, Score, Subject
from evaluators.run import run

Handler = Callable[[web.Request], Awaitable[web.Response]]
CONTRIBUTING = Path(__file__).parents[2] / "CONTRIBUTING.md"


def shown(name: str) -> str:
    code = re.search(rf"<!-- {name}:begin -->\n```python\n(.*?)```", CONTRIBUTING.read_text(), re.DOTALL)
    assert code is not None
    return code[1]


async def test_the_worked_evaluator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "worked_example.py").write_text(shown("evaluator"))
    monkeypatch.syspath_prepend(tmp_path)
    worked: Any = importlib.import_module("worked_example")
    brevity = worked.Brevity(name="short", limit=10)
    for length, expected in ((5, 1.0), (10, 1.0), (15, 0.5), (20, 0.0), (99, 0.0)):
        turn = Turn(turn_id="t", input="?", actual_output="x" * length)
        result = await run(brevity, turn, NoJudge(), now=lambda: datetime.now(UTC))
        assert isinstance(result.outcome, Score)
        assert result.outcome.value == expected


async def test_the_worked_exporter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Installed as somebody's package, named in a configuration, against a server that is busy at first."""
    (tmp_path / "worked_exporter.py").write_text(shown("exporter"))
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
            async with asyncio.timeout(30):
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
