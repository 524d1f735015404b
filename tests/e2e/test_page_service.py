"""The page as a part of `evalstream run`: it shows what was judged, takes labels, and comes back after a kill."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from payloads import exchanges, requests
from service import ServiceProcess, free_port, service
from stand_in_judge import serve_judge
from topics import Topics

DIALECT = "otel-genai-openai-span"


def configuration(judge: str, port: int) -> dict[str, Any]:
    return {
        "log": {"kind": "sqlite", "path": "evalstream.db"},
        "assemble": {"idle_timeout": "500ms", "allowed_lateness": "5s"},
        "judges": {"stand-in": {"model": "stand-in", "base_url": judge}},
        "evaluators": {
            "helpful": {
                "kind": "g_eval",
                "criteria": "Does the actual output answer the input?",
                "evaluation_params": ["input", "actual_output"],
                "threshold": 0.5,
            },
        },
        "monitors": {"all": {"evaluators": ["helpful"]}},
        "page": {"port": port},
    }


class Asked:
    """The page of a process, asked over HTTP."""

    def __init__(self, port: int) -> None:
        self.base = f"http://127.0.0.1:{port}/api"

    async def get(self, path: str) -> Any:
        async with aiohttp.ClientSession() as session, session.get(f"{self.base}/{path}") as response:
            assert response.status == 200
            return await response.json()

    async def label(self, evaluation_id: str, **said: Any) -> None:
        async with aiohttp.ClientSession() as session:
            path = f"{self.base}/evaluations/{evaluation_id}/labels"
            async with session.post(path, json=said) as response:
                assert response.status == 201

    async def rows(self, count: int) -> list[dict[str, Any]]:
        """All rows, when there are so many."""
        async with asyncio.timeout(60):
            while True:
                rows = (await self.get("evaluations?range=7d&limit=500"))["rows"]
                if len(rows) >= count:
                    return rows
                await asyncio.sleep(0.1)

    async def conversation(self, evaluation_id: str) -> None:
        """Wait until the judged turn is shown with an evaluation: turns are read back beside the evaluations."""
        async with asyncio.timeout(60):
            while True:
                opened = await self.get(f"evaluations/{evaluation_id}")
                if any(turn["judged"] and turn["actual_output"] for turn in opened["conversation"]):
                    return
                await asyncio.sleep(0.1)


async def judged(process: ServiceProcess, page: Asked) -> list[dict[str, Any]]:
    for name, body in requests(DIALECT):
        assert await process.post(name, body) == 200
    return await page.rows(len(exchanges((DIALECT,))))


@pytest.mark.long
@pytest.mark.kafka
async def test_the_same_over_kafka(tmp_path: Path, kafka_broker: Any) -> None:
    await labelled_and_killed(tmp_path, log=Topics(kafka_broker.bootstrap).log_settings())


async def test_labels_and_evaluations_are_there_again_after_a_kill_and_nothing_is_judged_twice(tmp_path: Path) -> None:
    await labelled_and_killed(tmp_path)


async def labelled_and_killed(folder: Path, **changes: Any) -> None:
    page = Asked(port := free_port())
    async with serve_judge() as judge, service(folder, configuration(judge, port) | changes) as process:
        rows = await judged(process, page)
        scored = next(row for row in rows if row["outcome"] == "scored")
        await page.label(scored["id"], opinion="disagree", score=0.1)
        await asyncio.sleep(1.5)  # everything has committed
        await process.kill()
        await process.start()
        async with asyncio.timeout(60):  # labels come by a log of their own, after the evaluations or before them
            while (again := {row["id"]: row for row in await page.rows(len(rows))})[scored["id"]]["label"] is None:
                await asyncio.sleep(0.1)
        assert {name: row["score"] for name, row in again.items()} == {row["id"]: row["score"] for row in rows}
        assert again[scored["id"]]["label"]["opinion"] == "disagree"
        await page.conversation(scored["id"])
        ledger = Counter(each.evaluation_id for each in await process.ledger())
        assert set(ledger) == {row["id"] for row in rows}
        assert set(ledger.values()) == {1}
        assert 'result="unreadable"' not in await process.metrics()
        await until_metric(process, 'evalstream_judge_agreement_labels{evaluator="helpful"', 1.0)
        found = await calibrated(process)
        assert (found["segments"][0]["labels"], found["threshold"]) == (1, 0.5)
        assert "does not say how they were drawn" in found["notes"][0]


async def until_metric(process: ServiceProcess, prefix: str, value: float) -> None:
    """Wait until a metric whose line begins so has the value."""
    async with asyncio.timeout(90):
        while not any(
            line.startswith(prefix) and float(line.rsplit(" ", 1)[1]) == value
            for line in (await process.metrics()).splitlines()
        ):
            await asyncio.sleep(0.1)


async def calibrated(process: ServiceProcess) -> Any:
    """What `evalstream calibrate` makes of the page's labels while the service runs."""
    command = [sys.executable, "-m", "collector.cli", "calibrate", "-c", str(process.path), "--evaluator", "helpful"]
    ran = await asyncio.create_subprocess_exec(
        *command, "--json", cwd=process.folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    said, complaint = await ran.communicate()
    assert ran.returncode == 0, complaint.decode()
    return json.loads(said)
