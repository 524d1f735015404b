"""A judge's comparison of two JSON objects key by key; code does the counting."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, ClassVar, Literal, cast

from pydantic import BeforeValidator, Field, create_model

from evaluators.asking import judge_input
from evaluators.cases import Json, Turn
from evaluators.errors import NotApplicable
from evaluators.evaluator import ADDED_LATER, Evaluator
from evaluators.judge import Answer, Judge, Prompt
from evaluators.prompts import fill, load
from evaluators.questions import ChoiceQuestion, Decision, Option, QuestionGroup, guide_before
from evaluators.results import Score, SkipReason
from evaluators.scale import IN_ORDER, NUMBERS, NumberedReply, Reply, plain_word
from evaluators.texts.hashable_json import equal

_PLACEHOLDERS = {"ActualOutput": "`actual`", "ExpectedOutput": "`expected`"}

KeyComparison = Literal["identical", "similar", "different", "missing", "extra"]

_PENALTIES: Mapping[KeyComparison, float] = {
    "identical": 0.0,
    "similar": 50.0,
    "different": 100.0,
    "missing": 100.0,
    "extra": 10.0,
}


_WORTH: Mapping[str, float] = {name: _PENALTIES[name] for name in ("identical", "similar", "different")}
_OPTIONS = tuple(Option(name) for name in _WORTH)


class KeyLabel(NumberedReply):
    """How a key's two values compare, after the reason."""

    reason: str
    label: Annotated[Literal["identical", "similar", "different"], BeforeValidator(plain_word)]


class KeyLabels(Reply):
    """One label per key that needs one, in their order."""

    labels: Annotated[tuple[KeyLabel, ...], IN_ORDER]


class LLMJudgeStrictJson(judge_input.ComparesOutputs, judge_input.TextSettings, Evaluator[Turn]):
    """100 minus a penalty for each wrong top-level key, never below 0.

    With N expected keys: a missing or different key costs 100/N, a similar key 50/N, an unexpected key 10/N. The judge
    labels only the common keys whose values are not equal. If nothing is expected, an empty answer scores 100 and any
    other 0.
    """

    revision: ClassVar[int] = 2
    kind: ClassVar[str] = "llm_judge_strict_json"
    all_typed: ClassVar[bool] = True
    prompts: ClassVar[tuple[str, ...]] = ("llm_judge_strict_json.txt",)

    prompt: Annotated[judge_input.ComparisonPrompt, ADDED_LATER] = None
    """The rules by which a key's two values are identical, similar or different, with both {{ActualOutput}} and
    {{ExpectedOutput}}; the kind's own prompt if left out."""
    temperature: float | None = Field(default=None, ge=0, le=2)
    """The judge's own if left out."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Length limit of an answer."""

    @property
    def templates(self) -> tuple[str, ...]:
        """See `Evaluator.templates`."""
        return self.prompts if self.prompt is None else ("llm_judge_strict_json_frame.txt",)

    @property
    def score_range(self) -> tuple[float, float]:
        """All lost, nothing lost."""
        return (0.0, 100.0)

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        expected = judge_input.parse_structured(self.reference(case))
        if not isinstance(expected, dict):
            raise NotApplicable(SkipReason.INVALID_FIELD.text("expected_output is no JSON object"))
        actual = judge_input.parse_structured(judge_input.actual_part(case, self.target_output_key))
        there = cast("dict[str, Json]", actual) if isinstance(actual, dict) else {}
        wanted = cast("dict[str, Json]", expected)
        open_keys = [key for key, value in wanted.items() if key in there and not equal(value, there[key])]
        visible = self._material(open_keys, wanted, there)
        answer = await self._label(judge, visible) if open_keys else None
        labelled = () if answer is None else answer.reply.labels
        labels = _labels(wanted, there, dict(zip(open_keys, labelled, strict=True)))
        decisions = dict(zip(open_keys, answer.decisions, strict=True)) if answer and answer.decisions else {}
        raw = _expected_score(len(wanted), labels, decisions)
        about: dict[str, Json] = (
            {"probabilities": {key: dict(decision.probabilities) for key, decision in decisions.items()}}
            if decisions
            else {"reasons": {key: label.reason for key, label in zip(open_keys, labelled, strict=True)}}
        )
        return Score(
            value=raw / 100,
            raw_score=raw,
            range=(0.0, 100.0),
            method="decision" if decisions else "single" if open_keys else "deterministic",
            explanation=_explanation(labels),
            details={"labels": dict(labels)} | about | ({"truncated": True} if visible.truncated else {}),
        )

    def _material(
        self, keys: Sequence[str], expected: Mapping[str, Json], actual: Mapping[str, Json]
    ) -> judge_input.JudgeInput:
        items = [
            {"number": number, "key": key, "expected": expected[key], "actual": actual[key]}
            for number, key in enumerate(keys, start=1)
        ]
        visible = [judge_input.shorten_all(item, self.longest_text) for item in items]
        return judge_input.JudgeInput(
            {"items": [text.content for text in visible]}, any(text.truncated for text in visible)
        )

    async def _label(self, judge: Judge, visible: judge_input.JudgeInput) -> Answer[KeyLabels]:
        [template] = self.templates
        own = {} if self.prompt is None else {"prompt": fill(self.prompt, _PLACEHOLDERS).strip()}
        instructions = fill(load(template), own)
        count = len(visible.content["items"])
        groups = (_typed_questions(instructions, count),)
        prompt = Prompt(instructions, visible.content, self.temperature, self.max_tokens, NUMBERS, groups)
        return (await judge.ask(prompt, _labels_of(count))).answers[0]


