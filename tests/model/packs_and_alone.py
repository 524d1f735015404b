"""The scores of a real model in a pack and alone, and alone once more: `python tests/model/packs_and_alone.py 200 FILE`.

Answers are about places and sums; every other one is wrong. Asked again alone, a question has another marker and so is
the measure of the noise. Appends a line a case to the file, of which it asks no case again, and prints the differences
of the scores with their 95 % intervals.
"""

from __future__ import annotations

import asyncio
import json
import math
import ssl
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from model_server import model_server

from evaluators import GEval, OpenAIJudge, Turn
from evaluators.evaluation import Result, evaluate
from evaluators.packs.evaluate_pack import evaluate_pack
from evaluators.results import Score
from evaluators.testing import a_turn

SHOWN = ("input", "actual_output")
STEPS = {
    "right": "Compare what is stated with the facts.",
    "relevant": "Look whether the answer is about what is asked.",
    "polite": "Look whether the words are friendly.",
}
EVALUATORS = [
    GEval(name=name, evaluation_steps=(step,), evaluation_params=SHOWN, scale=(1, 5), reason="none", max_tokens=40)
    for name, step in STEPS.items()
]
CAPITALS = {
    "France": "Paris", "Japan": "Tokyo", "Italy": "Rome", "Egypt": "Cairo", "Peru": "Lima", "Kenya": "Nairobi",
    "Norway": "Oslo", "Spain": "Madrid", "Cuba": "Havana", "Ghana": "Accra",
}  # fmt: skip
TOWNS = [*CAPITALS.values()]


def turn(number: int) -> Turn:
    """A question and an answer; odd ones are wrong, every fourth pair is a sum, every third is curt."""
    wrong, tail = number % 2, "" if number % 3 else " Is there anything else that I can do for you?"
    if number % 4 > 1:
        return a_turn(f"What is {number} plus 17?", f"{number} plus 17 is {number + 17 + 9 * wrong}.{tail}")
    country = [*CAPITALS][number // 2 % 10]
    town = TOWNS[(number // 2 + 3 * wrong) % 10]
    return a_turn(f"Question {number}: what is the capital of {country}?", f"It is {town}.{tail}")


def value(result: Result) -> float | None:
    outcome = result.outcome
    assert isinstance(outcome, Score) or "unreachable" not in outcome.type, "the model's server has ended"
    return outcome.value if isinstance(outcome, Score) else None


def interval(differences: Sequence[float]) -> str:
    error = 1.96 * statistics.stdev(differences) / math.sqrt(len(differences))
    return f"{statistics.mean(differences):+.4f} ± {error:.4f}, absolute {statistics.mean(map(abs, differences)):.4f}"


def judge_in(slot: int, url: str) -> OpenAIJudge:
    """A judge whose questions have a slot of the server to themselves, which has their instructions in its cache."""
    return OpenAIJudge(
        "smollm2", base_url=url, api_key="k", timeout=300, answer_key=False, extra_body={"id_slot": slot},
        ssl_context=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
    )  # fmt: skip


async def asked(url: str, numbers: Sequence[int], file: Path) -> None:
    """Append the scores of cases to a file."""
    judges = [judge_in(slot, url) for slot in range(len(EVALUATORS) + 1)]
    for number in numbers:
        case, row = turn(number), {"case": number}
        pairs = [*zip(EVALUATORS, judges, strict=False)]
        ways = {
            "alone": await asyncio.gather(*(evaluate(evaluator, case, judge) for evaluator, judge in pairs)),
            "again": await asyncio.gather(*(evaluate(evaluator, case, judge) for evaluator, judge in pairs)),
            "pack": await evaluate_pack(EVALUATORS, case, judges[-1]),
        }
        for way, results in ways.items():
            row |= {f"{way} {name}": value(result) for name, result in zip(STEPS, results, strict=True)}
        with file.open("a") as out:
            out.write(json.dumps(row) + "\n")
    for judge in judges:
        await judge.aclose()


def report(rows: Sequence[dict[str, float]]) -> None:
    """Print how scores in a pack, and alone once more, differ from those alone."""
    for name in STEPS:
        for way in ("again", "pack"):
            pairs = [(row.get(f"alone {name}"), row.get(f"{way} {name}")) for row in rows]
            differences = [other - alone for alone, other in pairs if alone is not None and other is not None]
            if len(differences) > 1:
                print(f"{name}: {way} - alone {interval(differences)}, {len(differences)} cases")


def main(count: int, file: Path) -> None:
    rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    done = {row["case"] for row in rows}
    if left := [number for number in range(count) if number not in done]:
        with model_server() as url:
            asyncio.run(asked(url, left, file))
    report([json.loads(line) for line in file.read_text().splitlines()])


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
