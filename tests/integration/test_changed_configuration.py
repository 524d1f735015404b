"""A configuration changed between two starts while evaluations are pending: what was due stays due, and is paid once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from running_service import ledger, put, value
from service import free_port
from stand_in_judge import StandInJudge, serve_judge

from collector.config.configured import Config
from collector.config.loading import check
from collector.service.app import Running, running
from evaluators.results import Evaluation

FINISHED = 280
BEFORE = ["Say whether the actual output answers the input."]
AFTER = ["Say whether the actual output answers the input, and nothing else."]


class Setup:
    """Two evaluators with a judge each, over one SQLite file. The judge of `waits` is out until its port is served."""

    def __init__(self, folder: Path, url: str) -> None:
        self.port = free_port()
        self._folder = folder
        self._url = url

    def config(self, *, steps: Sequence[str] = tuple(BEFORE), sample: float = 1.0, of: tuple[str, ...] = ("waits", "goes")) -> Config:  # fmt: skip
        judged = {"kind": "g_eval", "evaluation_params": ["input", "actual_output"]}
        breaker = {"failures": 3, "first_wait": "100ms", "longest_wait": "200ms"}
        values: dict[str, Any] = {
            "log": {"path": str(self._folder / "evalstream.db")},
            "judges": {
                "out": {"model": "m", "base_url": f"http://127.0.0.1:{self.port}/v1", "breaker": breaker},
                "up": {"model": "m", "base_url": self._url},
            },
            "evaluators": {
                "waits": {**judged, "judge": "out", "evaluation_steps": BEFORE},
                "goes": {**judged, "judge": "up", "evaluation_steps": list(steps)},
            },
            "monitors": {"all": {"evaluators": list(of), "sample": sample}},
            "evaluate": {"max_waiting": 1000, "shutdown_grace": 0},
            "export": {},
        }
        return check(values, "test")


async def until(service: Running, **counts: int) -> list[Evaluation]:
    """Wait until each evaluator has made so many."""
    async with asyncio.timeout(90):
        while True:
            found = await ledger(service)
            if Counter(each.evaluator for each in found) == counts:
                return found
            await asyncio.sleep(0.05)


async def until_in_flight(service: Running, count: int) -> None:
    async with asyncio.timeout(60):
        while value(service, "evalstream_evaluations_in_flight") != count:
            await asyncio.sleep(0.05)


@pytest.mark.long
async def test_a_new_definition_begins_where_the_old_one_stood(tmp_path: Path) -> None:
    judge = StandInJudge()
    async with serve_judge(judge) as url:
        setup = Setup(tmp_path, url)
        async with running(setup.config(), {"evaluate"}) as service:
            await put(service, range(FINISHED))
            await until(service, goes=FINISHED)
            await until_in_flight(service, FINISHED)
        asked = judge.calls
        for _ in range(2):  # also where it is not the first start with it
            async with running(setup.config(steps=AFTER), {"evaluate"}) as service:
                await until_in_flight(service, FINISHED)
        async with running(setup.config(steps=AFTER), {"evaluate"}) as service:
            await put(service, range(FINISHED, FINISHED + 5))
            found = await until(service, goes=FINISHED + 5)
            assert judge.calls - asked == 5, "what was finished is not asked again"
            async with serve_judge(port=setup.port):
                found = await until(service, goes=FINISHED + 5, waits=FINISHED + 5)
    versions = Counter((each.evaluator, each.evaluator_version) for each in found)
    assert sorted(versions.values()) == [5, FINISHED, FINISHED + 5]
    assert max(Counter(each.evaluation_id for each in found).values()) == 1
    assert len({each.subject.turn_id for each in found}) == FINISHED + 5


async def test_an_evaluator_whose_judge_is_out_keeps_what_is_due_under_its_new_definition(tmp_path: Path) -> None:
    """The usual cure: the judge was misconfigured."""
    async with serve_judge() as url:
        setup = Setup(tmp_path, url)
        async with running(setup.config(), {"evaluate"}) as service:
            await put(service, range(20))
            await until(service, goes=20)
            await until_in_flight(service, 20)
        cured = setup.config()
        values = cured.settings.model_dump(mode="json", exclude_unset=True)
        values["judges"]["out"] |= {"model": "another", "base_url": url}
        async with running(check(values, "test"), {"evaluate"}) as service:
            await until(service, goes=20, waits=20)


async def test_an_evaluator_that_is_new_begins_now(tmp_path: Path) -> None:
    judge = StandInJudge()
    async with serve_judge(judge) as url:
        setup = Setup(tmp_path, url)
        async with running(setup.config(of=("waits",)), {"evaluate"}) as service:
            await put(service, range(20))
            await until_in_flight(service, 20)
        async with running(setup.config(), {"evaluate"}) as service:
            await until_in_flight(service, 20)
            await put(service, range(20, 23))
            await until(service, goes=3)


async def test_a_lower_rate_leaves_due_what_was_due(tmp_path: Path) -> None:
    async with serve_judge() as url:
        setup = Setup(tmp_path, url)
        async with running(setup.config(of=("waits",)), {"evaluate"}) as service:
            await put(service, range(237))
            await until_in_flight(service, 237)
        for sample in (0.2, 0.3):
            async with running(setup.config(of=("waits",), sample=sample), {"evaluate"}) as service:
                await until_in_flight(service, 237)
        async with running(setup.config(of=("waits",), sample=0.2), {"evaluate"}) as service:
            await put(service, range(300, 500))
            async with asyncio.timeout(60):
                while value(service, "evalstream_turns_total") < 200:
                    await asyncio.sleep(0.05)
            async with serve_judge(port=setup.port):
                await until_in_flight(service, 0)
            found = await ledger(service)
            due = value(service, "evalstream_evaluations_due_total")
            assert due == value(service, "evalstream_evaluations_ended_total") == 437
    rates = Counter(each.sampling.probability for each in found)
    assert rates[1.0] == 237, "what was due has the rate that it was drawn with"
    assert set(rates) == {1.0, 0.2}
    assert 20 <= rates[0.2] <= 60
