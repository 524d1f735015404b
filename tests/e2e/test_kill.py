"""SIGKILL in the middle, as often as wanted: the same evaluations in the end, none missing, none twice."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from faulty_judge import Faults, FaultyJudge
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from payloads import WHOLE_WAY, exchanges, requests
from service import ServiceProcess, until_ledger
from stand_in_judge import serve_judge
from test_whole_way import CUT, EVALUATORS, configuration, of_whole_turns
from topics import Topics

from collector.commands.audit.audit import audit
from collector.commands.trace import trace_evaluation
from collector.config.loading import load
from collector.config.settings import LogSettings
from collector.logs.log import Log
from collector.records.shared_records import HEADERS
from collector.service.open_logs import open_logs
from evaluators.results import Evaluation

EXPECTED = EVALUATORS * len(exchanges())
WHOLE_TURNS = {
    (trace, evaluator) for each in exchanges() for trace in each["trace_ids"][:1] for evaluator in ("exact", "helpful")
}

IN_TWO_SIGNALS = {
    each["trace_ids"][0]
    for each in exchanges(tuple(name for name in WHOLE_WAY if any("logs" in file for file, _ in requests(name))))
}
"""The traces with log records."""

LATER_SEEDS = [pytest.param(seed, marks=pytest.mark.long) for seed in (2, 3)]


@pytest.mark.parametrize("seed", [1, *LATER_SEEDS])
async def test_on_sqlite_a_service_that_is_killed_again_and_again_judges_everything_once(
    seed: int, tmp_path: Path
) -> None:
    async with serve_judge(FaultyJudge(Faults(latency=0.4))) as url:
        process = ServiceProcess(tmp_path, configuration(url))
        await process.start()
        for dialect in WHOLE_WAY:
            for name, body in requests(dialect):
                assert await process.post(name, body) == 200
        assert_everything_once(await killed_and_finished(process, random.Random(seed), within=60))


@pytest.mark.long
@pytest.mark.timeout(180)
async def test_on_sqlite_traces_that_share_records_are_judged_once_through_kills(tmp_path: Path) -> None:
    """All traces come in one request of each signal, so that several share a record."""
    receive = {"otlp_http": {"port": 0}}
    async with serve_judge(FaultyJudge(Faults(latency=0.4))) as url:
        process = ServiceProcess(tmp_path, configuration(url, receive=receive))
        await process.start()
        for name, body in merged_requests().items():
            assert await process.post(name, body) == 200
        ledger = await killed_and_finished(process, random.Random(5), within=60)
    assert_everything_once(ledger)
    assert await shared_records_of(tmp_path)
    config, said = load(process.path), list[str]()
    config = replace(config, settings=config.settings.model_copy(update={"log": log_in(tmp_path)}))
    assert await audit(config, said.append, drained=True) == 0, said
    for each in of_whole_turns(ledger)[:1]:
        assert await trace_evaluation(config, each.evaluation_id, said.append, as_json=True) == 0
        traced = json.loads(said[-1])
        assert traced["received"]["pieces"] >= 1
        assert traced["assembled"] is not None


def log_in(folder: Path) -> LogSettings:
    return LogSettings(kind="sqlite", path=str(folder / "evalstream.db"))


def merged_requests() -> dict[str, bytes]:
    merged = {"traces": ExportTraceServiceRequest(), "logs": ExportLogsServiceRequest()}
    for dialect in WHOLE_WAY:
        for name, body in requests(dialect):
            merged["logs" if "logs" in name else "traces"].MergeFromString(body)
    return {signal: request.SerializeToString() for signal, request in merged.items()}


async def shared_records_of(path: Path) -> int:
    async with open_logs(log_in(path)) as logs:
        return await shared_records_in(logs.spans)


async def shared_records_in(spans: Log) -> int:
    """How many records several traces share."""
    headers = [
        record.headers
        for partition in range(spans.partitions)
        async for batch in spans.read(partition, 0)
        for record in batch
    ]
    return headers.count(HEADERS)


@pytest.mark.kafka
@pytest.mark.timeout(180)
@pytest.mark.parametrize("seed", [1, *LATER_SEEDS])
async def test_on_kafka_a_service_that_is_killed_again_and_again_judges_everything_once(
    seed: int, tmp_path: Path, kafka_broker: Any
) -> None:
    topics = Topics(kafka_broker.bootstrap)
    topics.produce_payloads(WHOLE_WAY)
    receive = {"kafka": [topics.source_settings()]}
    changes = {"log": topics.log_settings(), "receive": receive}
    async with serve_judge(FaultyJudge(Faults(latency=0.4))) as url:
        process = ServiceProcess(tmp_path, configuration(url, **changes))
        await process.start()
        assert_everything_once(await killed_and_finished(process, random.Random(seed), within=120))
    async with open_logs(LogSettings.model_validate(changes["log"])) as logs:
        assert await shared_records_in(logs.spans)


async def killed_and_finished(process: ServiceProcess, chance: random.Random, *, within: float) -> list[Evaluation]:
    """Kill it three times while it works, then let it finish; the ledger as it is in the end."""
    for _ in range(3):
        await asyncio.sleep(chance.uniform(0.1, 2.0))
        await process.kill()
        await process.start()
    await until_ledger(process, EXPECTED, within=within, of=of_whole_turns)
    await process.metrics()  # the first scrape: without it the exporter is behind
    await asyncio.sleep(0.5)
    ledger = await process.ledger()
    assert await process.stop() == 0
    return ledger


def assert_everything_once(ledger: list[Evaluation]) -> None:
    """Each whole turn once, and nothing twice; what a kill cut in two, or a slow start, is skipped beside it."""
    counted = Counter(each.evaluation_id for each in ledger)
    assert counted.most_common(1)[0][1] == 1
    assert {each.outcome for each in ledger} == {"scored", "skipped"}
    assert Counter((each.subject.trace_id, each.evaluator) for each in of_whole_turns(ledger)) == Counter(WHOLE_TURNS)
    assert {each.subject.trace_id for each in of_cut_turns(ledger)} <= IN_TWO_SIGNALS


async def test_a_trace_that_a_kill_cuts_in_two_is_judged_once_when_it_is_whole(tmp_path: Path) -> None:
    """Its log records are there, it closes, and its spans come after the kill: as from two topics, one far behind."""
    async with serve_judge() as url:
        process = ServiceProcess(tmp_path, configuration(url))
        await process.start()
        await post(process, "logs")
        await until_ledger(process, EVALUATORS, of=of_cut_turns)
        await process.kill()
        await process.start()
        await post(process, "traces")
        ledger = await until_ledger(process, EXPECTED, of=of_whole_turns)
        await process.stop()
    assert_everything_once(ledger)
    assert {each.outcome for each in of_cut_turns(ledger)} == {"skipped"}


async def post(process: ServiceProcess, signal: str) -> None:
    for dialect in WHOLE_WAY:
        for name, body in requests(dialect):
            if signal in name:
                assert await process.post(name, body) == 200


def of_cut_turns(ledger: Sequence[Evaluation]) -> list[Evaluation]:
    return [each for each in ledger if each.reason == CUT]


async def test_requests_that_are_not_answered_are_sent_again_and_change_nothing(tmp_path: Path) -> None:
    """A sender that sees the connection break sends again: at least once in, exactly once out."""
    async with serve_judge() as url:
        process = ServiceProcess(tmp_path, configuration(url))
        await process.start()
        for dialect in WHOLE_WAY:
            for name, body in requests(dialect):
                assert await process.post(name, body) == 200
        await process.kill()
        await process.start()
        for dialect in WHOLE_WAY:
            for name, body in requests(dialect):
                assert await process.post(name, body) == 200
        await until_ledger(process, EXPECTED, of=of_whole_turns)
        await asyncio.sleep(2.0)
        ledger = await process.ledger()
        await process.stop()
    assert_everything_once(ledger)
