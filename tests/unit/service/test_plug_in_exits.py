"""A plug-in's own task that calls `sys.exit` costs what awaits it, and does not end the service."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import pytest
import uvloop

from collector.service import app
from collector.service.app import run_despite_exits
from evaluators import GEval, evaluate
from evaluators.cases import Turn
from evaluators.results import Failure
from evaluators.testing import ScriptedJudge

HELPFUL = GEval(name="helpful", evaluation_steps=("Help?",), evaluation_params=("actual_output",), mode="single")


async def exits() -> None:
    await asyncio.sleep(0)
    sys.exit("secret")


class Exiting(ScriptedJudge):
    """Asks in a task of its own, as a client library does."""

    async def ask(self, *_: Any, **__: Any) -> Any:
        async with asyncio.TaskGroup() as group:
            group.create_task(exits())


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_the_evaluation_fails_and_the_service_runs_on(
    new_loop: Callable[[], asyncio.AbstractEventLoop], caplog: pytest.LogCaptureFixture
) -> None:
    ended: list[object] = []

    async def serving() -> None:
        other = asyncio.create_task(asyncio.sleep(0.1, "went on"))
        for _ in range(2):
            ended.append((await evaluate(HELPFUL, Turn(actual_output="Yes."), Exiting(()))).outcome)
        ended.append(await other)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        run_despite_exits(runner.get_loop(), serving())
    assert [type(each) for each in ended] == [Failure, Failure, str]
    [line] = [each.getMessage() for each in caplog.records if "sys.exit" in each.getMessage()]
    assert line.startswith("a task of a plug-in has called sys.exit (SystemExit at ")
    assert "secret" not in line


def test_an_exit_of_the_service_itself_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def until_stopped(*_: object, **__: object) -> None:
        exiting = asyncio.create_task(exits())
        await asyncio.sleep(0.1)
        assert isinstance(exiting.exception(), SystemExit)
        sys.exit(7)

    monkeypatch.setattr(app, "_until_stopped", until_stopped)
    monkeypatch.setattr(app, "log_as_json", lambda _level: None)
    with pytest.raises(SystemExit) as ended:
        app.serve(None, frozenset(), log_level="info")  # type: ignore[arg-type]
    assert ended.value.code == 7
