"""A configuration with a stand-in judge, a service on it, and what is in its ledger: for tests of what is made again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from click.testing import Result
from faulty_judge import Faults, FaultyJudge
from prometheus_client import generate_latest
from stand_in_judge import serve_judge
from typer.testing import CliRunner

from collector.cli import app
from collector.config.loading import load
from collector.logs.log import Record
from collector.records.json import evaluation_from_json, turn_to_json
from collector.service.app import Running, running
from collector.service.open_logs import open_logs
from evaluators.cases import Turn
from evaluators.results import Evaluation

BAD_REQUEST = Faults(reply=(400, '{"error": {"message": "this model takes no such question", "code": "bad"}}'))
"""A judge that refuses each single request: the evaluation fails, and nothing waits."""
TURNS = 4
EVALUATIONS = 2 * TURNS + TURNS  # two turn evaluators, and one of conversations of one turn


@dataclass
class World:
    """A folder with a configuration, and the judge that it names."""

    folder: Path
    judge: FaultyJudge
    settings: dict[str, Any]

    def configure(self, **changes: Any) -> Path:
        path = self.folder / "evalstream.yaml"
        path.write_text(yaml.safe_dump(self.settings | changes))
        return path

    async def command(self, name: str, *arguments: str, config: Path | None = None) -> Result:
        command = [*name.split(), "-c", str(config or self.folder / "evalstream.yaml"), *arguments]
        return await asyncio.to_thread(CliRunner().invoke, app, command)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Running]:
        async with running(load(self.folder / "evalstream.yaml"), {"evaluate", "export"}) as service:
            generate_latest(service.telemetry.registry)  # the first scrape: what it counts for Prometheus waits for it
            yield service

    async def ledger(self) -> list[Evaluation]:
        async with open_logs(load(self.folder / "evalstream.yaml").settings.log) as logs:
            return [
                evaluation_from_json(record.value)
                for partition in range(logs.evaluations.partitions)
                async for batch in logs.evaluations.read(partition, 0)
                for record in batch
                if not record.headers
            ]

    async def until(self, enough: Callable[[list[Evaluation]], bool]) -> list[Evaluation]:
        async with asyncio.timeout(60):
            while not enough(found := await self.ledger()):
                await asyncio.sleep(0.05)
        return found

    async def until_drained(self) -> None:
        """See the function of this name."""
        await until_drained(self.folder / "evalstream.yaml")

    async def fail_all(self) -> list[Evaluation]:
        """Turns come, and the judge refuses each question about them."""
        self.judge.faults = BAD_REQUEST
        async with self.serving() as service:
            await service.logs.turns.append([record(n) for n in range(TURNS)])
            failed = await self.until(lambda found: len(found) == EVALUATIONS)
            await self.until_drained()
        self.judge.faults = Faults()
        return [each for each in failed if each.outcome == "failed"]


def record(n: int) -> Record:
    turn = Turn(
        turn_id=f"t{n}",
        conversation_id=f"c{n}",
        trace_id=f"{n:032x}",
        span_id=f"{n + 1:016x}",
        input=f"Where is parcel {n}?",
        actual_output=f"Parcel {n} is where it was.",
        attributes={"agent": "closing"},
    )
    return Record(f"c{n}".encode(), turn_to_json(turn))


async def until_drained(config: Path, within: float = 90.0) -> None:
    """Wait, while the service runs, until `audit --drained` finds nothing: all is judged, exported and committed.

    What a test waits for otherwise is an evaluation in the log, and exporters may be a moment behind it. A service that
    is stopped then leaves the rest to its next start, as it should, but an audit of what it left says so.
    """
    audited = None
    try:
        async with asyncio.timeout(within):
            command = ["audit", "-c", str(config), "--drained", "--json"]
            while audited is None or audited.exit_code or _unexported(audited.output):
                audited = await asyncio.to_thread(CliRunner().invoke, app, command)
                await asyncio.sleep(0.1)
    except TimeoutError:
        said = audited.output if audited else "the audit has not answered"
        raise AssertionError(f"the service has not come to its end after {within:.0f} s: {said}") from None


def _unexported(report: str) -> int:
    """What exporters have not read; what the one for Prometheus has not counted is no problem, but a test reads it."""
    return sum(exporter["in_flight"] for exporter in json.loads(report)["exporters"])


@asynccontextmanager
async def a_world(folder: Path, log: dict[str, Any]) -> AsyncIterator[World]:
    judge = FaultyJudge()
    async with serve_judge(judge) as url:
        asked = {"evaluation_steps": ["Does it answer?"], "evaluation_params": ["input", "actual_output"]}
        prices = {"usd_per_million_input_tokens": 1.0, "usd_per_million_output_tokens": 1.0}
        settings: dict[str, Any] = {
            "log": log,
            "judges": {"main": {"model": "main", "base_url": url, **prices}},
            "evaluators": {
                "helpful": {"kind": "g_eval", **asked},
                "complete": {"kind": "completeness"},
                "short": {"kind": "length", "maximum": 2},
            },
            "monitors": {
                "all": {
                    "evaluators": ["helpful", "complete", "short"],
                    "end_markers": {"attributes": {"agent": ["closing"]}},
                }
            },
            "export": {"prometheus": {"port": 0}, "jsonl": {"path": str(folder / "out.jsonl")}},
        }
        world = World(folder, judge, settings)
        world.configure()
        yield world
