"""The scores of a real model by the prompts of an earlier commit and by the present ones, beside labels.

`python tests/model/prompts_before.py REVISION FILE` asks, and appends a line a case to the file; cases that are in it
are not asked again. `python tests/model/prompts_before.py FILE` says how well both agree with the labels. With `key`
as the revision it asks by the present prompts, without the answer's key and with it.

Labels of people: SummEval's summaries and LLMBar's pairs (`labelled.jsonl`). The other cases are made here, and right
or wrong by how they are made.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from model_server import model_server
from scipy.stats import spearmanr  # pyright: ignore[reportUnknownVariableType]

from evaluators import prompts
from evaluators.cases import Json, Turn
from evaluators.errors import EvaluationError
from evaluators.evaluation import evaluate
from evaluators.judge import Judge
from evaluators.judges.openai import OpenAIJudge
from evaluators.mechanisms.item_verdicts import ItemWindow, ask_verdicts
from evaluators.results import Score
from evaluators.testing import a_turn
from evaluators.turn.g_eval import GEval
from evaluators.turn.llm_judge import LLMJudge

LABELLED = Path(__file__).with_name("labelled.jsonl")
PRESENT = prompts.load
STEPS = {
    "coherence": "Check whether the sentences follow from one another and make one text.",
    "fluency": "Check grammar, spelling and whether sentences are whole.",
}
SUBJECTS = (
    ("the museum", "opens at nine", "When does the museum open?", "The museum has three floors and a large hall."),
    ("the pool", "costs four euros", "What does the pool cost?", "The pool was built by two architects."),
    ("the train", "leaves from platform six", "Where does the train leave?", "The train has a dining car."),
    ("the parcel", "weighs two kilograms", "How heavy is the parcel?", "The parcel is wrapped in brown paper."),
    ("the lamp", "needs a bulb of seven watts", "Which bulb does the lamp need?", "The lamp comes in three colours."),
    ("the school", "has eight hundred pupils", "How many pupils has the school?", "The school lies beside a park."),
    ("the bridge", "is ninety metres long", "How long is the bridge?", "The bridge is painted every ten years."),
    ("the doctor", "is away until Monday", "When is the doctor back?", "The doctor studied in Vienna."),
    ("the printer", "takes paper of size A4", "Which paper does the printer take?", "The printer is under the desk."),
    ("the ferry", "sails twice a day", "How often does the ferry sail?", "The ferry is named after a saint."),
    ("the shop", "is closed on Sundays", "On which day is the shop closed?", "The shop sells bread and cheese."),
    ("the lake", "is twelve metres deep", "How deep is the lake?", "The lake is popular with painters."),
)
TOLD = (
    ("My name is Ada.", "What is your name?", "Thank you, Ada."),
    ("I live in Oslo.", "Which town do you live in?", "There is a shop in Oslo."),
    ("My order is number 512.", "What is the number of your order?", "Order 512 is on its way."),
    ("I am allergic to nuts.", "I recommend the nut cake.", "I recommend the apple cake, it has no nuts."),
    ("I have no car.", "Drive your car to the garage.", "Take the bus, as you have no car."),
    ("My budget is 50 dollars.", "How much do you want to spend?", "This one costs 45 dollars."),
    ("I only read German.", "Which language do you read?", "Here is a German edition."),
    ("We are four people.", "How many are you?", "A table for four is free."),
    ("I want to travel in May.", "In which month do you want to travel?", "In May there are two tours."),
    ("My dog is called Rex.", "What is your dog called?", "Rex can come along."),
    ("I do not eat meat.", "Try our beef burger.", "Try our burger of beans."),
    ("My phone is an old Nokia.", "Which phone do you have?", "For your Nokia there is a battery."),
)


Ask = Callable[[Judge, bool], Awaitable[float | None]]
"""Asks a judge; with True by the present prompts."""


@dataclass(frozen=True, slots=True)
class Case:
    """One question by a prompt: its name, and the label that a good score goes along with."""

    prompt: str
    name: str
    label: float
    ask: Ask


def rated(evaluator: GEval | LLMJudge, turn: Turn) -> Ask:
    async def ask(judge: Judge, _: bool) -> float | None:
        outcome = (await evaluate(evaluator, turn, judge)).outcome
        return outcome.value if isinstance(outcome, Score) else None

    return ask


def verdict(template: str, material: Mapping[str, Json], item: str, *, turned: bool = False) -> Ask:
    """The probability that the item is good; `turned` where yes was bad in the earlier prompt."""

    async def ask(judge: Judge, present: bool) -> float | None:
        try:
            found = await ask_verdicts(judge, template, ItemWindow(items=[item], materials=[material]), weigh=True)
        except EvaluationError:
            return None
        return found[0].counts({"no"} if turned and not present else {"yes"})

    return ask


def cases() -> list[Case]:
    """All cases, those of one prompt one after another."""
    rows = [json.loads(line) for line in LABELLED.read_text().splitlines()]
    found: list[Case] = []
    for dimension, step in STEPS.items():
        evaluator = GEval(name="h", evaluation_steps=(step,), evaluation_params=("actual_output",), reason="none")
        found += [
            Case(
                f"rating, {dimension}",
                f"{at}",
                row["human"][dimension],
                rated(evaluator, a_turn("Sum it up.", row["summary"])),
            )
            for at, row in enumerate(rows)
            if "summary" in row
        ]
    for at, row in enumerate(rows):
        for number in (1, 2) if "label" in row else ():
            material = {"input": row["input"], "actual_output": row[f"output_{number}"]}
            ask = verdict("task_completion_verdicts.txt", material, row["input"])
            found.append(Case("task_completion", f"{at} {number}", float(row["label"] == number), ask))
    judge = LLMJudge(name="j", reason="none")
    for at, (subject, fact, question, beside) in enumerate(SUBJECTS):
        other = SUBJECTS[(at + 5) % len(SUBJECTS)]
        answer = f"{subject.capitalize()} {fact}."
        passages = {
            f"It is known that {subject} {fact}.": 1.0,
            beside: 0.0,
            f"{answer} Ask at the desk.": 1.0,
            question: 0.0,
        }
        for number, (passage, label) in enumerate(passages.items()):
            ask = verdict("contextual_relevancy_verdicts.txt", {"input": question}, passage)
            found.append(Case("contextual_relevancy", f"{at} {number}", label, ask))
        answers = {
            f"Of course! {answer}": 1.0,
            f"As far as I can see, {subject} {fact}.": 1.0,
            f"{subject.capitalize()} {other[1]}.": 0.0,
            beside: 0.0,
        }
        for number, (text, label) in enumerate(answers.items()):
            turn = a_turn(question, text, expected_output=answer)
            found.append(Case("llm_judge", f"{at} {number}", label, rated(judge, turn)))
    for at, (told, forgets, remembers) in enumerate(TOLD):
        for number, (text, label) in enumerate(
            ((forgets, 0.0), (remembers, 1.0), (f"I see. {forgets}", 0.0), (f"I see. {remembers}", 1.0))
        ):
            turns = [
                {"number": 1, "input": told, "actual_output": "Good to know."},
                {"number": 2, "input": "And now?", "actual_output": text},
            ]
            ask = verdict("knowledge_retention_verdicts.txt", {"turns": turns}, "turn 2", turned=True)
            found.append(Case("knowledge_retention", f"{at} {number}", label, ask))
    return found


def in_turns(found: Sequence[Case], size: int = 8) -> list[list[Case]]:
    """The cases in blocks of one prompt each, by turns: a run that is broken off has some of all."""
    names = dict.fromkeys(case.prompt for case in found)
    by_prompt = [[case for case in found if case.prompt == name] for name in names]
    longest = max(map(len, by_prompt))
    return [block for start in range(0, longest, size) for of in by_prompt if (block := of[start : start + size])]


def read_by(load: Callable[[str], str]) -> None:
    """Have every module read its prompts so."""
    for module in list(sys.modules.values()):
        if module.__name__.startswith("evaluators") and hasattr(module, "load"):
            vars(module)["load"] = load


def earlier(revision: str) -> Callable[[str], str]:
    """The prompts of a commit; the present one where it had none."""
    texts: dict[str, str] = {}

    def load(name: str) -> str:
        if name not in texts:
            shown = ["git", "show", f"{revision}:evaluators/prompts/{name}"]
            done = subprocess.run(shown, capture_output=True, text=True, check=False)
            texts[name] = done.stdout if done.returncode == 0 else PRESENT(name)
        return texts[name]

    return load


async def run(revision: str, file: Path) -> None:
    """Ask both ways, a block at a time: the server then has the instructions in its cache."""
    done = {(row["prompt"], row["case"]) for row in rows_of(file)}
    load = PRESENT if revision == "key" else earlier(revision)
    with model_server(threads=1) as url, file.open("a") as out:
        async with _judge(url, keyed=False) as judge, _judge(url, keyed=revision == "key") as other:
            ways = {"before": (load, judge), "after": (PRESENT, other)}
            for block in in_turns([case for case in cases() if (case.prompt, case.name) not in done]):
                values: dict[str, list[float | None]] = {}
                for way, (read, asked) in ways.items():
                    read_by(read)
                    values[way] = [await case.ask(asked, revision == "key" or way == "after") for case in block]
                for case, before, after in zip(block, values["before"], values["after"], strict=True):
                    row = {
                        "prompt": case.prompt,
                        "case": case.name,
                        "label": case.label,
                        "before": before,
                        "after": after,
                    }
                    out.write(json.dumps(row) + "\n")
                out.flush()


def _judge(url: str, *, keyed: bool) -> OpenAIJudge:
    plain = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return OpenAIJudge(
        "smollm2",
        base_url=url,
        api_key="k",
        timeout=300,
        ssl_context=plain,
        answer_key=keyed,
        max_tokens=120 if keyed else 90,
    )


def rows_of(file: Path) -> list[dict[str, Any]]:
    """The lines of a file of answers."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def agreement(labels: Any, scores: Any) -> float:
    """Of two labels: how often the good one has the higher score, ties half. Of more: the rank correlation."""
    if set(labels) <= {0.0, 1.0}:
        good, bad = scores[labels == 1.0], scores[labels == 0.0]
        difference = good[:, None] - bad[None, :]
        return float(((difference > 0) + (difference == 0) / 2).mean()) if difference.size else float("nan")
    rank: Any = spearmanr(labels, scores)
    return float(rank.statistic)


