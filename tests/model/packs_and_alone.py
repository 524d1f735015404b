"""The scores of a real model in a pack and alone, and alone once more: `python tests/model/packs_and_alone.py 0 200`.

Answers are about places and sums; every other one is wrong. Asked again alone, a question has another marker and so is
the measure of the noise. Prints a line a case, and at the end the differences of the scores with their 95 % intervals.
"""

from __future__ import annotations

import asyncio
import json
import math
import ssl
import statistics
import sys
from collections import defaultdict
from collections.abc import Sequence

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


async def main(first: int, last: int) -> None:
    found: dict[tuple[str, str], list[float | None]] = defaultdict(list)
    with model_server() as url:
        plain = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        async with OpenAIJudge(
            "smollm2", base_url=url, api_key="k", timeout=300, ssl_context=plain, answer_key=False
        ) as judge:
            for number in range(first, last):
                case = turn(number)
                ways = {
                    "alone": [await evaluate(evaluator, case, judge) for evaluator in EVALUATORS],
                    "again": [await evaluate(evaluator, case, judge) for evaluator in EVALUATORS],
                    "pack": await evaluate_pack(EVALUATORS, case, judge),
                }
                for way, results in ways.items():
                    for name, result in zip(STEPS, results, strict=True):
                        found[way, name].append(value(result))
                print(
                    json.dumps(
                        {"case": number, **{f"{way} {name}": values[-1] for (way, name), values in found.items()}}
                    ),
                    flush=True,
                )
    for name in STEPS:
        triples = [*zip(*(found[way, name] for way in ("alone", "again", "pack")), strict=True)]
        whole = [(alone, again, pack) for alone, again, pack in triples if None not in (alone, again, pack)]
        print(f"{name}: {len(whole)} of {len(triples)} cases scored in all three ways")
        print(f"  again - alone: {interval([again - alone for alone, again, _ in whole])}")
        print(f"  pack - alone:  {interval([pack - alone for alone, _, pack in whole])}")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
