"""G-Eval: a judge scores an answer by criteria in everyday language."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, ClassVar

from pydantic import Field

from evaluators.asking.judge_input import ProgramField, TurnField, build_judge_input
from evaluators.asking.reading import most_characters, read_run
from evaluators.cases import Turn
from evaluators.evaluator import ADDED_LATER, Evaluator, Example
from evaluators.judge import Judge, decides
from evaluators.mechanisms.g_eval_definition import G_EVAL_PROMPTS, GEvalDefinition
from evaluators.mechanisms.rating import UniqueNames
from evaluators.results import Score


class GEval(GEvalDefinition, Evaluator[Turn]):
    """How well a turn meets criteria in everyday language.

    The judge turns the criteria into steps once, then gives each turn a reason and a whole number on the scale. The
    score is the mean over the scale weighted by the judge's token probabilities, then (score - lowest) / (highest -
    lowest). After Liu et al. 2023, "G-Eval: NLG Evaluation using GPT-4 with Better Human Alignment".
    """

    kind: ClassVar[str] = "g_eval"
    prompts: ClassVar[tuple[str, ...]] = G_EVAL_PROMPTS
    example: ClassVar[Example] = {
        "criteria": "The answer is correct and complete.",
        "evaluation_params": ["input", "actual_output"],
    }

    evaluation_params: UniqueNames[TurnField | ProgramField]
    """The turn's fields that the judge is shown, and that the turn must have."""
    reads: Annotated[int | None, ADDED_LATER] = Field(
        default=None,
        ge=1,
        le=20,
        description="Of a run whose tool calls do not fit into a question the judge gets an index, and reads and "
        "searches calls in so many further requests at most.",
    )

    @property
    def requires(self) -> frozenset[str]:
        """The fields of `evaluation_params`; for a preset of images also a picture."""
        pictures = {"attachments"} if (self.preset or "").startswith("image_") else set[str]()
        return frozenset(self.evaluation_params) | pictures

    @property
    def templates(self) -> tuple[str, ...]:
        """See `Evaluator.templates`."""
        return super().templates if self.reads is None else (*super().templates, "reading.txt")

    @property
    def cost_note(self) -> str:
        """See `Evaluator.cost_note`."""
        if self.reads is None:
            return ""
        most = most_characters(self.longest_text)
        return (
            f"of a run too long for one question, up to {self.reads} requests more, with {most:,} characters of it each"
        )

    @property
    def lowest_if_trivial(self) -> str | None:
        """The answer, if the judge is to be shown it."""
        return "actual_output" if "actual_output" in self.evaluation_params else None

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        instructions = await self.instructions(judge, self.evaluation_params)
        material = build_judge_input(case, self.evaluation_params, self.longest_text)
        is_whole = not material.truncated or "tools_called" not in material.content
        if self.reads is None or is_whole or decides(judge):
            return await self.rate(judge, instructions, material)
        beside = {name: value for name, value in material.content.items() if name != "tools_called"}
        reading = await read_run(judge, instructions, beside, case.tools_called, self.longest_text, self.reads)
        content = {**beside, "tools_called": reading.outcome}
        score = await self.rate(judge, instructions, replace(material, content=content))
        return replace(score, details={**score.details, "reading": reading.notes})
