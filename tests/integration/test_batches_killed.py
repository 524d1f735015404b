"""SIGKILL at each step of `evalstream score --batch`: no request is submitted twice, and no evaluation is lost."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from batch_server import BatchServer, batch_server
from test_batches import evaluations, journal, prepare

COUNT = 12
RUN = """
import sys
from pathlib import Path
from collector.commands.score.score import ScoreOptions, score
from collector.config.loading import load
from evaluators.judges.batches.batch_terms import BatchPace

folder = Path(sys.argv[1])
pace = BatchPace(linger=0.2, first_look=0.05, longest_look=0.1, settled=0.5, first_retry=0.05, patience=5.0)
options = ScoreOptions(
    paths=[str(folder / "turns.jsonl")], output=folder / "out.jsonl", batch=True, pace=pace, json=True
)
sys.exit(score(load(folder / "evalstream.yaml"), options))
"""

STEPS = [
    "before list", "after at_once", "before upload", "after upload", "before create", "after create", "before look",
    "after look", "before content", "within content", "after content",
]  # fmt: skip
QUICK = {("after create", "chat"), ("within content", "anthropic")}
FILELESS = {("before upload", "anthropic"), ("after upload", "anthropic")}


async def run(folder: Path) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", RUN, str(folder), stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )


async def run_and_kill(server: BatchServer, folder: Path, step: str) -> int:
    """Run, and kill at a step; the exit status, 0 if it was never there."""
    process = await run(folder)
    killed = False

    async def kill(name: str) -> None:
        nonlocal killed
        if name == step and not killed:
            killed = True
            process.kill()
            if name.startswith("before"):
                raise web.HTTPServiceUnavailable  # the request is lost with its sender

    server.step = kill
    await process.communicate()
    server.step = _nothing
    assert process.returncode is not None
    return process.returncode


async def _nothing(_step: str) -> None: ...


async def run_to_its_end(folder: Path) -> None:
    process = await run(folder)
    _, talk = await process.communicate()
    assert process.returncode == 0, talk.decode()


def assert_once(server: BatchServer, folder: Path, count: int = COUNT) -> None:
    """Each question was submitted once and each evaluation made once; at most the first one went out twice."""
    made = evaluations(folder)
    assert sorted(each["outcome"] for each in made) == ["scored"] * count
    assert len({each["evaluation_id"] for each in made}) == count
    assert set(server.submitted.values()) == {1}
    assert not set(server.submitted) & set(server.at_once)
    assert len(server.submitted) + len(server.at_once) == count
    assert not journal(folder).exists()


def cases() -> list[Any]:
    """Each step with each provider; all but two take too long for every day."""
    pairs = [(step, api) for step in STEPS for api in ("chat", "anthropic") if (step, api) not in FILELESS]
    return [pytest.param(*each, marks=() if each in QUICK else pytest.mark.long) for each in pairs]


@pytest.mark.long
@pytest.mark.parametrize(("step", "api"), cases())
async def test_killed_at_a_step(tmp_path: Path, step: str, api: str) -> None:
    async with batch_server(looks=2) as server:
        prepare(tmp_path, server.base_url, COUNT, api=api)
        assert await run_and_kill(server, tmp_path, step) == -9
        await run_to_its_end(tmp_path)
        assert_once(server, tmp_path)
        # An answer that was on its way to a process that is dead is the one thing that nobody can have.
        assert sum(server.at_once.values()) == (2 if step == "after at_once" else 1)


@pytest.mark.long
@pytest.mark.parametrize("api", ["chat", "anthropic"])
async def test_killed_at_one_step_after_the_other(tmp_path: Path, api: str) -> None:
    async with batch_server(looks=2) as server:
        prepare(tmp_path, server.base_url, COUNT, api=api)
        for step in STEPS:
            await run_and_kill(server, tmp_path, step)
        await run_to_its_end(tmp_path)
        assert_once(server, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("lines", [1, 7])
async def test_killed_while_it_writes(tmp_path: Path, lines: int) -> None:
    """Answers are in the journal, a part of the evaluations in the output."""
    async with batch_server(looks=2) as server:
        prepare(tmp_path, server.base_url, 400)
        process = await run(tmp_path)
        await until(lambda: (tmp_path / "out.jsonl").exists() and len(evaluations_so_far(tmp_path)) > lines)
        process.kill()
        await process.communicate()
        assert len(evaluations_so_far(tmp_path)) < 400
        await run_to_its_end(tmp_path)
        assert_once(server, tmp_path, 400)


def evaluations_so_far(folder: Path) -> list[str]:
    return (folder / "out.jsonl").read_text().splitlines()


async def until(condition: Callable[[], Any], seconds: float = 30.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.001)
