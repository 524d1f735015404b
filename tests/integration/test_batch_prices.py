"""What a turn of 4.9 k characters costs by seven usual evaluators: apart and as a pack, at once and in batches."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import batch_server
import pytest
from stand_in_judge import completion as stand_in
from test_batches import PACE

from collector.commands.score.score import ScoreOptions, score
from collector.config.loading import load

TURNS = 40
QUESTION = "Can I return the lamp that I bought in your shop in March, and who pays for sending it back? " * 5
ANSWER = "You can return it within thirty days, and a faulty one within two years; we pay for the label. " * 20
PASSAGE = "Returns: thirty days from delivery, unused, with the receipt. Faulty goods: two years. We pay the label. "
KINDS = ("answer_relevancy", "faithfulness", "toxicity", "bias", "pii_leakage", "judged_refusal")
HELPFUL = {
    "kind": "g_eval",
    "evaluation_steps": ["Compare what is asked with what is answered."] * 3,
    "evaluation_params": ["input", "actual_output"],
}
PRICES = {"usd_per_million_input_tokens": 0.40, "usd_per_million_output_tokens": 1.60}


def answered(body: dict[str, Any]) -> dict[str, Any]:
    """The stand-in judge's answer, billed as 4 characters a token and 50 tokens an answer."""
    sent = sum(len(each["content"]) for each in body["messages"])
    usage = {"prompt_tokens": sent // 4, "completion_tokens": 50, "total_tokens": sent // 4 + 50}
    return {**stand_in(body), "usage": usage}


async def usd_a_turn(folder: Path, url: str, *, packed: bool, batch: bool) -> float:
    evaluators = {"helpful": HELPFUL} | {kind: {"kind": kind} for kind in KINDS}
    monitor = {"evaluators": list(evaluators), **({"pack": "auto"} if packed else {})}
    config = {
        "log": {"path": str(folder / "evalstream.db")},
        "judges": {"main": {"model": "m", "base_url": url, **PRICES}},
        "evaluators": evaluators,
        "monitors": {"all": monitor},
    }
    (folder / "evalstream.yaml").write_text(json.dumps(config))
    turns = [
        {
            "turn_id": f"t{n}",
            "input": f"{n} {QUESTION}",
            "actual_output": ANSWER,
            "retrieval_context": [PASSAGE * 12] * 2,
        }
        for n in range(TURNS)
    ]
    (folder / "turns.jsonl").write_text("\n".join(map(json.dumps, turns)))
    output = folder / f"{packed}-{batch}.jsonl"
    options = ScoreOptions(paths=[str(folder / "turns.jsonl")], output=output, batch=batch, pace=PACE, json=True)
    assert await asyncio.to_thread(score, load(folder / "evalstream.yaml"), options) == 0
    made = [json.loads(line) for line in output.read_text().splitlines()]
    assert [each["outcome"] for each in made] == ["scored"] * 7 * TURNS
    return sum(each["cost_usd"] for each in made) / TURNS


@pytest.mark.long
async def test_seven_usual_evaluators(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_server, "answered", answered)
    async with batch_server.batch_server() as server:
        usd = {
            (packed, batch): await usd_a_turn(tmp_path, server.base_url, packed=packed, batch=batch)
            for packed in (False, True)
            for batch in (False, True)
        }
    print(
        {
            f"{'pack' if packed else 'apart'}, {'batch' if batch else 'at once'}": f"{usd[packed, batch]:.6f}"
            for packed, batch in usd
        }
    )
    for packed in (False, True):
        assert 0.5 < usd[packed, True] / usd[packed, False] < 0.5 + 1 / TURNS  # a turn's share went out at once
    assert usd[False, False] / usd[True, True] > 4
