"""A thread that reads from Kafka stands still in a real process: it says so, ends with 70, and the next one goes on.

Everything else of the process runs on meanwhile, so nothing but the watchdog and a health check can tell.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import standing_poll
from counted_judge import CountedJudge
from made_up import Trace, chat
from service import ServiceProcess, until_ledger
from stand_in_judge import serve_judge
from topics import Topics
from traffic import question

TURNS, STALLED = range(20), 70


def configuration(judge: str, topics: Topics) -> dict[str, Any]:
    helpful = {"kind": "g_eval", "evaluation_steps": ["Say so."], "evaluation_params": ["input", "actual_output"]}
    return {
        "log": topics.log_settings(),
        "assemble": {"idle_timeout": "300ms", "allowed_lateness": "30s"},
        "judges": {"main": {"model": "m", "base_url": judge, "top_logprobs": 0}},
        "evaluators": {"helpful": helpful},
        "monitors": {"all": {"evaluators": ["helpful"]}},
    }


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.timeout(300)
async def test_it_is_seen_the_process_ends_and_the_next_one_judges_everything_once(
    tmp_path: Path, kafka_broker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    standing_poll.install(tmp_path / "packages")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "packages"))
    topics, judge = Topics(kafka_broker.bootstrap), CountedJudge()
    async with serve_judge(judge) as url:
        process = ServiceProcess(tmp_path, configuration(url, topics))
        try:
            await process.start()
            await send(process, TURNS[:10])
            await until_ledger(process, 10)
            await process.metrics()  # the first scrape: without it the exporter to Prometheus stands, too
            (tmp_path / standing_poll.SIGN).touch()
            await asyncio.sleep(0.5)  # longer than a poll
            await send(process, TURNS[10:])  # accepted as ever: what waits is in the log
            said = await until_the_check_fails(process)
            assert said["status"] == "degraded", "another process could do no more"
            [problem] = said["problems"]
            assert problem.startswith("consumers: no progress of evaluate for ")
            assert said["checks"]["consumers"]["detail"].startswith("no progress of evaluate for ")
            assert 'evalstream_health_check_ok{check="consumers"} 0.0' in await process.metrics()
            assert await process.ended(within=60) == STALLED
            stderr = process.stderr.read_text()
            assert f"reading for group {topics.name}.evaluate has not moved for 18 s" in stderr
            assert "in stand_still" in stderr, "the stack of each thread"
            (tmp_path / standing_poll.SIGN).unlink()
            await process.start()  # as a supervisor does
            ledger = await until_ledger(process, len(TURNS))
            assert await process.stop() == 0
        finally:
            await process.end()
    counted = Counter(each.subject.trace_id for each in ledger)
    assert counted == {f"{number + 1:032x}": 1 for number in TURNS}
    assert {each.outcome for each in ledger} == {"scored"}
    assert judge.paid() == dict.fromkeys(TURNS, 1)


async def send(process: ServiceProcess, numbers: range) -> None:
    for number in numbers:
        trace = Trace(f"{number + 1:032x}", start=time.time_ns())
        trace.span(number + 1, "chat", chat(question(number), "An answer."), at=0)
        assert await process.post("traces", trace.spans.SerializeToString()) == 200


async def until_the_check_fails(process: ServiceProcess) -> dict[str, Any]:
    """What /readyz says then."""
    url = process.metrics_url.replace("/metrics", "/readyz")
    async with asyncio.timeout(standing_poll.STALL_TIMEOUT), aiohttp.ClientSession() as session:
        while True:
            async with session.get(url) as response:
                said = await response.json()
            if said["checks"]["consumers"]["status"] != "ok":
                assert response.status == 200
                return said
            await asyncio.sleep(0.2)
