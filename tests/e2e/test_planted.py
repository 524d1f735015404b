"""A record that ends the process again and again is left out at the fourth start; all others are judged once.

Each of these starts four processes. The short form is `tests/unit/logs/test_processing_journal.py`.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import planted
import pytest
from kafka import KafkaProducer
from made_up import Trace, chat
from service import ServiceProcess, until_ledger
from topics import Topics

LIVES = 3
OTHERS = 6
STALL_AFTER = 2.0
STATUS = {
    "exit": {9},
    "crash": {-signal.SIGSEGV},
    "loop": {70},
    "lock": {-signal.SIGPROF},
    "error": {1},
}


def configuration(**changes: Any) -> dict[str, Any]:
    return {
        "log": {"kind": "sqlite", "path": "evalstream.db"},
        "assemble": {"idle_timeout": "1s", "allowed_lateness": "30s"},
        "redact": {"detectors": ["patterns", "planted"]},
        "evaluators": {"planted": {"kind": "planted:PlantedEvaluator"}},
        "monitors": {"all": {"evaluators": ["planted"]}},
        "export": {"planted": {}},
        "dead_letters": {"stall_after": STALL_AFTER},
    } | changes


def traces(where: str, how: str) -> list[Trace]:
    """Those of the others, and one among them that is planted."""
    made = [turn(number, {}) for number in range(OTHERS + 1)]
    text = f"{where}: planted {how}"
    match where:
        case "dialect":
            made[2] = turn(2, {"planted.dialect": text})
        case "exporter":
            made[2] = turn(2, {"gen_ai.conversation.id": text})
        case _:
            made[2] = turn(2, {}, question=text)
    return made


def turn(number: int, attributes: dict[str, Any], question: str = "") -> Trace:
    asked = chat(question or f"question {number}", "An answer.", **{"gen_ai.conversation.id": f"c-{number}"})
    return Trace(f"{number + 1:032x}", start=time.time_ns()).span(number + 1, "chat", {**asked, **attributes}, at=0)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planted.install(tmp_path / "packages")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "packages"))


async def dead_letters(process: ServiceProcess) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "collector.cli", "dead-letters", "list", "--json", "-c", str(process.path)]
    listing = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, cwd=process.folder)
    output, _ = await listing.communicate()
    assert listing.returncode == 0
    return [json.loads(line) for line in output.splitlines()]


async def lives_and_deaths(process: ServiceProcess, how: str) -> None:
    """Three starts end; the first has started already. The fourth does not end."""
    for life in range(LIVES):
        if life:
            await process.launch()
        status = await process.ended()
        assert status in STATUS[how], f"{status} in life {life + 1}: {process.stderr.read_text()[-3000:]}"
    await process.start()


LONG = pytest.mark.long
ON_SQLITE = [
    ("dialect", "exit"),
    ("dialect", "crash"),
    ("dialect", "loop"),
    ("dialect", "lock"),
    ("evaluator", "exit"),
    ("evaluator", "loop"),
    ("exporter", "exit"),
    ("exporter", "error"),
]


@LONG
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("where", "how"), ON_SQLITE)
@pytest.mark.usefixtures("installed")
async def test_on_sqlite(where: str, how: str, tmp_path: Path) -> None:
    process = ServiceProcess(tmp_path, configuration())
    try:
        await process.start()
        spans = [each.spans for each in traces(where, how)]
        for each in spans[1:]:
            spans[0].MergeFrom(each)
        assert await process.post("spans.pb", spans[0].SerializeToString()) == 200
        if how != "error":  # an error pauses the consumer alone, which leaves the record out after three failures
            await lives_and_deaths(process, how)
        await assert_the_others_are_judged_once(process, where)
    finally:
        await process.end()


@pytest.mark.kafka
@LONG
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("where", "how"), [("dialect", "exit"), ("dialect", "loop"), ("redactor", "crash")])
@pytest.mark.usefixtures("installed")
async def test_on_kafka(where: str, how: str, tmp_path: Path, kafka_broker: Any) -> None:
    topics = Topics(kafka_broker.bootstrap)
    producer = KafkaProducer(bootstrap_servers=kafka_broker.bootstrap, acks="all")
    for each in traces(where, how):
        producer.send(f"{topics.name}.otlp_spans", each.spans.SerializeToString(), partition=0)
    producer.flush()
    producer.close()
    log = topics.log_settings()
    log["kafka"]["state_directory"] = str(tmp_path)
    process = ServiceProcess(tmp_path, configuration(log=log, receive={"kafka": [topics.source_settings()]}))
    try:
        await process.launch()
        await lives_and_deaths(process, how)
        await assert_the_others_are_judged_once(process, where)
    finally:
        await process.end()


async def assert_the_others_are_judged_once(process: ServiceProcess, where: str) -> None:
    judged = OTHERS + (where in {"evaluator", "exporter"})  # those are evaluations that fail, or do not go out
    await until_ledger(process, judged)
    async with asyncio.timeout(60):
        while not (where == "evaluator" or "is left out" in process.stderr.read_text()):
            await asyncio.sleep(0.1)
    await asyncio.sleep(1.5)  # whatever comes again has come
    assert await process.stop() == 0
    ledger = await process.ledger()
    assert Counter(each.evaluation_id for each in ledger).most_common(1)[0][1] == 1
    assert len(ledger) == judged
    failed = [each.error.type for each in ledger if each.error is not None]
    letters = await dead_letters(process)
    if where == "evaluator":
        assert failed == ["process_ended"]
        assert letters == []
        return
    assert failed == []
    [letter] = letters
    stages = {"dialect": "assemble", "exporter": "export", "redactor": "receive"}
    assert (letter["stage"], letter["kind"]) == (stages[where], "FatalRecord")
    assert "3 times in a row" in letter["reason"]
    assert "planted" not in json.dumps({**letter, "source": ""})


@LONG
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("installed")
async def test_kills_from_outside_leave_nothing_out(tmp_path: Path) -> None:
    process = ServiceProcess(tmp_path, configuration())
    try:
        for number in range(6):
            await process.start()
            spans = turn(number, {}).spans
            assert await process.post("spans.pb", spans.SerializeToString()) == 200
            await process.kill()
        await process.start()
        await until_ledger(process, 6)
        assert await process.stop() == 0
        assert await dead_letters(process) == []
    finally:
        await process.end()
