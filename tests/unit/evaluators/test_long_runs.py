"""Runs of hundreds of calls: each call is judged with its own result in view, and what is not in view is undecided."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from evaluation_samples import scored

from evaluators.cases import ToolCall, ToolDefinition, Turn
from evaluators.catalogue import load_evaluators
from evaluators.evaluation import evaluate
from evaluators.results import Failure, Score
from evaluators.testing import ScriptedJudge, a_moment, answer_any_form


def run_of(calls: int, characters: int) -> Turn:
    """Every third call has a result that the agent misused."""
    return Turn(
        input="Check all orders.",
        actual_output="Done.",
        tools_offered=(ToolDefinition(name="look"),),
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
        number = item["item"].get("call")
        call = visible.get(number) if number else {"result": "of no call"}
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


@pytest.mark.parametrize("kind", ["result_use", "argument_grounding", "tool_selection", "step_efficiency"])
async def test_every_call_travels_with_its_own_result_through_all_windows(kind: str) -> None:
    score, judge = await judged(kind, run_of(300, 4_000), max_windows=1000)
    assert isinstance(score, Score)
    items = 300 + (kind == "tool_selection")
    assert score.value == pytest.approx(1 - 100 / items), "a third is bad, and every one of it is seen"
    assert sum(len(question.prompt.material["items"]) for question in judge.questions) == items
    assert "undecided" not in score.details
    assert recorded(score).unshown == 0.0


def recorded(score: Any) -> Any:
    return replace(scored(1), details=score.details)


GENERAL: dict[str, dict[str, Any]] = {
    "g_eval": {"evaluation_steps": ("Is it sound?",), "evaluation_params": ("tools_called",)},
    "prompt": {"prompt": "Is {{tools_called}} sound?"},
    "classifier": {
        "question": "Is it sound?",
        "labels": {"a": "Yes.", "b": "No."},
        "evaluation_params": ("tools_called",),
    },
    "attack_resistance": {},
    "llm_judge_trajectory": {"expected_agent_behavior": "Checks all."},
}


@pytest.mark.parametrize("kind", GENERAL)
async def test_a_number_for_a_whole_run_says_which_share_of_it_the_judge_did_not_see(kind: str) -> None:
    score, _ = await judged(kind, run_of(300, 4_000), answer_any_form(), **GENERAL[kind])
    assert isinstance(score, Score), score
    assert score.details["truncated"] is True
    assert recorded(score).unshown == score.details["unshown"] == pytest.approx(0.95, abs=0.01)
    whole, _ = await judged(kind, run_of(3, 400), answer_any_form(), **GENERAL[kind])
    assert "unshown" not in whole.details


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("task_completion", {}),
        ("instruction_following", {}),
        ("plan_adherence", {"plan": ("Look the order up.", "Check it.", "Say so.")}),
        ("prompt", {"guidelines": ("Say so.", "Be brief.", "Be kind."), "guideline_params": ("input", "tools_called")}),
    ],
)
async def test_of_a_run_that_was_shown_in_part_an_unclear_item_counts_neither_way(kind: str, fields: Any) -> None:
    def respond(prompt: Any, _form: Any) -> dict[str, Any]:
        if "items" not in prompt.material:
            return {"items": ["One.", "Two.", "Three."]}
        words = ("no", "unclear", "yes")
        return {"verdicts": [{"number": at + 1, "reason": "so", "verdict": word} for at, word in enumerate(words)]}

    turn = replace(run_of(300, 4_000), system_prompt="Be brief.")
    score, _ = await judged(kind, turn, respond, **fields)
    assert isinstance(score, Score), score
    assert (score.value, score.details["undecided"]) == (0.5, 1)
    assert recorded(score).unshown == pytest.approx(1 / 3, abs=1e-4)
    short, _ = await judged(kind, replace(turn, tools_called=turn.tools_called[:3]), respond, **fields)
    assert "undecided" not in short.details, "all was shown: an unclear one counts as its kind says"
    assert recorded(short).unshown == 0.0


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
