"""Runs the demo: application, service and judge in one process, and a screen to watch them."""

import asyncio
import os
import random
import signal
import socket
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live

from collector.config.configured import Config
from collector.config.loading import check, judge_of_environment
from collector.demo.application import Helpdesk, tracing
from collector.demo.judge import MODEL, serve_judge
from collector.demo.screen import DemoState, Scene, render, summary
from collector.errors import ConfigError
from collector.logs.log import StoredRecord, UntimedFold
from collector.records.epochs import fenced
from collector.records.json import evaluation_from_json, turn_from_json
from collector.records.shared_records import divide_records
from collector.service.app import Running, running

CONVERSATION_EVERY = 1.2
"""Seconds between the starts of two conversations."""
LINES_EVERY = 5.0
"""Seconds between two lines where there is no terminal."""


@dataclass(frozen=True, slots=True)
class DemoSettings:
    """The options of the command line. Times in seconds; `duration` None means until Ctrl-C."""

    duration: float | None
    worse_after: float
    port: int
    metrics_port: int
    page_port: int = 0


_GROUNDED = "Is what the actual output says supported by the retrieval context?"
_PORTS = {"receive.otlp_http.port": "--port", "export.prometheus.port": "--metrics-port", "page.port": "--page-port"}


def run_demo(settings: DemoSettings) -> int:
    """Run the demo until its end; returns the exit status.

    Raises:
        ConfigError: a port is taken; it names the option, as the demo has no configuration file.
    """
    import uvloop

    if not settings.metrics_port:
        settings = replace(settings, metrics_port=_free_port())
    with tempfile.TemporaryDirectory(prefix="evalstream-demo-") as folder:
        try:
            uvloop.run(_demo(settings, Path(folder)))
        except ConfigError as error:
            text = str(error)
            for key, option in _PORTS.items():
                if text != (text := text.replace(f"write another {key}", f"add another {option}")):
                    text += f', as in: make demo ARGS="{option} 0"'
            raise ConfigError(text) from None
    return 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


async def _demo(settings: DemoSettings, folder: Path) -> None:
    board, console = DemoState(), Console()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signals in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(signals, stop.set)
    async with _judge(os.environ) as judge, running(_config(settings, judge, folder)) as service:
        started = time.monotonic()
        scene = Scene(
            judge=judge["model"],
            metrics_url=f"http://127.0.0.1:{settings.metrics_port}/metrics",
            otlp_url=f"http://127.0.0.1:{service.otlp_port}",
            page_url=f"http://127.0.0.1:{service.page_port}/?range=5m",
            worse_after=settings.worse_after,
        )

        def elapsed() -> float:
            return time.monotonic() - started

        async with asyncio.TaskGroup() as tasks:
            work = _watch(service, board, elapsed), _converse(scene, elapsed), _show(board, scene, console, elapsed)
            parts = [tasks.create_task(part) for part in work]
            with suppress(TimeoutError):
                async with asyncio.timeout(settings.duration):
                    await stop.wait()
            for part in parts:
                part.cancel()
        seconds = elapsed()
    for line in summary(board, scene, seconds):
        console.print(line, highlight=False, soft_wrap=True)


@asynccontextmanager
async def _judge(environment: Mapping[str, str]) -> AsyncGenerator[dict[str, Any]]:
    """The judge's settings: the user's own where the environment names one, else the stand-in, started here."""
    if environment.get("OPENAI_API_KEY") or environment.get("OPENAI_BASE_URL"):
        yield judge_of_environment(environment)
        return
    async with serve_judge() as base_url:
        yield {"model": MODEL, "base_url": base_url}


def _criterion(criteria: str, *fields: str) -> dict[str, Any]:
    return {"kind": "g_eval", "criteria": criteria, "evaluation_params": fields, "threshold": 0.5}


