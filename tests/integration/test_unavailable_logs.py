"""Each place of the service that reads or writes a log finds it unavailable once: the service waits, and ends nothing."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
from past_world import World, a_world, record

from collector.calibration import feedback_join
from collector.config.loading import load
from collector.logs.log import LogUnavailable
from collector.logs.sqlite import SqliteLog
from collector.records.feedback import is_joined_feedback, parse_joined_feedback
from collector.service.app import STAGES, Running, running
from evaluators.results import Evaluation

TURNS = 6
METHODS = ("append", "committed", "end_offset", "start_offset")
ON_BEHALF_OF_OTHERS = (
    "collector/backoff",
    "collector/logs/log.py",
    "collector/logs/sqlite",
    "collector/logs/whole_log",
)


class Outage:
    """Every place of the code that calls a method of a log has an outage of that method, once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.places: list[str] = []
        self.begun = False
        for name in METHODS:
            monkeypatch.setattr(SqliteLog, name, self._failing(name, getattr(SqliteLog, name)))
        monkeypatch.setattr(SqliteLog, "read", self._failing_read(SqliteLog.read))

    def _is_due(self, method: str) -> bool:
        frame: Any = sys._getframe(2)
        while frame is not None and (
            "collector/" not in frame.f_code.co_filename
            or any(path in frame.f_code.co_filename for path in ON_BEHALF_OF_OTHERS)
        ):
            frame = frame.f_back
        if frame is None or not self.begun:
            return False
        place = f"{frame.f_code.co_filename.split('collector/')[-1]}:{frame.f_lineno} {method}"
        if place in self.places:
            return False
        self.places.append(place)
        return True

    def _failing(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        async def failing(log: SqliteLog, *arguments: Any) -> Any:
            if self._is_due(name):
                raise LogUnavailable(f"{name} of {log.name} fails once")
            return await method(log, *arguments)

        return failing

    def _failing_read(self, read: Callable[..., Any]) -> Callable[..., Any]:
        async def failing(log: SqliteLog, *arguments: Any) -> Any:
            if self._is_due("read"):
                raise LogUnavailable(f"reading {log.name} fails once")
            async for batch in read(log, *arguments):
                yield batch

        return failing


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setattr(feedback_join, "SETTLE", 0.3)
    async with a_world(tmp_path, {"path": str(tmp_path / "evalstream.db")}) as world:
        yield world


async def post(service: Running, path: str, *documents: Any) -> int:
    """Send until it is taken: what is refused for now is the sender's to repeat."""
    async with aiohttp.ClientSession() as session, asyncio.timeout(20):
        while True:
            address = f"http://127.0.0.1:{service.otlp_port}/v1/{path}"
            async with session.post(address, data=orjson.dumps(list(documents))) as response:
                if response.status != 503:
                    return response.status
            await asyncio.sleep(0.1)


async def until_joined(service: Running, count: int) -> None:
    async with asyncio.timeout(60):
        while True:
            labels = service.logs.labels
            found = [
                parse_joined_feedback(each.value).entry.feedback_id
                for partition in range(labels.partitions)
                async for batch in labels.read(partition, 0)
                for each in batch
                if is_joined_feedback(each)
            ]
            if len(found) >= count:
                assert len(set(found)) == len(found) == count, "each once"
                return
            await asyncio.sleep(0.1)


@pytest.mark.long
@pytest.mark.timeout(180)
async def test_every_place_waits_for_a_log_that_is_away(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = world.settings["monitors"]["all"]
    settings["evaluators"] = ["helpful", "complete", "short", "exact"]
    world.configure(
        receive={"otlp_http": {"port": 0}},
        page={"port": 0},
        evaluators=world.settings["evaluators"] | {"exact": {"kind": "exact_match"}},
        monitors={"all": settings | {"references": {"wait": "1h"}}},
        feedback={"names": {"thumbs": {}}},
    )
    outage = Outage(monkeypatch)

    async def life(n: int, enough: Callable[[list[Evaluation]], bool]) -> None:
        """One process, which finds turns, references, feedback and a request for what failed."""
        outage.begun = True
        async with running(load(world.folder / "evalstream.yaml"), STAGES) as service:
            await asyncio.sleep(0.5)  # partitions open
            numbers = range(n * TURNS, (n + 1) * TURNS)
            for each in numbers:
                while True:
                    try:
                        await service.logs.turns.append([record(each)])
                        break
                    except LogUnavailable:
                        pass
            references = [{"turn_id": f"t{each}", "expected_output": "4"} for each in numbers]
            assert await post(service, "references", *references) == 200
            assert await post(service, "feedback", *[{"turn_id": f"t{each}", "value": True} for each in numbers]) == 200
            await world.until(enough)
            await until_joined(service, TURNS * (n + 1))
            outage.begun = False

    lives = 2
    for n in range(lives):
        await life(n, lambda found, n=n: len(found) >= 4 * TURNS * (n + 1))
    ledger = await world.ledger()
    assert max(Counter(each.evaluation_id for each in ledger).values()) == 1
    assert len(ledger) == 4 * TURNS * lives
    failed = {each.split(":")[0] for each in outage.places}
    assert failed >= {
        "calibration/agreement_watch.py", "calibration/feedback_stage.py", "evaluate/recovery/snapshot_writer.py",
        "evaluate/recovery/generated_steps.py", "evaluate/recovery/ledger.py", "logs/journal/guard.py",
        "page/score_series.py", "receive/otlp_ingest.py", "records/epochs.py",
    }, sorted(outage.places)  # fmt: skip
    assert len(outage.places) > len(failed)
