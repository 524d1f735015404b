"""The backup of the documentation: a copy made while the service writes is whole, and a service starts from it."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from service import ServiceProcess, until_ledger

PAGE = (Path(__file__).parents[2] / "deploy" / "docs" / "upgrade-and-backup.md").read_text(encoding="utf-8")


def trace() -> tuple[str, bytes]:
    """A trace id, and a request with one answered question of now."""
    now, trace_id = time.time_ns(), secrets.token_hex(16)
    texts = {
        "openinference.span.kind": "LLM",
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": f"What is {trace_id}?",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": "An id.",
    }
    attributes = [{"key": key, "value": {"stringValue": value}} for key, value in texts.items()]
    span = {
        "traceId": trace_id, "spanId": secrets.token_hex(8), "name": "chat", "kind": 3, "attributes": attributes,
        "startTimeUnixNano": str(now - 1_000_000), "endTimeUnixNano": str(now),
    }  # fmt: skip
    return trace_id, json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode()


@pytest.mark.long
async def test_a_copy_made_while_the_service_writes_is_whole_and_a_service_starts_from_it(tmp_path: Path) -> None:
    [code] = re.findall(r'^\(umask 077; python -c "(.*)"\)$', PAGE, re.MULTILINE)
    config = {
        "log": {"kind": "sqlite", "path": "evalstream.db"},
        "assemble": {"idle_timeout": "500ms"},
        "evaluators": {"refusal": {"kind": "refusal"}},
        "monitors": {"all": {"evaluators": ["refusal"]}},
    }
    (tmp_path / "first").mkdir()
    (tmp_path / "restored").mkdir()
    first = ServiceProcess(tmp_path / "first", json.loads(json.dumps(config)))
    restored = ServiceProcess(tmp_path / "restored", json.loads(json.dumps(config)))
    accepted: list[str] = []
    stopping = asyncio.Event()

    async def write() -> None:
        while not stopping.is_set():
            trace_id, body = trace()
            if await first.post("traces", body, "application/json") == 200:
                accepted.append(trace_id)

    try:
        await first.start()
        writer = asyncio.create_task(write())
        async with asyncio.timeout(30):
            while len(accepted) < 100:
                await asyncio.sleep(0.05)
        before = list(accepted)
        async with asyncio.timeout(30):
            while len(accepted) == len(before):  # until one is made while it is written to, on however busy a machine
                before = list(accepted)
                (first.folder / "evalstream-copy.db").unlink(missing_ok=True)
                copying = await asyncio.create_subprocess_exec(sys.executable, "-c", code, cwd=first.folder)
                assert await copying.wait() == 0
        stopping.set()
        await writer
        (first.folder / "evalstream-copy.db").rename(restored.folder / "evalstream.db")
        await restored.start()
        ledger = await until_ledger(restored, len(before))
        judged = Counter(each.subject.trace_id for each in ledger)
        assert set(before) <= set(judged)
        assert set(judged.values()) == {1}
        _, body = trace()
        assert await restored.post("traces", body, "application/json") == 200, "it takes what comes"
    finally:
        await first.end()
        await restored.end()
