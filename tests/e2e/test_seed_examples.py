"""The worked examples of G-Eval, conversational G-Eval, pairwise G-Eval and judges of outputs as their authors print
them: their texts, criteria, steps and judges' answers, and the score that they promise.

Each goes three ways, the library, `evalstream score` and the running service from spans, which agree.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from chat_server import rating, serving
from made_up import Trace, chat
from service import service, until_ledger

from evaluators.cases import Conversation, Turn
from evaluators.catalogue import load_evaluators
from evaluators.evaluation import evaluate
from evaluators.judges.openai import OpenAIJudge

STEPS = (
    "Compare the actual output with the expected output for semantic similarity",
    "Check if all key information from expected output is present in actual output",
    "Verify that no contradictory information exists in the actual output",
)
REFUND = {
    "input": "What if these shoes don't fit?",
    "actual_output": "You have 30 days to get a full refund at no extra cost.",
    "expected_output": "We offer a 30-day full refund at no extra costs.",
}
REFUND_REASON = (
    "The actual output conveys all the key information from the expected output: a 30-day full refund at no extra cost."
)
CUSTOM_PROMPT = """
Compare the actual output with the expected output.
Focus on semantic meaning and intent rather than exact wording.

Actual Output: {{ActualOutput}}
Expected Output: {{ExpectedOutput}}

Provide a score from 0-100 based on semantic similarity.
"""
EMAIL = """Dear Customer,

Thank you for your inquiry. We have reviewed your request
and are pleased to inform you that we can accommodate your
needs. Please let us know if you have any questions.

Best regards,
Support Team"""
ACCOUNT = {"status": "success", "user_id": 12345, "name": "John Doe", "email": "john@example.com"}
BASELINE, ENHANCED = "Restart it.", "Stop the service, apply the update, start it, and look at the log."
PROFESSIONAL = (
    "Being professional means no profanity, no toxic language, and consistently says 'please' or 'thank you'."
)
DIMENSIONS = ("accuracy", "completeness", "clarity", "actionability", "relevance")


@dataclass(frozen=True, kw_only=True)
class Seed:
    """An example: the evaluator, the turns, the judge's answers in order, and what is promised of it."""

    evaluator: Mapping[str, Any]
    turns: Sequence[Mapping[str, Any]]
    answers: Sequence[str]
    value: float
    raw: float | None = None
    passed: bool | None = None
    shown: Sequence[str] = ()
    """Texts that the judge has to have been shown."""
    explanation: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)


def compared(better: str) -> str:
    """The example's form of an answer: each answer in each dimension, with evidence, from 1 to 5; 5 is the best here."""
    scores = {better: 4, "b" if better == "a" else "a": 2}
    sides = {side: {"reason": "So.", "evidence": [], "score": score} for side, score in scores.items()}
    return json.dumps({name: {side: sides[side] for side in ("a", "b")} for name in DIMENSIONS})


