"""A judge that reads a run which is longer than its question: needles, limits, and what is noted of it."""

from __future__ import annotations

import random
import re
from importlib.resources import files
from typing import Any, get_args

import pytest

from evaluators.asking.reading import Look, ReadingSettings, RunReader
from evaluators.cases import Conversation, ToolCall, Turn
from evaluators.catalogue import load_evaluators
from evaluators.evaluation import evaluate
from evaluators.evaluator import Evaluator
from evaluators.judge import Answer, Prompt, Verdict
from evaluators.results import Score, Usage
from evaluators.turn.g_eval import GEval

STEPS = 300
FAULTS = ("permission denied", "traceback", "not authorized", "wrong customer", "timed out")


class HonestReader:
    """Searches for words by which faults show, reads what it finds, and then judges by what it has seen alone."""

    model = "reader"

    def __init__(self) -> None:
        self.prompts: list[Prompt] = []

    async def ask(self, prompt: Prompt, reply: Any, *, logprobs: bool = False, samples: int = 1) -> Verdict[Any]:
        self.prompts.append(prompt)
        material: dict[str, Any] = dict(prompt.material)
        if "done" in reply.model_fields:
            hits = [hit for found in material["found"].values() for hit in found if hit.startswith("step ")]
            numbers = tuple(int(hit.split()[1].rstrip(":")) for hit in hits)
            answer = {"read": numbers, "search": FAULTS, "done": bool(material["read"])}
        else:
            seen = str({name: value for name, value in material.items() if name != "items"})
            answer = self.judge(reply, material, is_bad=any(fault in seen for fault in FAULTS))
        return Verdict([Answer(reply.model_validate(answer), str(answer))], self.model, None, Usage(calls=1))

    def judge(self, form: Any, material: dict[str, Any], *, is_bad: bool) -> dict[str, Any]:
        fields = form.model_fields
        if "items" in fields:
            return {"items": ["All orders are checked, and each check is free of faults."]}
        if "verdicts" in fields:
            word = "no" if is_bad else "yes"
            return {
                "verdicts": [{"number": item["number"], "reason": "So.", "verdict": word} for item in material["items"]]
            }
        if "label" in fields:
            labels = get_args(fields["label"].annotation)
            return {"reason": "So.", "label": next(label for label in labels if (label in BAD_LABELS) == is_bad)}
        if "goal_score" in fields:
            points = 0 if is_bad else 10
            return {"plan_reason": "So.", "plan_score": points, "goal_reason": "So.", "goal_score": points}
        return {"reason": "By what I saw.", "score": 0 if is_bad else 10}


BAD_LABELS = ("faulty", "obeyed", "unresolved", "dissatisfied")


def run_with_a_fault(seed: int) -> tuple[Turn, int]:
    chance = random.Random(seed)
    bad = chance.randrange(STEPS)
    calls: list[ToolCall] = []
    for number in range(STEPS):
        words = [chance.choice(("order", "parcel", "shop", "fine", "sent")) for _ in range(500)]
        if number == bad:
            words.insert(chance.randrange(100, 400), chance.choice(FAULTS))
        calls.append(ToolCall(name="look_up", arguments={"order": number}, result=" ".join(words)))
    turn = Turn(
        turn_id="t",
        input="Check all orders.",
        actual_output="All fine.",
        system_prompt="Check each order.",
        tools_called=tuple(calls),
    )
    return turn, bad + 1


def conversation_with_a_fault(seed: int) -> tuple[Conversation, int]:
    turn, bad = run_with_a_fault(seed)
    turns = [
        Turn(turn_id=f"t{number}", input="Next one, please.", actual_output=str(call.result))
        for number, call in enumerate(turn.tools_called)
    ]
    return Conversation(conversation_id="c", turns=tuple(turns)), bad


def evaluator(reads: int | None) -> GEval:
    return GEval(
        name="sound",
        evaluation_steps=("Is every step free of faults?",),
        evaluation_params=("input", "actual_output", "tools_called"),
        mode="single",
        reads=reads,
    )


async def found_in(judged: Evaluator[Any], runs: int) -> int:
    found = 0
    reads: int | None = judged.reads  # type: ignore[attr-defined]
    make = run_with_a_fault if judged.scope == "turn" else conversation_with_a_fault
    for seed in range(runs):
        case, bad = make(seed)
        score = (await evaluate(judged, case, HonestReader())).outcome
        assert isinstance(score, Score), score
        assert score.details["truncated"] is True
        found += score.value == 0.0
        if reads is not None and score.value == 0.0:
            noted: Any = score.details["reading"]
            assert bad + (judged.kind == "llm_judge_trajectory") in noted["read"], "its run begins with the request"
            assert "unshown" not in score.details, "the judge searched all of it"
    return found


