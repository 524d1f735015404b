"""The configuration of an evaluator by a prompt or by guidelines, the same for turns and for whole conversations.

Guidelines: rules in everyday language, each of which a judge gives a verdict.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from evaluators.asking.judge_input import JudgeInput, is_program_field
from evaluators.asking.reading import read_further
from evaluators.evaluator import ADDED_LATER
from evaluators.judge import Judge
from evaluators.mechanisms.g_eval_definition import describe_fields
from evaluators.mechanisms.item_verdicts import VERDICT_PROMPTS, YES_OR_UNCLEAR, ItemWindow, RatioSpec, score_ratio
from evaluators.mechanisms.rating import RATING_PROMPTS, NonBlank, Rating
from evaluators.prompts import fill, load, placeholders
from evaluators.results import Score

GUIDELINE_PROMPTS = ("guidelines_verdicts.txt", *VERDICT_PROMPTS)

_RATIO = RatioSpec(counting_verdicts=YES_OR_UNCLEAR, empty_score=1.0, noun="guidelines", predicate="are kept")


PROMPT_PROMPTS = ("prompt.txt", *RATING_PROMPTS)

_GUIDELINE_FIELDS = ("input", "actual_output")


class PromptDefinition(Rating):
    """Exactly one of `prompt` and `guidelines`. The placeholders of a prompt say what the judge is shown."""

    known_fields: ClassVar[tuple[str, ...]]
    """The names that a prompt may have as placeholders, in the order in which the judge reads of them."""
    of_turns: ClassVar[bool] = False
    """Whether one turn is judged, so that a prompt may name the inputs and outputs of its program."""

    prompt: NonBlank | None = None
    """Instructions for the judge, with the fields it is shown as {{placeholders}}."""
    guidelines: Annotated[tuple[NonBlank, ...], ADDED_LATER] = Field(default=(), max_length=50)
    """Rules instead of a prompt, each judged by itself; the score is the share that is kept."""
    guideline_params: Annotated[tuple[NonBlank, ...], ADDED_LATER] = Field(default=_GUIDELINE_FIELDS, min_length=1)
    """The fields that the judge is shown with guidelines."""

    @model_validator(mode="after")
    def _prompt_or_guidelines(self) -> Self:
        if (self.prompt is None) == (not self.guidelines):
            problem = "both are given" if self.guidelines else "neither is given"
            raise ValueError(f"prompt and guidelines: give exactly one of them; {problem}")
        if self.prompt is not None and not placeholders(self.prompt):
            raise ValueError("prompt: names no field, so the judge would see nothing; name one, like {{actual_output}}")
        known = {*self.known_fields, *self.program_names}
        if unknown := sorted(self.named_fields - known):
            where = "guideline_params" if self.prompt is None else "prompt"
            raise ValueError(f"{where}: unknown {', '.join(unknown)}; there are {', '.join(self.known_fields)}")
        return self

    @property
    def named_fields(self) -> frozenset[str]:
        """The fields that the judge is shown."""
        return frozenset(self.guideline_params) if self.prompt is None else placeholders(self.prompt)

    @property
    def program_names(self) -> Sequence[str]:
        """Those of a structured program among them, where a turn is judged."""
        return sorted(filter(is_program_field, self.named_fields)) if self.of_turns else ()

    @property
    def ordered_fields(self) -> Sequence[str]:
        """The same in the order in which the judge reads of them."""
        return [*(name for name in self.known_fields if name in self.named_fields), *self.program_names]

    @property
    def templates(self) -> tuple[str, ...]:
        """See `Evaluator.templates`."""
        return GUIDELINE_PROMPTS if self.prompt is None else self.with_form(PROMPT_PROMPTS)

    @property
    def score_range(self) -> tuple[float, float]:
        """The ends of the scale; those of a share with guidelines."""
        return (0.0, 1.0) if self.prompt is None else self.raw_scale.bounds

    async def score_material(self, judge: Judge, material: JudgeInput) -> Score:
        """The judge's rating, or the share of the guidelines."""
        fields = self.ordered_fields
        if self.prompt is None:
            return await self._score_guidelines(judge, material)
        prompt = fill(self.prompt, {name: f"`{name}`" for name in fields})
        values = {"prompt": prompt, "fields": describe_fields(fields), "rating": self.form}
        return await self.rate(judge, fill(load("prompt.txt"), values), material)

    async def _score_guidelines(self, judge: Judge, material: JudgeInput) -> Score:
        """The share of the guidelines that a case keeps to.

        Those that the judge cannot decide on count as kept, and of a run that it saw only a part of neither way.
        """
        task = "\n".join(("Which of these rules does the application keep?", *self.guidelines))
        material = await read_further(self, judge, task, material)
        window = ItemWindow(
            items=list(self.guidelines),
            materials=(material.content,),
            truncated=material.truncated,
            partial=material.is_part,
        )
        values = {"fields": describe_fields(self.ordered_fields)}
        score = await score_ratio(judge, _RATIO, "guidelines_verdicts.txt", [window], values)
        return replace(score, details={**score.details, **material.notes})
