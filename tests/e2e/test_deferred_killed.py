"""SIGKILL of a service whose evaluations wait for batches, at each step: nothing is sent twice, nothing is lost."""

from __future__ import annotations

import asyncio
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from batch_server import BatchServer, batch_server, nothing
from service import ServiceProcess
from test_batches import INPUT_PRICE, OUTPUT_PRICE
from topics import Topics

from collector.config.settings import LogSettings
from collector.logs.log import Record
from collector.records.json import turn_to_json
from collector.service.open_logs import open_logs
from evaluators.cases import Turn

COUNT = 24
RUN = """
import sys
from pathlib import Path
from collector.config.loading import load
from collector.service import evaluate as deferred
from collector.service.app import serve
from evaluators.judges.batches.batch_terms import BatchPace

deferred.PACE = BatchPace(first_look=0.1, longest_look=0.2, settled=1.0, first_retry=0.05, patience=float("inf"))
serve(load(Path(sys.argv[1])), frozenset({"evaluate", "export"}))
"""
STEPS = [
    "before at_once", "after at_once", "before upload", "after upload", "before create", "after create",
    "before look", "after look", "before content", "within content", "after content",
]  # fmt: skip
FILELESS = {("before upload", "anthropic"), ("after upload", "anthropic")}


class BatchingService(ServiceProcess):
    """A service that looks at its batches all the time."""

    async def launch(self) -> asyncio.subprocess.Process:
        with self.stderr.open("ab") as stderr:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", RUN, str(self.path), stdout=stderr, stderr=stderr, cwd=self.folder,
                env=dict(os.environ),
            )  # fmt: skip
        return self._process


def configuration(url: str, log: dict[str, Any], **judge: Any) -> dict[str, Any]:
    prices = {"usd_per_million_input_tokens": INPUT_PRICE, "usd_per_million_output_tokens": OUTPUT_PRICE}
    helpful = {
        "kind": "g_eval",
        "evaluation_steps": ["Say whether it answers."],
        "evaluation_params": ["input", "actual_output"],
    }
    return {
        "log": log,
        "receive": {"otlp_http": None},
        "evaluate": {"gather": 0.5, "shutdown_grace": 1.0},
        "judges": {"main": {"model": "m", "base_url": url, **prices, **judge}},
        "evaluators": {"helpful": helpful},
        "monitors": {"all": {"evaluators": ["helpful"], "urgency": "hours"}},
    }


async def send(folder: Path, log: dict[str, Any], first: int = 0, count: int = COUNT) -> None:
    records = [
        Record(
            f"c{n}".encode(),
            turn_to_json(Turn(turn_id=f"t{n}", conversation_id=f"c{n}", input=f"What is {n}?", actual_output="It.")),
        )
        for n in range(first, first + count)
    ]
    settings = LogSettings.model_validate(log)
    async with open_logs(settings.model_copy(update={"path": str(folder / settings.path)})) as logs:
        await logs.turns.append(records)


async def made(process: ServiceProcess, count: int = COUNT, within: float = 60.0) -> list[dict[str, Any]]:
    """The evaluations, when there are so many."""
    try:
        async with asyncio.timeout(within):
            while len(ledger := await process.ledger()) < count:
                await asyncio.sleep(0.3)
    except TimeoutError:
        said = process.stderr.read_text()[-3000:]
        raise AssertionError(f"too few evaluations after {within} s; the service said: {said}") from None
    return [{"id": each.evaluation_id, "outcome": each.outcome, "cost": each.cost_usd} for each in ledger]


def assert_once(server: BatchServer, ledger: Sequence[dict[str, Any]], count: int = COUNT, lost: int = 0) -> None:
    """Each question was sent once but for those whose answer was lost with a process, each evaluation made once."""
    assert Counter(each["outcome"] for each in ledger) == {"scored": count}
    assert len({each["id"] for each in ledger}) == count
    assert Counter(server.submitted.values()) == {1: len(server.submitted)}
    assert len(set(server.submitted) & set(server.at_once)) <= lost
    assert len(set(server.submitted) | set(server.at_once)) <= count + lost
    assert server.submitted.total() + server.at_once.total() == count + lost


