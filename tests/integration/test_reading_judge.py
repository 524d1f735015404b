"""A judge that reads a long run, through a running service: its record, `explain`, and what `check` says it costs."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

from chat_server import rating, serving
from running_service import ledger
from typer.testing import CliRunner

from collector.cli import app
from collector.config.loading import load
from collector.logs.log import Record
from collector.records.json import turn_to_json
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


async def test_a_long_run_is_read_and_the_record_says_what(tmp_path: Path) -> None:
    async with serving(respond) as judge:
        settings = {
            "log": {"kind": "sqlite", "path": str(tmp_path / "logs.db")},
            "judges": {"reader": {"model": "m", "base_url": judge.base_url}},
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
    (record,) = records
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
    assert "up to 4 requests more, with 131,072 characters of it each" in said
