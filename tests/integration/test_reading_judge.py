"""A judge that reads a long run, through a running service: its record, `explain`, and what `check` says it costs."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import aiohttp
from chat_server import rating, serving
from running_service import ledger
from typer.testing import CliRunner

from collector.cli import app
from collector.config.loading import load
from collector.logs.log import Record
from collector.records.json import evaluation_from_json, turn_to_json
from collector.service.app import running
from evaluators.cases import ToolCall, Turn

BAD = 173


def long_run() -> Turn:
    calls = (
        ToolCall(
            name="look_up",
            arguments={"order": number},
            result="fine " * 400 + ("permission denied " if number == BAD else "") + "fine " * 400,
        )
        for number in range(1, 301)
    )
    return Turn(
        turn_id="t1", conversation_id="c1", input="Check all.", actual_output="All fine.", tools_called=tuple(calls)
    )


def respond(body: dict[str, Any], _number: int) -> Any:
    """Searches, reads what it finds, and judges by what it was shown."""
    content = str(body["messages"][-1]["content"])
    if '"done"' in str(body["messages"]):
        steps = [int(number) for number in re.findall(r"step (\d+): …", content)]
        return json.dumps({"read": steps, "search": ["permission denied"], "done": '"read":{}' not in content})
    return rating(0 if "permission denied fine" in content else 10)


class Recorded:
    """Answers as `respond` did; once it is `closed`, only what it has answered before."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.closed = False

    def __call__(self, body: dict[str, Any], number: int) -> Any:
        asked = re.sub(r"\b[0-9a-f]{8,32}\b", "", json.dumps(body["messages"]))  # the fence's marks and the key
        known = self.answers.get(asked, "never asked") if self.closed else respond(body, number)
        return self.answers.setdefault(asked, known)


async def questions(service: Any, evaluation_id: str) -> Any:
    async with aiohttp.ClientSession() as session, asyncio.timeout(30):
        while True:
            url = f"http://127.0.0.1:{service.page_port}/api/evaluations/{evaluation_id}/questions"
            async with session.get(url) as response:
                if response.status == 200:
                    return await response.json()
            await asyncio.sleep(0.1)


async def test_a_long_run_is_read_and_the_record_says_what(tmp_path: Path) -> None:
    recorded = Recorded()
    async with serving(recorded) as judge:
        settings = {
            "log": {"kind": "sqlite", "path": str(tmp_path / "logs.db")},
            "judges": {
                "reader": {
                    "model": "m",
                    "base_url": judge.base_url,
                    "usd_per_million_input_tokens": 1.0,
                    "usd_per_million_output_tokens": 0.0,
                }
            },
            "page": {"port": 0},
            "evaluators": {
                "sound": {
                    "kind": "g_eval",
                    "evaluation_steps": ["Is every call free of faults?"],
                    "evaluation_params": ["input", "actual_output", "tools_called"],
                    "mode": "single",
                    "reads": 4,
                }
            },
            "monitors": {"all": {"evaluators": ["sound"]}},
        }
        path = tmp_path / "evalstream.yaml"
        path.write_text(json.dumps(settings))
        async with running(load(path)) as service:
            await service.logs.turns.append([Record(b"c1", turn_to_json(long_run()))])
            async with asyncio.timeout(60):
                while not (records := await ledger(service)):
                    await asyncio.sleep(0.1)
            shown = await questions(service, records[0].evaluation_id)
        recorded.closed = True
        again = tmp_path / "again.jsonl"
        command = ["compare", "evaluators", "-c", str(path), "--output", str(again)]
        replayed = await asyncio.to_thread(CliRunner().invoke, app, command)
    (record,) = records
    assert replayed.exit_code == 0, replayed.output
    (repeated,) = map(evaluation_from_json, again.read_bytes().splitlines())
    assert (repeated.error, repeated.score, repeated.details) == (None, record.score, record.details), (
        "a replay is equal"
    )
    assert [question["message"].count("permission denied fine") for question in shown["questions"]] == [0, 2]
    assert "calls read whole" in shown["questions"][-1]["message"], "the judgement is shown as it was sent"
    assert record.error is None, record.error
    assert record.score == 0.0
    assert record.details["reading"] == {"read": [BAD], "searched": ["permission denied"], "requests": 3}
    assert record.usage is not None
    assert record.usage.calls == 4
    explained = await asyncio.to_thread(CliRunner().invoke, app, ["explain", record.evaluation_id, "-c", str(path)])
    assert f"read       steps {BAD} whole, in 3 requests" in explained.stdout
    assert "searched for 'permission denied'" in explained.stdout
    checked = await asyncio.to_thread(CliRunner().invoke, app, ["check", "--verbose", "-c", str(path)])
    said = " ".join(checked.stdout.split())
    assert "up to 4 more requests, with 655,360 characters in all: ≈ 0.17 USD more at most" in said