SEEDS = {
    "steps that the judge makes of criteria": Seed(
        evaluator={
            "kind": "g_eval",
            "criteria": "Determine if the 'actual output' is correct based on the 'expected output'.",
            "evaluation_params": ["actual_output", "expected_output"],
        },
        turns=[REFUND],
        answers=[json.dumps({"steps": STEPS}), rating(9, REFUND_REASON)],
        value=0.9,
        raw=9,
        passed=True,
        shown=[*STEPS, REFUND["actual_output"], REFUND["expected_output"]],
        explanation=REFUND_REASON,
    ),
    "steps that are given": Seed(
        evaluator={
            "kind": "g_eval",
            "evaluation_steps": [
                "Check whether the facts in 'actual output' contradicts any facts in 'expected output'",
                "You should also heavily penalize omission of detail",
                "Vague language, or contradicting OPINIONS, are OK",
            ],
            "evaluation_params": ["input", "actual_output", "expected_output"],
        },
        turns=[
            {
                "input": "The dog chased the cat up the tree, who ran up the tree?",
                "actual_output": "It depends, some might consider the cat, while others might argue the dog.",
                "expected_output": "The cat.",
            }
        ],
        answers=[rating(3, "It does not commit itself to the cat.")],
        value=0.3,
        raw=3,
        passed=False,
        shown=["You should also heavily penalize omission of detail", "who ran up the tree?", "The cat."],
    ),
    "strict mode": Seed(
        evaluator={
            "kind": "g_eval",
            "evaluation_steps": STEPS,
            "evaluation_params": ["actual_output", "expected_output"],
            "strict_mode": True,
        },
        turns=[REFUND],
        answers=[json.dumps({"reason": REFUND_REASON, "score": 1})],
        value=1.0,
        passed=True,
    ),
    "a whole conversation": Seed(
        evaluator={
            "kind": "conversational_g_eval",
            "evaluation_steps": [
                "Check whether each LLM 'actual output' is professional with regards to the user 'input'",
                PROFESSIONAL,
                "Penalize heavily if exclaimation marks are used in a rude demeanour.",
            ],
            "evaluation_params": ["input", "actual_output"],
        },
        turns=[
            {"input": "Where is my parcel?", "actual_output": "Please give me its number. Thank you."},
            {"input": "It is 7.", "actual_output": "Thank you. It arrives on Monday."},
        ],
        answers=[rating(8, "Courteous throughout.")],
        value=0.8,
        raw=8,
        passed=True,
        shown=["Where is my parcel?", "Thank you. It arrives on Monday.", "exclaimation marks"],
    ),
    "a baseline and an enhanced response": Seed(
        evaluator={"kind": "pairwise_dimensions", "other_output_attribute": "baseline"},
        turns=[{"input": "How do I update the service?", "actual_output": ENHANCED}],
        answers=[compared("a"), compared("b")],
        value=1.0,
        shown=[BASELINE, ENHANCED],
        attributes={"baseline": BASELINE},
    ),
    "semantic similarity": Seed(
        evaluator={"kind": "llm_judge", "target_output_key": "answer", "temperature": 0.0},
        turns=[
            {
                "input": "What is the capital of France?",
                "actual_output": json.dumps({"answer": "Paris is the capital city of France."}),
                "expected_output": json.dumps({"answer": "The capital of France is Paris."}),
            }
        ],
        answers=[rating(95, "The outputs convey the same meaning.")],
        value=0.95,
        raw=95,
        shown=["Paris is the capital city of France.", "The capital of France is Paris."],
        explanation="The outputs convey the same meaning.",
    ),
    "a prompt of one's own": Seed(
        evaluator={"kind": "llm_judge", "target_output_key": "message", "prompt": CUSTOM_PROMPT, "temperature": 0.0},
        turns=[
            {
                "input": "Add it.",
                "actual_output": json.dumps({"message": "The product has been successfully added to your cart."}),
                "expected_output": json.dumps({"message": "Item added to shopping cart."}),
            }
        ],
        answers=[rating(90, "The same intent.")],
        value=0.9,
        raw=90,
        shown=["Focus on semantic meaning and intent rather than exact wording.", "Item added to shopping cart."],
    ),
    "the quality of an email": Seed(
        evaluator={"kind": "llm_judge", "target_output_key": "email", "temperature": 0.0},
        turns=[
            {
                "input": "Write a professional email",
                "actual_output": json.dumps({"email": EMAIL}),
                "expected_output": json.dumps(
                    {"email": "A professional, courteous response addressing the customer's inquiry"}
                ),
            }
        ],
        answers=[rating(85, "Professional.")],
        value=0.85,
        raw=85,
        shown=["Thank you for your inquiry.", "A professional, courteous response"],
    ),
    "strict JSON, all identical": Seed(
        evaluator={"kind": "llm_judge_strict_json"},
        turns=[{"input": "Who?", "actual_output": json.dumps(ACCOUNT), "expected_output": json.dumps(ACCOUNT)}],
        answers=[],
        value=1.0,
        raw=100,
    ),
    "strict JSON, a penalty of each kind": Seed(
        evaluator={"kind": "llm_judge_strict_json"},
        turns=[
            {
                "input": "Who?",
                "actual_output": json.dumps({"status": "ok", "user_id": 99, "name": "John Doe", "age": 50}),
                "expected_output": json.dumps(ACCOUNT),
            }
        ],
        answers=["status: similar, user_id: different"],
        value=0.35,  # missing 25, different 25, similar 12.5, identical 0, one more 2.5
        raw=35,
    ),
}


def respond(body: dict[str, Any], _number: int) -> str:
    """The answer of the seed after which the judge's model is named, to a request by its schema."""
    answers = SEEDS[body["model"]].answers
    properties = body["response_format"]["json_schema"]["schema"]["properties"]
    if "steps" in properties:
        return answers[0]
    if "accuracy" in properties:
        message = str(body["messages"][-1]["content"])
        return answers[0 if message.index(ENHANCED) < message.index(BASELINE) else 1]
    return answers[-1] if "score" in properties else labelled_keys(body)


def labelled_keys(body: Mapping[str, Any]) -> str:
    """The two keys that differ: the status is similar, the number another one."""
    message = str(body["messages"][-1]["content"])
    material = orjson.loads(message.partition(">>>\n")[2].partition("\n<<<end of material")[0])
    labels = {"status": "similar", "user_id": "different"}
    return json.dumps(
        {
            "labels": [
                {"number": each["number"], "reason": "So.", "label": labels.get(each["key"], "different")}
                for each in material["items"]
            ]
        }
    )


def evaluator_of(name: str) -> Any:
    settings = dict(SEEDS[name].evaluator)
    return load_evaluators()[settings.pop("kind")](name=slug(name), **settings)


