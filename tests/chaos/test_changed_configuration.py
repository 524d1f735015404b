"""Another configuration under load, in one process and in three, and SIGKILL at each step of its hand-over.

Whatever happens, each turn is judged once by each evaluator, and each position by one version; `evalstream audit` agrees.
"""

from __future__ import annotations

import asyncio
import itertools
import signal
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from counted_judge import CountedJudge
from dying import CHANGES, evalstream_dying_at
from faulty_judge import Faults
from harness import EVALUATORS, configuration, log_settings, problems_of, until_drained, without_unread
from stand_in_judge import serve_judge
from traffic import turn
from workers import Worker

from collector.config.settings import LogSettings
from collector.evaluate.recovery.ledger import append_with_retry
from collector.logs.log import Log, Record
from collector.records.epochs import Fence
from collector.records.json import evaluation_from_json, turn_to_json
from collector.service.open_logs import open_logs
from evaluators.results import Evaluation

WITHIN = 150.0
LOAD = 0.05
"""Seconds between two turns."""


def edition(config: dict[str, Any], number: int) -> dict[str, Any]:
    """The same with another prompt."""
    helpful = config["evaluators"]["helpful"] | {"evaluation_steps": [f"Say whether it answers, in edition {number}."]}
    return config | {"evaluators": config["evaluators"] | {"helpful": helpful}}


def write(worker: Worker, config: dict[str, Any]) -> None:
    whole = yaml.safe_load(worker.config.read_text()) | config
    worker.config.write_text(yaml.safe_dump(whole))


def size_of(worker: Worker) -> int:
    return worker.stderr.stat().st_size if worker.stderr.exists() else 0


async def ready(worker: Worker, said: int) -> None:
    """Wait until a worker takes signals, or has died before; it had `said` so many bytes when it started."""
    async with asyncio.timeout(WITHIN):
        while worker.running and not (worker.stderr.exists() and b"ready: " in worker.stderr.read_bytes()[said:]):
            await asyncio.sleep(0.1)


async def put(turns: Log, number: int) -> None:
    """A topic that was just made may have no leader for a while."""
    made = turn(number)
    await append_with_retry(turns, Record((made.conversation_id or "").encode(), turn_to_json(made)))


async def load(turns: Log, enough: asyncio.Event) -> int:
    """Put turns until there are enough; how many."""
    for number in itertools.count():
        if enough.is_set():
            return number
        await put(turns, number)
        await asyncio.sleep(LOAD)
    raise AssertionError


async def ledger(log: Log) -> list[Evaluation]:
    """All evaluations that count."""
    made: list[Evaluation] = []
    for partition in range(log.partitions):
        fence = Fence()
        async for batch in log.read(partition, 0):
            made += [evaluation_from_json(each.value) for each in batch if fence.observe(each) and not each.headers]
    return made


async def until_made(log: Log, turns: int) -> list[Evaluation]:
    async with asyncio.timeout(WITHIN):
        while len(made := await ledger(log)) < turns * len(EVALUATORS):
            await asyncio.sleep(0.3)
    return made


def assert_each_once(made: Sequence[Evaluation], turns: int) -> None:
    """Each turn has one evaluation by each evaluator."""
    subjects = Counter((each.evaluator, each.subject.turn_id) for each in made)
    assert len(subjects) == turns * len(EVALUATORS)
    assert set(subjects.values()) == {1}, "nothing is judged by two versions"


