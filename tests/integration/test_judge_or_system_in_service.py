"""A judge that changes in a running service without a golden set: the page says so, from the evaluator's own past."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer
from past_world import record
from servers import Webhook, webhook

from collector.config.loading import load
from collector.service.app import Running, running

SCORED = 150


class ChangingJudge:
    """Answers with a score out of ten, whatever it is asked."""

    def __init__(self) -> None:
        self.score, self.asked = 9, 0

    async def answer(self, _request: web.Request) -> web.Response:
        self.asked += 1
        content = f'{{"reason": "so", "score": {self.score - self.asked % 2}}}'
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": content}}
        usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
        return web.json_response({"id": "1", "object": "chat.completion", "created": 1, "model": "main",
                                  "choices": [choice], "usage": usage})  # fmt: skip


@asynccontextmanager
async def serving(folder: Path, judge: ChangingJudge, hook: Webhook, **sections: object) -> AsyncIterator[Running]:
    application = web.Application()
    application.router.add_post("/v1/chat/completions", judge.answer)
    async with TestServer(application) as server:
        prices = {"usd_per_million_input_tokens": 1.0, "usd_per_million_output_tokens": 1.0}
        address = str(server.make_url("/v1"))
        settings = {
            "log": {"kind": "sqlite", "path": str(folder / "evalstream.db")},
            "judges": {"main": {"model": "main", "base_url": address, "answer_key": False, **prices}},
            "evaluators": {
                "helpful": {
                    "kind": "g_eval", "evaluation_steps": ["Does it answer?"], "mode": "single", "threshold": 0.7,
                    "evaluation_params": ["input", "actual_output"],
                }
            },
            "monitors": {"all": {"evaluators": ["helpful"]}},
            "export": {"prometheus": {"port": 0}},
            "alerts": {"watcher": {"webhook": hook.url, "interval": "1s"}},
            **sections,
        }  # fmt: skip
        path = folder / "evalstream.yaml"
        path.write_text(yaml.safe_dump(settings))
        async with running(load(path), {"evaluate", "export", "watch"}) as service:
            yield service


async def until_asked(judge: ChangingJudge, number: int) -> None:
    async with asyncio.timeout(60):
        while judge.asked < number:
            await asyncio.sleep(0.05)


async def page_of(hook: Webhook) -> str:
    async with asyncio.timeout(60):
        while True:
            pages = [alert for alert in hook.alerts if alert["labels"]["severity"] == "page"]
            if pages:
                return pages[0]["annotations"]["description"]
            await asyncio.sleep(0.1)


def metric(service: Running, name: str, **labels: str) -> float | None:
    return service.telemetry.registry.get_sample_value(f"evalstream_{name}", labels)


WORK = {"evaluator": "helpful", "monitor": "all"}
USD = 110 / 1e6
"""The price of an answer."""


@pytest.mark.parametrize("usd_per_day", [1.0, 1e-6])
async def test_the_golden_set_is_in_the_cost_and_in_the_budgets_which_do_not_stop_it(
    tmp_path: Path, usd_per_day: float
) -> None:
    """The bill was higher than the metric and the budget, by every case that was asked."""
    cases = tmp_path / "golden.jsonl"
    cases.write_text("".join(f'{{"turn_id": "t{n}", "input": "{n}?", "actual_output": "{n}."}}\n' for n in range(12)))
    budget = {"monitors": {"all": {"evaluators": ["helpful"], "budget": {"usd_per_day": usd_per_day}}}}
    judge = ChangingJudge()
    async with webhook() as hook, serving(tmp_path, judge, hook, golden={"path": str(cases)}, **budget) as service:
        async with asyncio.timeout(60):
            while metric(service, "judge_calls_total", **WORK) != 12 or not metric(
                service, "budget_spent_ratio", monitor="all"
            ):
                await asyncio.sleep(0.05)
        assert metric(service, "judge_cost_usd_total", **WORK) == pytest.approx(12 * USD)
        assert metric(service, "judge_tokens_total", **WORK, direction="input") == 1200
        assert metric(service, "budget_spent_ratio", monitor="all") == pytest.approx(12 * USD / (1.2 * usd_per_day))
    assert judge.asked == 12


@pytest.mark.long
@pytest.mark.timeout(200)
@pytest.mark.parametrize("case", ["", '{"turn_id": "t%d", "input": "a"}'])
async def test_a_page_says_that_the_judge_has_changed(tmp_path: Path, case: str) -> None:
    """Also if a golden set has no case that the evaluator can score: the page then said nothing of the judge."""
    judge, golden = ChangingJudge(), tmp_path / "golden.jsonl"
    golden.write_text("".join(f"{case % number}\n" for number in range(60)) if case else "")
    sections = {"golden": {"path": str(golden)}} if case else {}
    async with webhook() as hook, serving(tmp_path, judge, hook, **sections) as service:
        await service.logs.turns.append([record(number) for number in range(SCORED)])
        await until_asked(judge, SCORED)
        await asyncio.sleep(3.0)
        judge.score = 4
        await service.logs.turns.append([record(number) for number in range(SCORED, SCORED + 100)])
        text = await page_of(hook)
        async with asyncio.timeout(60):  # until the cost is that of all questions: those about earlier cases, too
            while metric(service, "judge_cost_usd_total", **WORK) != pytest.approx(judge.asked * USD):
                await asyncio.sleep(0.1)
    assert "The judge has changed: 1" in text
    assert "earlier cases" in text
    assert judge.asked > SCORED + 100