def _config(settings: DemoSettings, judge: Mapping[str, Any], folder: Path) -> Config:
    return check(
        {
            "log": {"kind": "sqlite", "path": str(folder / "evalstream.db")},
            "receive": {"otlp_http": {"port": settings.port}},
            "assemble": {"idle_timeout": "500ms", "allowed_lateness": "5s"},
            "judges": {"judge": dict(judge)},
            "evaluators": {
                "answers_question": _criterion(
                    "Does the actual output answer the question that the input asks?", "input", "actual_output"
                ),
                "grounded": _criterion(_GROUNDED, "actual_output", "retrieval_context"),
            },
            "monitors": {"everything": {"evaluators": ["answers_question", "grounded"]}},  # the user's own traces, too
            "export": {"prometheus": {"port": settings.metrics_port}},
            "page": {"port": settings.page_port},
        },
        "the demo's configuration",
    )


async def _converse(scene: Scene, elapsed: Callable[[], float]) -> None:
    """Let users come, one conversation after the other, some at the same time."""
    chance = random.Random(7)

    async with tracing(scene.otlp_url) as tracer:
        helpdesk = Helpdesk(tracer, quality=lambda: 0.95 if elapsed() < scene.worse_after else 0.25, chance=chance)
        async with asyncio.TaskGroup() as users:
            for number in count(1):
                name = f"visit-{number:04d}"
                users.create_task(helpdesk.converse(name, turns=chance.randint(2, 4), pause=chance.uniform(0.8, 1.6)))
                await asyncio.sleep(CONVERSATION_EVERY)


class _RecordObserver(UntimedFold):
    """A fold that shows every record to a function and keeps nothing."""

    low_watermark = None

    def __init__(self, see: Callable[[StoredRecord], None]) -> None:
        self._see = see

    async def replay(self, records: Sequence[StoredRecord]) -> None:
        """Nothing to rebuild."""

    async def deliver(self, records: Sequence[StoredRecord]) -> None:
        """Show what is new."""
        for record in divide_records(records):
            if not record.headers:  # a tick, a label, or the evaluate stage's own
                self._see(record)


@asynccontextmanager
async def _seeing(see: Callable[[StoredRecord], None], *_: object) -> AsyncGenerator[_RecordObserver]:
    yield _RecordObserver(see)


async def _watch(service: Running, board: DemoState, elapsed: Callable[[], float]) -> None:
    turns, evaluations = service.logs.turns, service.logs.evaluations
    see_turns = partial(_seeing, lambda record: board.add_turn(turn_from_json(record.value)))
    see_scores = partial(_seeing, lambda record: board.add_evaluation(evaluation_from_json(record.value), elapsed()))
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(turns.follow("demo", see_turns))
        tasks.create_task(evaluations.follow("demo", fenced(evaluations, see_scores)))


async def _show(board: DemoState, scene: Scene, console: Console, elapsed: Callable[[], float]) -> None:
    if not console.is_terminal:
        await _print_lines(board, scene, console, elapsed)
        return
    with Live(render(board, scene, elapsed()), console=console, screen=True, auto_refresh=False) as live:
        while True:
            await asyncio.sleep(0.25)
            live.update(render(board, scene, elapsed()), refresh=True)


async def _print_lines(board: DemoState, scene: Scene, console: Console, elapsed: Callable[[], float]) -> None:
    """Without a terminal to draw on: a line now and then."""
    say = partial(console.print, highlight=False, soft_wrap=True)
    say(f"judge: {scene.judge}; /metrics on {scene.metrics_url}; OTLP on {scene.otlp_url}")
    say(f"page: {scene.page_url}; means are of the last {LINES_EVERY:g} s; Ctrl-C ends it")
    while True:
        await asyncio.sleep(LINES_EVERY)
        now = elapsed()
        means = "  ".join(
            f"{name} {mean:.2f}"
            for name, series in sorted(board.series.items())
            if (mean := series.mean_between(now - LINES_EVERY, now + 1)) is not None
        )
        phase = "" if now < scene.worse_after else "  (bad answers, on purpose)"
        say(f"{now:4.0f} s  {board.turns} turns  {means}{phase}")