KINDS: dict[str, dict[str, Any]] = {
    "prompt": {"prompt": "Is each check in {{tools_called}} sound?", "scale": (0, 10), "mode": "single"},
    "classifier": {
        "question": "Is each check sound?",
        "labels": {"sound": "All are.", "faulty": {"meaning": "One is not.", "score": 0}},
        "evaluation_params": ("tools_called",),
    },
    "attack_resistance": {},
    "task_completion": {},
    "instruction_following": {},
    "plan_adherence": {"plan": ("Check each order without a fault.",)},
    "llm_judge_trajectory": {"expected_agent_behavior": "Checks all.", "scale": (0, 10), "mode": "single"},
    "conversational_g_eval": {"evaluation_steps": ("Is each answer sound?",), "mode": "single"},
    "conversational_prompt": {"guidelines": ("Each answer is sound.",)},
    "conversational_classifier": {
        "question": "Is each answer sound?",
        "labels": {"sound": "All are.", "faulty": {"meaning": "One is not.", "score": 0}},
    },
    "resolution": {},
    "satisfaction": {},
    "goal_accuracy": {},
}


def test_every_kind_that_may_read_is_tried_here() -> None:
    reading = {kind for kind, cls in load_evaluators().items() if issubclass(cls, ReadingSettings)}
    assert reading == {"g_eval", *KINDS}


@pytest.mark.parametrize("kind", KINDS)
async def test_one_bad_step_of_300_is_found_by_every_kind(kind: str) -> None:
    judged = load_evaluators()[kind](name="sound", reads=4, **KINDS[kind])
    found = await found_in(judged, 10)
    print(f"{kind}: of 10 runs {found}")
    assert found >= 9


async def test_one_bad_step_of_300_is_found_by_reading_and_hardly_without() -> None:
    by_reading, without = await found_in(evaluator(4), 40), await found_in(evaluator(None), 40)
    print(f"of 40 runs: {by_reading} by reading, {without} without")
    assert by_reading >= 36
    assert without <= 10


async def test_requests_and_characters_are_bounded() -> None:
    class Greedy(HonestReader):
        async def ask(self, prompt: Prompt, reply: Any, **options: Any) -> Verdict[Any]:
            if "done" in reply.model_fields:
                self.prompts.append(prompt)
                first = len(self.prompts) * 20
                answer = {"read": tuple(range(first, first + 20)), "search": (f"order {first}",)}
                return Verdict([Answer(reply.model_validate(answer), "")], self.model, None, Usage(calls=1))
            return await super().ask(prompt, reply, **options)

    judge = Greedy()
    turn, _ = run_with_a_fault(1)
    result = await evaluate(evaluator(6), turn, judge)
    assert result.usage is not None
    assert result.usage.calls == len(judge.prompts) <= 7
    assert max(len(str(prompt.material)) for prompt in judge.prompts) < 4 * 16_384 + 16_384 + 60 * 300
    assert isinstance(result.outcome, Score)


async def test_a_run_that_fits_is_asked_about_once() -> None:
    judge = HonestReader()
    turn = Turn(turn_id="t", input="Hi", actual_output="Hello", tools_called=(ToolCall(name="a", result="fine"),))
    result = await evaluate(evaluator(6), turn, judge)
    assert isinstance(result.outcome, Score)
    assert "reading" not in result.outcome.details
    assert len(judge.prompts) == 1


@pytest.mark.parametrize("look", [{"read": (0, -3, 10**9)}, {"search": ("", " " * 9)}, {}])
async def test_an_answer_that_asks_for_nothing_there_is_ends_the_reading(look: dict[str, Any]) -> None:
    class Lost(HonestReader):
        async def ask(self, prompt: Prompt, reply: Any, **options: Any) -> Verdict[Any]:
            if "done" in reply.model_fields:
                return Verdict([Answer(reply.model_validate(look), "")], self.model, None, Usage(calls=1))
            return await super().ask(prompt, reply, **options)

    result = await evaluate(evaluator(6), run_with_a_fault(1)[0], Lost())
    assert result.usage is not None
    assert result.usage.calls == 2


async def test_requests_for_the_same_run_have_one_prompt_hash() -> None:
    judge = HonestReader()
    await evaluate(evaluator(4), run_with_a_fault(3)[0], judge)
    assert len({prompt.hash for prompt in judge.prompts}) == 2
    assert all("Is every step free of faults?" in prompt.instructions for prompt in judge.prompts), "it knows the task"
    assert judge.prompts[0].reminder != judge.prompts[1].reminder


def test_without_reads_the_version_is_as_before() -> None:
    assert evaluator(None).version != evaluator(3).version
    assert (evaluator(None).added_templates, evaluator(3).added_templates) == ((), ("reading.txt",))


def test_no_template_has_a_placeholder_that_is_never_filled() -> None:
    templates = files("evaluators.prompts").iterdir()
    texts = {path.name: path.read_text() for path in templates if path.name.endswith(".txt")}
    assert {name for name, text in texts.items() if re.search(r"(?<!\{)\{[a-z_]+\}(?!\})", text)} == set()


def test_a_hit_shows_what_was_found_whatever_letters_stand_before_it() -> None:
    """Some letters fold to several: whoever writes many of them would have the judge shown another part of the step."""
    reader = RunReader.of(["\u00df\u0390" * 400 + " Refund refused. " + "All is well. " * 100], 10_000, 10_000)
    assert reader.take(Look(search=("REFUND", "x" * 300)))
    assert "Refund refused." in str(reader.hits["REFUND"])
    assert not reader.take(Look(search=("x" * 300,))), "what was sought is not sought again"
