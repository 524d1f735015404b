"""A judge that is down, slow, limited, or answers nonsense: retried, or failed with its type; never an invented score."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Any

import pytest
from configurations import checked
from faulty_judge import Faults, FaultyJudge
from service import free_port
from stand_in_judge import serve_judge

from collector.config.configured import Config
from collector.config.loading import check
from collector.logs.log import Record
from collector.records.json import evaluation_from_json, turn_to_json
from collector.service.app import Running, running
from evaluators.cases import Turn
from evaluators.results import Evaluation

STEPS = ["Say whether the actual output answers the input."]


def config(url: str, **judge: Any) -> Config:
    return checked(
        {
            "helpful": {
                "kind": "g_eval",
                "evaluation_steps": STEPS,
                "evaluation_params": ["input", "actual_output"],
            },
            "exact": {"kind": "exact_match"},
        },
        log={"kind": "memory"},
        receive={"otlp_http": {"port": 0}},
        judges={"main": {"model": "m", "base_url": url, "deadline": "20s"} | judge},
        export={"prometheus": {"port": 0}},
    )


async def put(service: Running, *numbers: int) -> None:
    turns = [
        Turn(
            turn_id=f"t{n}",
            conversation_id=f"c{n}",
            input=f"What is {n}?",
            actual_output=f"It is {n}.",
            expected_output="x",
        )
        for n in numbers
    ]
    await service.logs.turns.append([Record(b"c", turn_to_json(turn), partition=0) for turn in turns])


async def ledger(service: Running, count: int, within: float = 60.0) -> list[Evaluation]:
    found: list[Evaluation] = []
    async with asyncio.timeout(within):
        while len(found) < count:
            await asyncio.sleep(0.02)
            found = [
                evaluation_from_json(record.value)
                async for batch in service.logs.evaluations.read(0, 0)
                for record in batch
                if not record.headers  # else a control record
            ]
    return found


def helpful(found: list[Evaluation]) -> list[Evaluation]:
    return [each for each in found if each.evaluator == "helpful"]


def failures(found: list[Evaluation]) -> set[str]:
    assert all(each.score is None for each in found if each.outcome != "scored")
    return {each.error.type for each in found if each.error}


async def until_judges(service: Running, ok: float) -> None:
    """Wait until the health check of the judges says so."""
    async with asyncio.timeout(30):
        while service.telemetry.registry.get_sample_value("evalstream_health_check_ok", {"check": "judges"}) != ok:
            await asyncio.sleep(0.02)


async def test_a_judge_that_is_down_and_comes_back() -> None:
    port = free_port()
    async with running(config(f"http://127.0.0.1:{port}/v1")) as service:
        await put(service, 1, 2)
        assert {each.evaluator for each in await ledger(service, 2)} == {"exact"}, "nothing else waits for the judge"
        await until_judges(service, ok=0.0)
        async with serve_judge(port=port):
            found = await ledger(service, 4)
            await until_judges(service, ok=1.0)
    assert [each.outcome for each in helpful(found)] == ["scored", "scored"]


async def test_a_judge_that_is_out_holds_up_no_other_and_catches_up() -> None:
    port = free_port()
    judged = {"kind": "g_eval", "evaluation_steps": STEPS, "evaluation_params": ["input", "actual_output"]}
    async with serve_judge() as url:
        both = checked(
            {"out": {**judged, "judge": "main"}, "helpful": {**judged, "judge": "other"}},
            log={"kind": "memory"},
            receive={"otlp_http": {"port": 0}},
            judges={
                "main": {
                    "model": "m",
                    "base_url": f"http://127.0.0.1:{port}/v1",
                    "breaker": {"failures": 3, "first_wait": "100ms", "longest_wait": "200ms"},
                },
                "other": {"model": "m", "base_url": url},
            },
            evaluate={"concurrency": 2, "max_waiting": 50},
            export={"prometheus": {"port": 0}},
        )
        async with running(both) as service:
            await put(service, *range(30))
            found = await ledger(service, 30)
            assert {each.evaluator for each in found} == {"helpful"}
            waiting = service.telemetry.registry.get_sample_value("evalstream_evaluations_waiting", {"judge": "main"})
            assert waiting == 28
            async with serve_judge(port=port):
                found = await ledger(service, 60)
    assert Counter(each.evaluator for each in found if each.outcome == "scored") == {"out": 30, "helpful": 30}
    assert len({each.evaluation_id for each in found}) == 60


async def test_a_judge_that_stays_down_fails_with_its_type_and_nothing_stops() -> None:
    async with running(config("http://127.0.0.1:9/v1", deadline="1s")) as service:
        await put(service, 1, 2)
        found = await ledger(service, 4)
        assert failures(helpful(found)) == {"judge_unavailable"}
        await put(service, 3)
        assert len(helpful(await ledger(service, 6))) == 3


async def test_a_judge_that_hangs_ends_at_the_deadline() -> None:
    judge = FaultyJudge(Faults(hang=True))
    async with serve_judge(judge) as url, running(config(url, timeout="200ms", deadline="1s")) as service:
        await put(service, 1)
        found = await ledger(service, 2)
        assert failures(helpful(found)) == {"judge_timeout"}
        judge.faults = Faults(latency=0.05)
        await put(service, 2)
        found = await ledger(service, 4)
    assert Counter(each.outcome for each in helpful(found)) == {"failed": 1, "scored": 1}


async def test_a_judge_that_answers_prose_is_asked_once_more_and_fails_with_its_type() -> None:
    judge = FaultyJudge(Faults(prose_share=1.0))
    async with serve_judge(judge) as url, running(config(url)) as service:
        await put(service, 1)
        found = await ledger(service, 2)
    assert failures(helpful(found)) == {"judge_reply_invalid"}
    assert judge.calls == 2


async def test_a_judge_that_limits_is_given_the_time_it_asks_for() -> None:
    judge = FaultyJudge(Faults(limited_share=1.0, retry_after=1.0))
    async with serve_judge(judge) as url, running(config(url)) as service:
        await put(service, 1)
        labels = {"judge": "main", "result": "judge_rate_limited"}
        async with asyncio.timeout(60):
            while not service.telemetry.registry.get_sample_value("evalstream_judge_requests_total", labels):
                await asyncio.sleep(0.005)
        limited_at = time.monotonic()
        judge.faults = Faults()
        found = await ledger(service, 2)
        assert time.monotonic() - limited_at > 0.9, "it asked for a second of silence"
    assert judge.calls == 2
    assert [each.outcome for each in helpful(found)] == ["scored"]


async def test_a_judge_that_fails_now_and_then_costs_no_score() -> None:
    judge = FaultyJudge(Faults(error_share=0.3))
    async with serve_judge(judge) as url, running(config(url)) as service:
        await put(service, *range(40))
        found = await ledger(service, 80)
    assert Counter(each.outcome for each in helpful(found)) == {"scored": 40}
    assert judge.calls > 40


OUT: dict[str, tuple[int, str, str]] = {
    "wrong key": (401, '{"error": {"message": "Incorrect API key", "code": "invalid_api_key"}}', "api_key"),
    "revoked key": (403, '{"error": {"message": "forbidden"}}', "api_key"),
    "no credit": (402, '{"error": {"message": "payment required"}}', "credit"),
    "quota": (429, '{"error": {"message": "quota", "code": "insufficient_quota"}}', "credit"),
    "model": (404, '{"error": {"message": "no such model", "code": "model_not_found"}}', "judges.main.model"),
    "page of a gateway": (200, "<html><body>Sign in</body></html>", "not JSON"),
    "error inside": (200, '{"error": {"message": "upstream unavailable"}}', "error inside"),
    "key inside": (200, '{"error": {"message": "no auth", "code": 401}}', "api_key"),
}


@pytest.mark.long
@pytest.mark.parametrize("name", OUT)
async def test_an_endpoint_that_refuses_everyone_is_an_outage_until_it_is_mended(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    status, body, remedy = OUT[name]
    judge = FaultyJudge(Faults(reply=(status, body)))
    breaker = {"failures": 5, "first_wait": "100ms", "longest_wait": "200ms"}
    async with serve_judge(judge) as url, running(config(url, breaker=breaker, deadline="60s")) as service:
        await put(service, *range(100))
        async with asyncio.timeout(30):
            while not sample(service, "evalstream_judge_breaker_opened_total", judge="main"):
                await asyncio.sleep(0.02)
        await asyncio.sleep(1.5)  # probes
        assert not helpful(await ledger(service, 100)), "nothing has failed for good"
        assert judge.calls < 60, "an endpoint that is out is left alone"
        reports = [each.getMessage() for each in caplog.records if "judge main at" in each.getMessage()]
        assert len(reports) == 1, reports
        assert remedy in reports[0]
        judge.faults = Faults()
        found = await ledger(service, 200)
    assert Counter(each.outcome for each in helpful(found)) == {"scored": 100}


@pytest.mark.long
@pytest.mark.parametrize("status", [200, 403])
async def test_a_question_that_a_firewall_takes_offence_at_fails_alone(status: int) -> None:
    judge = FaultyJudge(Faults(reply=(status, "<html>blocked</html>"), reply_to="What is 13?"))
    breaker = {"failures": 20, "first_wait": "100ms", "longest_wait": "200ms"}
    async with serve_judge(judge) as url, running(config(url, breaker=breaker, concurrency=2)) as service:
        for start in range(0, 60, 6):
            await put(service, *range(start, start + 6))
            await asyncio.sleep(0.3)
        await put(service, *range(60, 400))
        found = await ledger(service, 800)
        opened = sample(service, "evalstream_judge_breaker_opened_total", judge="main")
    assert Counter(each.outcome for each in helpful(found)) == {"scored": 399, "failed": 1}
    assert not opened
    assert judge.calls <= 399 + 10


async def test_one_garbled_reply_among_good_ones_costs_no_score() -> None:
    judge = FaultyJudge(Faults(reply=(200, "<html>"), reply_share=0.2))
    async with serve_judge(judge) as url, running(config(url)) as service:
        await put(service, *range(60))
        found = await ledger(service, 120)
        assert not sample(service, "evalstream_judge_breaker_opened_total", judge="main")
    assert Counter(each.outcome for each in helpful(found)) == {"scored": 60}


async def test_a_model_that_is_unknown_stops_no_other_model_at_its_address() -> None:
    judge = FaultyJudge(Faults(reply=(404, '{"error": {"code": "model_not_found"}}'), reply_to='"model":"gone"'))
    judged = {"kind": "g_eval", "evaluation_steps": STEPS, "evaluation_params": ["input", "actual_output"]}
    async with serve_judge(judge) as url:
        settings = {
            "log": {"kind": "memory"},
            "receive": {"otlp_http": {"port": 0}},
            "judges": {
                name: {"model": name, "base_url": url, "breaker": {"failures": 3, "first_wait": "100ms"}}
                for name in ("good", "gone")
            },
            "evaluators": {name: {**judged, "judge": name} for name in ("good", "gone")},
            "monitors": {"all": {"evaluators": ["good", "gone"]}},
            "export": {"prometheus": {"port": 0}},
        }
        async with running(check(settings, "test")) as service:
            await put(service, *range(40))
            found = await ledger(service, 40)
            assert Counter((each.evaluator, each.outcome) for each in found) == {("good", "scored"): 40}
            judge.faults = Faults()
            found = await ledger(service, 80)
    assert Counter(each.outcome for each in found) == {"scored": 80}


def sample(service: Running, name: str, **labels: str) -> float:
    return service.telemetry.registry.get_sample_value(name, labels) or 0.0