def slug(name: str) -> str:
    return name.replace(" ", "_").replace(",", "").replace("'", "")


def cases_of(name: str) -> list[dict[str, Any]]:
    return [
        {
            "turn_id": f"{slug(name)}-{number}",
            "conversation_id": slug(name),
            "service": slug(name),
            "attributes": dict(SEEDS[name].attributes),
            **turn,
        }
        for number, turn in enumerate(SEEDS[name].turns)
    ]


def configuration(judge: str) -> dict[str, Any]:
    """A judge, an evaluator and a monitor for each."""
    slugs = {name: slug(name) for name in SEEDS}
    return {
        "judges": {each: {"model": name, "base_url": judge} for name, each in slugs.items()},
        "evaluators": {each: {**SEEDS[name].evaluator, "judge": each} for name, each in slugs.items()},
        "monitors": {
            each: {"match": {"service": each}, "evaluators": [each], "idle_timeout": "2s"} for each in slugs.values()
        },
        "assemble": {
            "attributes": ["baseline"],
            "idle_timeout": "500ms",
            "allowed_lateness": "5s",
            "fields": {"expected_output": ["app.expected"]},
        },
    }


@pytest.mark.parametrize("name", SEEDS)
async def test_by_the_library(name: str) -> None:
    seed, evaluator = SEEDS[name], evaluator_of(name)
    turns = tuple(Turn(**case) for case in cases_of(name))
    case = Conversation(conversation_id="c1", turns=turns) if evaluator.scope == "conversation" else turns[0]
    async with serving(respond) as server, OpenAIJudge(name, base_url=server.base_url, api_key="k") as judge:
        score = (await evaluate(evaluator, case, judge)).outcome
        shown = "\n".join(texts_of(server.requests))
    assert (score.value, score.raw_score) == (pytest.approx(seed.value), seed.raw or score.raw_score)
    assert all(text in shown for text in seed.shown), shown
    if seed.passed is not None:
        assert (score.value >= (evaluator.threshold or 0)) is seed.passed
    assert seed.explanation in (score.explanation or "")


def texts_of(requests: Sequence[Mapping[str, Any]]) -> list[str]:
    """What judges were shown, without the escapes of JSON in the material."""
    contents = [str(message["content"]) for request in requests for message in request["messages"]]
    return [content.replace('\\"', '"').replace("\\n", "\n") for content in contents]


async def test_by_score(tmp_path: Path) -> None:
    """Which gives every case to every evaluator: each has its own example among them."""
    async with serving(respond) as server:
        (tmp_path / "evalstream.yaml").write_text(yaml.safe_dump(configuration(server.base_url)))
        cases = [case for name in SEEDS for case in cases_of(name)]
        (tmp_path / "turns.jsonl").write_text("".join(json.dumps(case) + "\n" for case in cases))
        command = [sys.executable, "-m", "collector.cli", "score", "turns.jsonl", "-o", "out.jsonl"]
        done = await asyncio.to_thread(
            subprocess.run, command, cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False
        )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    records = {each["evaluator"]: each for each in lines if each["evaluator"] == each["subject"]["conversation_id"]}
    assert {each: record["score"] for each, record in records.items()} == PROMISED
    for name, seed in SEEDS.items():
        assert seed.passed is None or records[slug(name)]["passed"] is seed.passed


async def test_by_the_running_service_from_spans(tmp_path: Path) -> None:
    async with serving(respond) as server:
        log = {"log": {"kind": "sqlite", "path": "evalstream.db"}}
        async with service(tmp_path, configuration(server.base_url) | log) as process:
            for trace in traces():
                for piece in trace.pieces():
                    assert await process.post(piece.signal, piece.value) == 200
            evaluations = {each.evaluator: each for each in await until_ledger(process, len(SEEDS))}
    assert {each: evaluation.score for each, evaluation in evaluations.items()} == PROMISED
    for name, seed in SEEDS.items():
        assert seed.passed is None or evaluations[slug(name)].passed is seed.passed


def traces() -> Iterator[Trace]:
    """A trace for each turn, with the reference and the other answer as attributes of the model call."""
    start = time.time_ns() - 10_000_000_000
    for number, (name, turn) in enumerate(((name, turn) for name, seed in SEEDS.items() for turn in seed.turns), 1):
        trace = Trace(f"{number:032x}", {"service.name": slug(name)}, start=start + number * 100_000_000)
        reference = {"app.expected": turn["expected_output"]} if "expected_output" in turn else {}
        about = {"gen_ai.conversation.id": slug(name), **reference, **SEEDS[name].attributes}
        trace.span(1, "chat", chat(turn["input"], turn["actual_output"], **about))
        yield trace


PROMISED = {slug(name): pytest.approx(seed.value) for name, seed in SEEDS.items()}
