"""A judge's rating of a turn by a prompt of the user's own."""

from __future__ import annotations

from typing import ClassVar, Self

from pydantic import Field, model_validator

from evaluators.cases import Turn
from evaluators.evaluator import Evaluator, Example
from evaluators.g_eval_definition import describe_fields
from evaluators.judge import Judge
from evaluators.judge_input import TURN_FIELDS, build_judge_input
from evaluators.prompts import fill, load, placeholders
from evaluators.rating import RATING_PROMPTS, NonBlank, Rating
from evaluators.results import Score


class PromptEvaluator(Rating, Evaluator[Turn]):
    """How the judge rates a turn by a prompt out of the configuration.

    `{{input}}`, `{{actual_output}}` and the like in the prompt say which fields the judge is shown. The texts
    themselves are not put there: the judge gets them apart, as data. Scale and form of the answer are added.
    """

    kind: ClassVar[str] = "prompt"
    prompts: ClassVar[tuple[str, ...]] = ("prompt.txt", *RATING_PROMPTS)
    example: ClassVar[Example] = {"prompt": "Is {{actual_output}} polite, given what the user said in {{input}}?"}

    prompt: NonBlank = Field(description="Instructions for the judge, with the turn's fields as {{placeholders}}.")

    @model_validator(mode="after")
    def _names_fields(self) -> Self:
        names = placeholders(self.prompt)
        if not names:
            raise ValueError("prompt: names no field, so the judge would see nothing; name one, like {{actual_output}}")
        if unknown := sorted(names - set(TURN_FIELDS)):
            raise ValueError(f"prompt: unknown {', '.join(unknown)}; there are {', '.join(TURN_FIELDS)}")
        return self

    @property
    def requires(self) -> frozenset[str]:
        """The fields that the prompt names."""
        return placeholders(self.prompt)

    @property
    def lowest_if_trivial(self) -> str | None:
        """The answer, if the prompt names it."""
        return "actual_output" if "actual_output" in self.requires else None

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        fields = [name for name in TURN_FIELDS if name in self.requires]
        prompt = fill(self.prompt, {name: f"`{name}`" for name in fields})
        values = {"prompt": prompt, "fields": describe_fields(fields), "rating": self.form}
        return await self.rate(
            judge, fill(load("prompt.txt"), values), build_judge_input(case, fields, self.longest_text)
        )