def score_of(expected_keys: int, labels: Sequence[KeyComparison]) -> float:
    """The score on 0..100 for a number of expected keys and the labels of all keys."""
    if expected_keys == 0:
        return 0.0 if labels else 100.0
    return max(0.0, 100.0 - sum(_PENALTIES[label] for label in labels) / expected_keys)


def _expected_score(
    expected_keys: int, labels: Mapping[str, KeyComparison], decisions: Mapping[str, Decision]
) -> float:
    """The score by the labels; where they are a decision model's, its penalties are the means by its probabilities."""
    if not decisions:
        return score_of(expected_keys, list(labels.values()))
    lost = sum(decisions[key].mean(_WORTH) if key in decisions else _PENALTIES[labels[key]] for key in labels)
    return max(0.0, 100.0 - lost / expected_keys)


def _typed_questions(instructions: str, count: int) -> QuestionGroup:
    """The same for a judge that decides: one of three labels for each key."""
    questions = (
        ChoiceQuestion(("labels", at, "label"), f"How the two values of item {at + 1} of `items` compare.", _OPTIONS)
        for at in range(count)
    )
    return QuestionGroup(guide_before(instructions, "Label every item"), tuple(questions))


def _labels(
    expected: Mapping[str, Json], actual: Mapping[str, Json], judged: Mapping[str, KeyLabel]
) -> Mapping[str, KeyComparison]:
    labels: dict[str, KeyComparison] = {key: "extra" if key in actual else "missing" for key in (*expected, *actual)}
    labels |= {key: "identical" for key in expected if key in actual}
    labels |= {key: verdict.label for key, verdict in judged.items()}
    return labels


def _explanation(labels: Mapping[str, KeyComparison]) -> str:
    counts = {label: sum(label_of_key == label for label_of_key in labels.values()) for label in _PENALTIES}
    return ", ".join(f"{count} {label}" for label, count in counts.items() if count) or "nothing was expected"


@cache
def _labels_of(count: int) -> type[KeyLabels]:
    labels = Annotated[tuple[KeyLabel, ...], Field(min_length=count, max_length=count), IN_ORDER]
    return create_model("KeyLabels", __base__=KeyLabels, __doc__=f"{count} labels, in order.", labels=(labels, ...))
