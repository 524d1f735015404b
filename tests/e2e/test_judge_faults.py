"""A judge that is down, slow, limited, or answers nonsense: retried, or failed with its type; never an invented score."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from service import free_port

from collector.app import Running, running
from collector.config.loading import Config, check
from collector.demo.judge import Faults, StandInJudge, serve_judge
from collector.logs.log import Record
from collector.records import evaluation_from_json, turn_to_json
from evaluators.cases import Turn
from evaluators.outcome import Evaluation

STEPS = ["Say whether the actual output answers the input."]


def config(url: str, **judge: Any) -> Config:
    return check(
        {
            "log": {"kind": "memory"},
            "judges": {"main": {"model": "m", "base_url": url, "deadline": "20s"} | judge},
            "evaluators": {
                "helpful": {
                    "kind": "g_eval",
                    "evaluation_steps": STEPS,
                    "evaluation_params": ["input", "actual_output"],
                },
                "exact": {"kind": "exact_match"},
            },
            "monitors": {"all": {"evaluators": ["helpful", "exact"]}},
            "export": {"prometheus": {"port": 0}},
        },
        "test",
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


async def ledger(service: Running, count: int, within: float = 30.0) -> list[Evaluation]:
    found: list[Evaluation] = []
    async with asyncio.timeout(within):
        while len(found) < count:
            await asyncio.sleep(0.02)
            found = [
                evaluation_from_json(record.value)
                async for batch in service.logs.evaluations.read(0, 0)
                for record in batch
            ]
    return found


def helpful(found: list[Evaluation]) -> list[Evaluation]:
    return [each for each in found if each.evaluator == "helpful"]


def failures(found: list[Evaluation]) -> set[str]:
    assert all(each.score is None for each in found if each.outcome != "scored")
    return {each.error.type for each in found if each.error}


async def test_a_judge_that_is_down_and_comes_back() -> None:
    port = free_port()
    async with running(config(f"http://127.0.0.1:{port}/v1")) as service:
        await put(service, 1, 2)
        assert {each.evaluator for each in await ledger(service, 2)} == {"exact"}, "nothing else waits for the judge"
        async with serve_judge(port=port):
            found = await ledger(service, 4)
    assert [each.outcome for each in helpful(found)] == ["scored", "scored"]


async def test_a_judge_that_is_out_holds_up_no_other_and_catches_up() -> None:
    port = free_port()
    judged = {"kind": "g_eval", "evaluation_steps": STEPS, "evaluation_params": ["input", "actual_output"]}
    async with serve_judge() as url:
        both = check(
            {
                "log": {"kind": "memory"},
                "judges": {
                    "main": {
                        "model": "m",
                        "base_url": f"http://127.0.0.1:{port}/v1",
                        "breaker": {"failures": 3, "first_wait": "100ms", "longest_wait": "200ms"},
                    },
                    "other": {"model": "m", "base_url": url},
                },
                "evaluators": {"out": {**judged, "judge": "main"}, "helpful": {**judged, "judge": "other"}},
                "monitors": {"all": {"evaluators": ["out", "helpful"]}},
                "evaluate": {"concurrency": 2, "waiting": 50},
                "export": {"prometheus": {"port": 0}},
            },
            "test",
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
    async with running(config(f"http://127.0.0.1:{free_port()}/v1", deadline="1s")) as service:
        await put(service, 1, 2)
        found = await ledger(service, 4)
        assert failures(helpful(found)) == {"judge_unavailable"}
        await put(service, 3)
        assert len(helpful(await ledger(service, 6))) == 3


async def test_a_judge_that_hangs_ends_at_the_deadline() -> None:
    judge = StandInJudge(Faults(hang=True))
    async with serve_judge(judge) as url, running(config(url, timeout="200ms", deadline="1s")) as service:
        await put(service, 1)
        found = await ledger(service, 2)
        assert failures(helpful(found)) == {"judge_timeout"}
        judge.faults = Faults(latency=0.05)
        await put(service, 2)
        found = await ledger(service, 4)
    assert Counter(each.outcome for each in helpful(found)) == {"failed": 1, "scored": 1}


async def test_a_judge_that_answers_prose_is_asked_once_more_and_fails_with_its_type() -> None:
    judge = StandInJudge(Faults(prose_share=1.0))
    async with serve_judge(judge) as url, running(config(url)) as service:
        await put(service, 1)
        found = await ledger(service, 2)
    assert failures(helpful(found)) == {"judge_reply_invalid"}
    assert judge.calls == 2


async def test_a_judge_that_limits_is_given_the_time_it_asks_for() -> None:
    judge = StandInJudge(Faults(limited_share=1.0, retry_after=1.0))
    async with serve_judge(judge) as url, running(config(url)) as service:
        await put(service, 1)
        await asyncio.sleep(0.7)
        assert judge.calls == 1, "it asked for a second of silence"
        judge.faults = Faults()
        found = await ledger(service, 2)
    assert [each.outcome for each in helpful(found)] == ["scored"]


async def test_a_judge_that_fails_now_and_then_costs_no_score() -> None:
    judge = StandInJudge(Faults(error_share=0.3))
    async with serve_judge(judge) as url, running(config(url)) as service:
        await put(service, *range(40))
        found = await ledger(service, 80)
    assert Counter(each.outcome for each in helpful(found)) == {"scored": 40}
    assert judge.calls > 40


async def test_a_key_that_is_refused_fails_at_once() -> None:
    async with serve_judge() as url, running(config(url.removesuffix("/v1") + "/nowhere")) as service:
        await put(service, 1)
        assert failures(helpful(await ledger(service, 2))) == {"judge_rejected"}