async def killed_at_each_step(folder: Path, log: dict[str, Any]) -> None:
    enough, editions = asyncio.Event(), itertools.count(1)
    async with (
        serve_judge(CountedJudge(Faults(latency=0.02))) as url,
        open_logs(LogSettings.model_validate(log)) as logs,
    ):
        config = configuration("worker", "unused:9092", url, concurrency=4) | {
            "log": log,
            "receive": {"otlp_http": {"port": 0}},
        }
        loading = asyncio.create_task(load(logs.turns, enough))
        for step in CHANGES:
            died = Worker(
                folder, "worker", config, "--stages", "evaluate,export", entry=partial(evalstream_dying_at, step, 1)
            )
            said = size_of(died)
            died.start()
            await ready(died, said)
            await asyncio.sleep(1.0)  # it judges
            config = edition(config, next(editions))
            write(died, config)
            if died.running:
                died.send(signal.SIGHUP)
            status = await asyncio.to_thread(died.wait, WITHIN)
            assert status == -signal.SIGKILL, f"{step} was not reached: {status}; it said: {died.said()}"
        enough.set()
        turns = await loading
        last = Worker(folder, "worker", config, "--stages", "evaluate,export")
        last.start()
        made = await until_made(logs.evaluations, turns)
        await until_drained(last.config)
        assert await asyncio.to_thread(last.stop) == 0, last.said()
        assert_each_once(await ledger(logs.evaluations), turns)
        assert len({each.evaluator_version for each in made if each.evaluator == "helpful"}) >= 3, (
            "changes took effect between the kills"
        )
        assert await problems_of(last.config) == []


@pytest.mark.timeout(600)
@pytest.mark.long
async def test_killed_at_each_step_on_sqlite(tmp_path: Path) -> None:
    await killed_at_each_step(tmp_path, {"kind": "sqlite", "path": str(tmp_path / "evalstream.db")})


@pytest.mark.timeout(600)
@pytest.mark.long
@pytest.mark.kafka
async def test_killed_at_each_step_on_kafka(tmp_path: Path, kafka_broker: Any) -> None:
    log = log_settings(kafka_broker.bootstrap, "the-only-one")
    log["kafka"] |= {"prefix": f"changes-{time.time_ns()}", "partitions": 2}
    await killed_at_each_step(tmp_path, log)


@pytest.mark.timeout(600)
@pytest.mark.long
@pytest.mark.kafka
async def test_three_processes_take_it_at_one_position_of_each_partition(tmp_path: Path, kafka_broker: Any) -> None:
    """One of them sees the file change; the others follow the log. Then one is killed, and one more change comes."""
    prefix, enough = f"three-{time.time_ns()}", asyncio.Event()

    def log(name: str) -> dict[str, Any]:
        settings = log_settings(kafka_broker.bootstrap, name, session=10.0)
        settings["kafka"] |= {"prefix": prefix}
        return settings

    async with (
        serve_judge(CountedJudge(Faults(latency=0.02))) as url,
        open_logs(LogSettings.model_validate(log("watcher"))) as logs,
    ):
        configs = {
            name: configuration(name, "unused:9092", url, concurrency=8)
            | {"log": log(name), "receive": {"otlp_http": {"port": 0}}}
            for name in ("one", "two", "three")
        }
        workers = [
            Worker(tmp_path / name, name, config, "--stages", "evaluate,export") for name, config in configs.items()
        ]
        for each in workers:
            each.start()
        loading = asyncio.create_task(load(logs.turns, enough))
        await until_made(logs.evaluations, 20)
        for each in workers:
            await ready(each, 0)
        for number in (1, 2):
            write(workers[0], edition(configs["one"], number))
            workers[0].send(signal.SIGHUP)
            async with asyncio.timeout(WITHIN):
                while not all(f"configuration {number + 1} is taken" in each.said() for each in workers):
                    await asyncio.sleep(0.2)
            await asyncio.sleep(1.0)
            if number == 1:
                workers[2].kill()
                write(workers[2], edition(configs["three"], number))
                workers[2].start()
                await asyncio.sleep(2.0)
        await asyncio.sleep(2.0)
        enough.set()
        turns = await loading
        made = await until_made(logs.evaluations, turns)
        await until_drained(workers[0].config)
        for each in workers:
            assert await asyncio.to_thread(each.stop) == 0, each.said()
        assert_each_once(await ledger(logs.evaluations), turns)
        assert len({each.evaluator_version for each in made if each.evaluator == "helpful"}) == 3
        assert without_unread(await problems_of(workers[0].config)) == []