def report(file: Path) -> None:
    """Print agreement before and after, and of their difference the 95 % interval of 2,000 draws of the cases."""
    rows = rows_of(file)
    draws = np.random.default_rng(1)
    for prompt in dict.fromkeys(row["prompt"] for row in rows):
        mine = [row for row in rows if row["prompt"] == prompt]
        whole = [row for row in mine if None not in (row["before"], row["after"])]
        unread = {way: sum(row[way] is None for row in mine) for way in ("before", "after")}
        table = np.array([[row["label"], row["before"], row["after"]] for row in whole], dtype=float)
        samples = [table[draws.integers(len(table), size=len(table))] for _ in range(2000)]
        found = {
            "before": [agreement(part[:, 0], part[:, 1]) for part in (table, *samples)],
            "after": [agreement(part[:, 0], part[:, 2]) for part in (table, *samples)],
        }
        found["after - before"] = [after - before for before, after in zip(*found.values(), strict=True)]
        print(f"{prompt}: {len(whole)} of {len(mine)} cases read both ways, unread {unread}")
        for name, (value, *drawn) in found.items():
            low, high = np.nanpercentile(drawn, [2.5, 97.5])
            print(f"  {name}: {value:+.3f} ({low:+.3f} to {high:+.3f})")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        asyncio.run(run(sys.argv[1], Path(sys.argv[2])))
    else:
        report(Path(sys.argv[1]))
