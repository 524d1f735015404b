"""Runs of hundreds of calls: each call is judged with its own result in view, and what is not in view is undecided."""

from __future__ import annotations

from typing import Any

import pytest

from evaluators.cases import ToolCall, Turn
from evaluators.catalogue import load_evaluators
from evaluators.evaluation import evaluate
from evaluators.results import Failure, Score
from evaluators.testing import ScriptedJudge, a_moment


def run_of(calls: int, characters: int) -> Turn:
    """Every third call has a result that the agent misused."""
    return Turn(
        input="Check all orders.",
        actual_output="Done.",
        tools_called=tuple(
            ToolCall(name="look", arguments={"order": n}, result=("BAD " if n % 3 == 0 else "good ") + "x" * characters)
            for n in range(1, calls + 1)
        ),
    )


def honest(prompt: Any, _form: Any) -> dict[str, Any]:
    """Judges by what it is shown: a call whose result it does not see is unclear."""
    visible = {
        call.get("call", at): call
        for at, call in enumerate(prompt.material["tools_called"], 1)
        if isinstance(call, dict)
    }
    verdicts: list[dict[str, Any]] = []
    for item in prompt.material["items"]:
        call = visible.get(item["item"]["call"])
        word = "unclear" if call is None else "no" if call["result"].startswith("BAD") else "yes"
        verdicts.append({"number": item["number"], "reason": "so", "verdict": word})
    return {"verdicts": verdicts}


async def judged(kind: str, turn: Turn, judge: Any = honest, **fields: Any) -> tuple[Any, ScriptedJudge]:
    scripted = ScriptedJudge(judge)
    result = await evaluate(load_evaluators()[kind](name="x", **fields), turn, scripted, now=a_moment)
    return result.outcome, scripted


@pytest.mark.parametrize(("calls", "characters"), [(3, 10), (40, 4_000), (300, 4_000), (300, 100), (100, 1_000)])
async def test_a_third_that_is_misused_is_found(calls: int, characters: int) -> None:
    score, judge = await judged("result_use", run_of(calls, characters), max_windows=1000)
    assert isinstance(score, Score)
    assert score.value == pytest.approx(1 - (calls // 3) / calls)
    assert "undecided" not in score.details
    assert score.explanation.count("Item") == min(3, calls // 3), "the failures are named"
    shown = [sum(len(str(call)) for call in question.prompt.material["tools_called"]) for question in judge.questions]
    assert max(shown) < 100_000


async def test_a_sample_of_windows_has_no_verdict_on_what_is_not_shown() -> None:
    score, judge = await judged("result_use", run_of(300, 4_000))
    assert isinstance(score, Score)
    assert score.value == pytest.approx(2 / 3, abs=0.1)
    assert (len(judge.questions), score.details["left_out"] > 0) == (20, True)


async def test_what_the_judge_cannot_decide_counts_neither_way() -> None:
    def half(prompt: Any, form: Any) -> dict[str, Any]:
        answer = honest(prompt, form)
        answer["verdicts"][0]["verdict"] = "unclear"
        return answer

    score, judge = await judged("argument_grounding", run_of(60, 4_000), half)
    assert isinstance(score, Score)
    assert score.details["undecided"] == len(judge.questions)
    decided = [item["verdict"] for item in score.details["items"] if item["verdict"] != "unclear"]
    assert score.value == pytest.approx(decided.count("yes") / len(decided))
    assert f"{len(judge.questions)} could not be decided" in score.explanation
    nothing, _ = await judged(
        "result_use",
        run_of(60, 4_000),
        lambda prompt, _form: {
            "verdicts": [
                {"number": item["number"], "reason": "so", "verdict": "unclear"} for item in prompt.material["items"]
            ]
        },
    )
    assert isinstance(nothing, Failure)
    assert nothing.type == "too_expensive"


async def test_a_tool_that_was_never_called_can_be_told_in_a_long_run() -> None:
    score, judge = await judged("step_efficiency", run_of(60, 4_000))
    assert isinstance(score, Score)
    assert judge.questions[0].prompt.material["calls_by_tool"] == {"look": 60}
