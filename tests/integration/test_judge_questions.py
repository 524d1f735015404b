"""What the judge was shown, asked of the page of a running service: the prompt as sent, with the steps that it wrote."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from configurations import checked
from running_service import ledger, put
from stand_in_judge import StandInJudge, serve_judge

from collector.commands.trace import trace_evaluation
from collector.service.app import running
from evaluators.mechanisms.rating import hash_of_steps


def configuration(folder: Path, url: str, **sections: Any) -> Any:
    evaluators = {
        "helpful": {
            "kind": "g_eval",
            "criteria": "Does the output answer the input?",
            "evaluation_params": ["input", "actual_output"],
        }
    }
    return checked(
        evaluators,
        folder=folder,
        judges={"stand-in": {"model": "stand-in", "base_url": url}},
        page={"port": 0},
        **sections,
    )


async def questions(page: str, evaluation_id: str) -> tuple[int, Any]:
    async with aiohttp.ClientSession() as session, asyncio.timeout(30):
        while True:
            async with session.get(f"{page}/api/evaluations/{evaluation_id}/questions") as response:
                body = await response.json()
            if response.status != 404:
                return response.status, body
            await asyncio.sleep(0.1)


async def test_the_prompt_as_sent_is_shown_with_the_steps_that_the_judge_wrote(tmp_path: Path) -> None:
    judge = StandInJudge()
    async with serve_judge(judge) as url, running(config := configuration(tmp_path, url)) as service:
        await put(service, [7])
        async with asyncio.timeout(30):
            while not (records := await ledger(service)):
                await asyncio.sleep(0.1)
        before = judge.calls
        status, answer = await questions(f"http://127.0.0.1:{service.page_port}", records[0].evaluation_id)
        stored = await service.logs.generated_steps()
        assert stored.added == 0
    assert (status, answer["same"], answer["total"], answer["pack"]) == (200, True, 1, [])
    (question,) = answer["questions"]
    assert "What is 7?" in question["message"]
    assert "What is 7?" not in question["instructions"]
    assert "1. " in question["instructions"], "the steps"
    assert judge.calls == before, "nobody is asked"
    assert records[0].details["steps_hash"] == hash_of_steps(answer["steps"])
    assert all(f"{number}. {step}" in question["instructions"] for number, step in enumerate(answer["steps"], start=1))
    said: list[str] = []
    await trace_evaluation(config, records[0].evaluation_id, said.append, as_json=False)
    assert f"steps      1. {answer['steps'][0]}" in said


@pytest.mark.parametrize("hidden", [{"store_text": False}])
async def test_where_texts_are_not_stored_no_question_is_shown(tmp_path: Path, hidden: dict[str, Any]) -> None:
    async with serve_judge() as url, running(configuration(tmp_path, url, **hidden)) as service:
        await put(service, [7])
        async with asyncio.timeout(30):
            while not (records := await ledger(service)):
                await asyncio.sleep(0.1)
        status, answer = await questions(f"http://127.0.0.1:{service.page_port}", records[0].evaluation_id)
    assert status == 409
    assert answer["error"].startswith("texts are not stored or hidden")
