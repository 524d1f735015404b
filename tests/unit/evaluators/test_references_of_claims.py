"""Evaluators that compare claims with a source or a reference: values by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from evaluators.cases import Attachment, ToolCall, Turn
from evaluators.catalogue import load_evaluators
from evaluators.evaluation import evaluate
from evaluators.results import Score, Skipped
from evaluators.testing import ScriptedJudge, a_moment

TURN = Turn(
    input="The hall opens at nine. It closes at six. Tickets are free.",
    actual_output="It opens at nine and costs five.",
    expected_output="It opens at nine. It is free.",
    retrieval_context=("The hall opens at nine.",),
    tools_called=(ToolCall(name="hours", result="9-18"), ToolCall(name="hours", result="9-18")),
)


def items(*texts: str) -> dict[str, Any]:
    return {"items": list(texts)}


def verdicts(*words: str) -> dict[str, Any]:
    return {"verdicts": [{"number": n, "reason": "so", "verdict": word} for n, word in enumerate(words, 1)]}


async def scored(kind: str, *replies: dict[str, Any], turn: Turn = TURN, **fields: Any) -> tuple[Score, ScriptedJudge]:
    judge = ScriptedJudge(list(replies))
    evaluation = await evaluate(load_evaluators()[kind](name="x", **fields), turn, judge, now=a_moment)
    assert isinstance(evaluation.outcome, Score), evaluation.outcome
    return evaluation.outcome, judge


async def test_a_summary_is_as_good_as_the_worse_of_its_shares() -> None:
    replies = items("a", "b"), verdicts("yes", "no"), items("c", "d", "e"), verdicts("yes", "no", "unclear")
    score, judge = await scored("summarization", *replies)
    assert score.value == pytest.approx(1 / 3)
    assert [score.details[name]["share"] for name in ("alignment", "coverage")] == [0.5, pytest.approx(1 / 3)]
    assert judge.questions[1].prompt.material["input"] == [TURN.input]
    assert judge.questions[3].prompt.material["actual_output"] == TURN.actual_output


@pytest.mark.parametrize(
    ("measure_by", "replies", "value"),
    [
        (
            "f1",
            (items("a", "b"), verdicts("yes", "no"), items("c", "d", "e", "f"), verdicts("yes", "no", "no", "no")),
            1 / 3,
        ),
        ("precision", (items("a", "b"), verdicts("yes", "no")), 0.5),
        ("recall", (items("c", "d"), verdicts("yes", "unclear")), 0.5),
        ("f1", (items("a"), verdicts("no"), items("b"), verdicts("no")), 0.0),
    ],
)
async def test_claims_of_answer_and_reference(measure_by: str, replies: Any, value: float) -> None:
    score, _ = await scored("factual_correctness", *replies, measure_by=measure_by)
    assert score.value == pytest.approx(value)


async def test_context_recall() -> None:
    score, judge = await scored("context_recall", items("nine", "free"), verdicts("yes", "no"))
    assert score.value == 0.5
    assert judge.questions[1].prompt.material["retrieval_context"] == ["The hall opens at nine."]
    assert "actual_output" not in judge.questions[1].prompt.material


async def test_step_efficiency() -> None:
    score, judge = await scored("step_efficiency", verdicts("yes", "no"))
    assert (score.value, len(judge.questions)) == (0.5, 1)


@pytest.mark.parametrize("preset", ["helpfulness", "coherence", "fluency", "conciseness", "sycophancy"])
async def test_presets_bring_their_steps(preset: str) -> None:
    score, judge = await scored(
        "g_eval", {"reason": "so", "score": 5}, preset=preset, evaluation_params=["input", "actual_output"]
    )
    assert (score.value, len(judge.questions)) == (0.5, 1)
    assert "1. " in judge.questions[0].prompt.instructions


@pytest.mark.parametrize("preset", ["image_coherence", "image_helpfulness"])
async def test_presets_of_images_judge_no_answer_without_a_picture(preset: str) -> None:
    fields: dict[str, Any] = {"preset": preset, "evaluation_params": ["input", "actual_output"]}
    shown = replace(TURN, attachments=(Attachment(kind="image", url="https://cdn.example.com/a.png"),))
    score, judge = await scored("g_eval", {"reason": "so", "score": 5}, turn=shown, **fields)
    assert score.value == 0.5
    assert "picture" in judge.questions[0].prompt.instructions
    without = await evaluate(load_evaluators()["g_eval"](name="x", **fields), TURN, ScriptedJudge([]), now=a_moment)
    assert without.outcome == Skipped(reason="missing_field: attachments")