def killing(server: BatchServer, process: ServiceProcess, step: str) -> asyncio.Event:
    """Kill the process when it comes to a step, once."""
    killed = asyncio.Event()

    async def kill(name: str) -> None:
        if name == step and not killed.is_set():
            killed.set()
            server.step = nothing
            await process.kill()
            if name.startswith("before"):
                raise web.HTTPServiceUnavailable  # the request is lost with its sender

    server.step = kill
    return killed


@asynccontextmanager
async def ending(*processes: ServiceProcess) -> AsyncIterator[None]:
    try:
        yield
    finally:
        for each in processes:
            await each.end()


def cases() -> list[Any]:
    """A kill at each step takes most of a minute: the second provider's are for a night, but for where it differs."""
    pairs = [(step, api) for step in STEPS for api in ("chat", "anthropic") if (step, api) not in FILELESS]
    return [
        pytest.param(step, api, marks=pytest.mark.long if api == "chat" or "create" in step else pytest.mark.nightly)
        for step, api in pairs
    ]


@pytest.mark.parametrize(("step", "api"), cases())
async def test_killed_at_a_step_over_sqlite(tmp_path: Path, step: str, api: str) -> None:
    async with batch_server(looks=2) as server:
        log = {"kind": "sqlite", "path": "log.db"}
        process = BatchingService(tmp_path, configuration(server.base_url, log, api=api))
        async with ending(process):
            killed = killing(server, process, step)
            await send(tmp_path, log)
            await process.launch()
            async with asyncio.timeout(60):
                await killed.wait()
            await process.ended()
            await process.start()
            # An answer that was on its way to a process that is dead is the one thing that nobody can have.
            assert_once(server, await made(process), lost=int(step == "after at_once"))
        # A restart asks one more at once, as it does not know yet what the endpoint takes.
        assert server.at_once.total() <= 3


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("step", ["before create", "after create", "after look", "within content"])
async def test_killed_at_a_step_over_kafka(kafka_broker: Any, tmp_path: Path, step: str) -> None:
    """The one that takes the partitions over knows what was sent."""
    log = Topics(kafka_broker.bootstrap).log_settings()
    log["kafka"] |= {"session_timeout": 6.0}
    log["kafka"].pop("group_instance_id")
    async with batch_server(looks=2) as server:
        first, second = (folder_of(tmp_path, name) for name in ("first", "second"))
        process = BatchingService(first, configuration(server.base_url, log))
        successor = BatchingService(second, configuration(server.base_url, log))
        async with ending(process, successor):
            killed = killing(server, process, step)
            await process.start()
            await send(tmp_path, log)
            async with asyncio.timeout(120):
                await killed.wait()
            await process.ended()
            await successor.start()
            assert_once(server, await made(successor, within=120))


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.timeout(300)
async def test_partitions_move_while_batches_wait(kafka_broker: Any, tmp_path: Path) -> None:
    """To a process that comes, and from one that is killed to those that are there."""
    log = Topics(kafka_broker.bootstrap).log_settings()
    log["kafka"] |= {"session_timeout": 6.0}
    log["kafka"].pop("group_instance_id")
    async with batch_server(looks=10**9) as server:
        processes = [
            BatchingService(folder_of(tmp_path, name), configuration(server.base_url, log)) for name in ("a", "b", "c")
        ]
        first, second, third = processes
        async with ending(*processes):
            await first.start()
            await send(tmp_path, log)
            await batches(server, 3)
            await second.start()
            await send(tmp_path, log, first=COUNT)
            await batches(server, 6)
            await first.kill()
            await third.start()
            await send(tmp_path, log, first=2 * COUNT)
            await batches(server, 9)
            await second.stop()
            await asyncio.sleep(8.0)
            server.looks = 1
            ledger = await made(third, 3 * COUNT, within=120)
            assert_once(server, ledger, 3 * COUNT)
            assert len(server.batches) <= 9 + 3


def folder_of(folder: Path, name: str) -> Path:
    (folder / name).mkdir()
    return folder / name


async def batches(server: BatchServer, count: int) -> None:
    """Wait until so many were submitted, and time has passed to submit more."""
    async with asyncio.timeout(120):
        while len(server.batches) < count:
            await asyncio.sleep(0.1)
    await asyncio.sleep(1.0)
