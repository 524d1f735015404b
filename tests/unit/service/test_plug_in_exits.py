"""A plug-in's own task that calls `sys.exit` costs what awaits it, and does not end the service."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import uvloop

from collector.service import app
from collector.service.tasks import run_despite_exits
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

    run_despite_exits(serving(), new_loop)
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


def test_a_task_that_exits_while_the_work_ends_does_not_replace_its_result() -> None:
    left: list[asyncio.Task[None]] = []

    async def work() -> str:
        left.append(asyncio.create_task(exits()))
        await asyncio.sleep(0)
        return "done"

    assert run_despite_exits(work()) == "done"
    assert isinstance(left[0].exception(), SystemExit)


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Python's own handler of the signal, which another test of this process may have replaced."""
    earlier = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, earlier)


@pytest.mark.usefixtures("ctrl_c")
def test_an_error_and_ctrl_c_end_the_work_as_with_asyncio_run() -> None:
    cleaned: list[str] = []

    async def work(*, interrupted: bool) -> None:
        exiting = asyncio.create_task(exits())
        await asyncio.wait((exiting,))
        assert isinstance(exiting.exception(), SystemExit)
        try:
            if interrupted:
                signal.raise_signal(signal.SIGINT)
                await asyncio.sleep(10)
            raise ValueError("wrong")
        finally:
            cleaned.append("cleaned")

    with pytest.raises(ValueError, match="wrong"):
        run_despite_exits(work(interrupted=False))
    with pytest.raises(KeyboardInterrupt):
        run_despite_exits(work(interrupted=True))
    assert cleaned == ["cleaned"] * 2
