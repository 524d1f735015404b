"""Budgets in front of a judge that reports no usage, or a false one: the spending is that of an honest judge.

The spending is what the endpoint's answers are worth by its own count of tokens, whatever it says that they are.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from chat_server import ChatServer, completion, rating, serving
from test_batches import prepare
from test_deferred_evaluations import KEY, service, turns

from collector.commands.score.score import ScoreOptions, score
from collector.config.loading import load
from evaluators.testing import with_answer_key

USD = 2.0
PRICE = 100.0
"""US dollars per million tokens."""
ANSWER_TOKENS = 12
FORMS: dict[str, Any] = {
    "missing": None,
    "null": {"usage": None},
    "counts of null": {"usage": {"prompt_tokens": None, "completion_tokens": None}},
    "0": {"usage": {"prompt_tokens": 0, "completion_tokens": 0}},
    "text": {"usage": {"prompt_tokens": "{input}", "completion_tokens": "{output}"}},
    "10^30": {"usage": {"prompt_tokens": 10**30, "completion_tokens": 10**30}},
    "negative": {"usage": {"prompt_tokens": -400, "completion_tokens": -1}},
    "1 token": {"usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}},
    "millions": {"usage": {"prompt_tokens": 5_000_000, "completion_tokens": 5_000_000}},
    "a false total": {
        "usage": {"prompt_tokens": "{input}", "completion_tokens": "{output}", "total_tokens": 9_000_000}
    },
    "a list": {"usage": [400, 20]},
    "words": {"usage": "many"},
    "not a number": {"usage": {"prompt_tokens": float("nan"), "completion_tokens": float("inf")}},
}


def honest(body: dict[str, Any]) -> tuple[int, int]:
    """The tokens of a request and its answer: by four bytes, and four for each message's frame, as servers add."""
    texts = [message["content"] for message in body["messages"]]
    return sum(len(text.encode()) // 4 + 4 for text in texts), ANSWER_TOKENS


def said(form: str | None, read: int, written: int) -> dict[str, Any]:
    if form is None or form == "floats":
        kind = float if form else int
        return {"usage": {"prompt_tokens": kind(read), "completion_tokens": kind(written)}}
    field = FORMS[form] or {}
    if not isinstance(counts := field.get("usage"), dict):
        return field
    numbers = {"{input}": str(read), "{output}": str(written)}
    return {"usage": {name: numbers.get(value, value) for name, value in counts.items()}}


def judge(form: str | None) -> Any:
    def respond(body: dict[str, Any], _number: int) -> bytes:
        answer = completion(with_answer_key(body["messages"][-1]["content"], rating(reason="")))
        del answer["usage"]
        return json.dumps(answer | said(form, *honest(body))).encode()

    return respond


def spent(server: ChatServer) -> float:
    return sum(sum(honest(body)) for body in server.requests) * PRICE / 1e6


def prices(folder: Path, url: str, count: int) -> Path:
    prepare(folder, url, count, usd_per_million_input_tokens=PRICE, usd_per_million_output_tokens=PRICE)
    return folder / "evalstream.yaml"


async def live(folder: Path, form: str | None) -> float:
    """What a service spends on more turns than the budget of an hour is enough for."""
    async with serving(judge(form)) as server:
        path = prices(folder, server.base_url, 0)
        config = yaml.safe_load(path.read_text())
        config["monitors"]["all"]["budget"] = {"usd_per_hour": USD, "hard_cap_factor": 1.0}
        path.write_text(yaml.safe_dump(config | {"export": {}}))
        async with service(path) as started:
            for first in range(0, 800, 50):
                await started.logs.turns.append(turns(50, first))
                await asyncio.sleep(0.1)
            before = -1
            while before != len(server.requests):
                before = len(server.requests)
                await asyncio.sleep(1.0)
        return spent(server)


async def by_command(folder: Path, form: str | None) -> float:
    """What `score --max-usd` spends."""
    async with serving(judge(form)) as server:
        path = prices(folder, server.base_url, 200)
        options = ScoreOptions(paths=[str(folder / "turns.jsonl")], output=folder / "out.jsonl", max_usd=USD, json=True)
        await asyncio.to_thread(score, load(path), options)
        return spent(server)


@pytest.mark.long
@pytest.mark.parametrize("way", [live, by_command])
async def test_spending_is_that_of_an_honest_judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: Any) -> None:
    monkeypatch.setattr("secrets.token_hex", lambda size: KEY[: 2 * size])
    found: dict[str, float] = {}
    for number, form in enumerate([None, "floats", *FORMS]):
        (folder := tmp_path / str(number)).mkdir()
        found[form or "honest"] = await way(folder, form)
    table = {form: f"{usd:.3f} USD, {usd / found['honest'] - 1:+.1%}" for form, usd in found.items()}
    print(way.__name__, *table.items(), sep="\n")
    assert 0 < found["honest"] <= USD * 1.1
    assert {form: told for form, told in table.items() if abs(found[form] / found["honest"] - 1) > 0.1} == {}
