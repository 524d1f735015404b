"""The configuration of G-Eval, the same for turns and for whole conversations."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from evaluators.answers.reply_parser import parse_reply
from evaluators.asking.judge_input import MEANINGS, JudgeInput
from evaluators.errors import JudgeReplyInvalid
from evaluators.evaluator import ADDED_LATER
from evaluators.judge import Judge, Prompt
from evaluators.mechanisms.rating import RATING_PROMPTS, NonBlank, Rating
from evaluators.prompts import fill, load
from evaluators.results import Score
from evaluators.scale import Reply

STEPS_HASH = "steps_hash"
"""The detail of a score by steps that a judge wrote of criteria: which ones."""
G_EVAL_PROMPTS = ("g_eval.txt", "g_eval_steps.txt", *RATING_PROMPTS)


Preset = Literal[
    "helpfulness", "coherence", "fluency", "conciseness", "sycophancy", "image_coherence", "image_helpfulness"
]
"""Criteria whose steps come with evalstream. Those of images need a judge that sees pictures."""


class Steps(Reply):
    """A judge's evaluation steps for a criterion."""

    steps: tuple[NonBlank, ...] = Field(min_length=1, max_length=12)


class GEvalDefinition(Rating):
    """Exactly one of `criteria`, `evaluation_steps` and `preset`. From criteria the judge writes the steps, once."""

    criteria: NonBlank | None = None
    """The description of a good case; the judge derives the steps."""
    evaluation_steps: tuple[NonBlank, ...] | None = Field(default=None, min_length=1)
    """The steps that the judge follows, instead of criteria."""
    preset: Annotated[Preset | None, ADDED_LATER] = None
    """Steps that come with evalstream, for a usual criterion."""
    threshold: float | None = Field(default=0.5, ge=0.0, le=1.0)
    """A score passes at this value, on 0..1; null for no verdict."""
    description: str | None = None
    """A note for people; it never reaches the judge."""

    @model_validator(mode="after")
    def _criteria_or_steps(self) -> Self:
        names = [name for name in ("criteria", "evaluation_steps", "preset") if getattr(self, name) is not None]
        if len(names) != 1:
            problem = f"{' and '.join(names)} are given" if names else "none is given"
            raise ValueError(f"criteria, evaluation_steps and preset: give exactly one of them; {problem}")
        return self

    @property
    def templates(self) -> tuple[str, ...]:
        """See `Evaluator.templates`."""
        return super().templates if self.preset is None else (*super().templates, f"preset_{self.preset}.txt")

    @property
    def needs_writer(self) -> bool:
        """See `Evaluator.needs_writer`: the steps, unless they are configured."""
        return self.criteria is not None

    async def steps(self, judge: Judge, fields: Iterable[str]) -> tuple[str, ...]:
        """The evaluation steps: the configured ones, else the judge's, asked as a constant question.

        A `DefinitionCache` judge is asked once and for all; any other each time.
        """
        if self.evaluation_steps is not None:
            return self.evaluation_steps
        if self.preset is not None:
            return tuple(load(f"preset_{self.preset}.txt").splitlines())
        values = {"criteria": self.criteria or "", "fields": describe_fields(fields)}
        verdict = await judge.ask(Prompt(fill(load("g_eval_steps.txt"), values)), Steps)
        return verdict.reply.steps

    async def rate_by_steps(self, judge: Judge, fields: Sequence[str], material: JudgeInput) -> Score:
        """Ask for a number by the steps. Those that the judge wrote are in the details by their hash."""
        steps = await self.steps(judge, fields)
        values = {"steps": number_lines(steps), "fields": describe_fields(fields), "rating": self.form}
        if self.needs_writer:
            material = replace(material, notes={**material.notes, STEPS_HASH: hash_of_steps(steps)})
        return await self.rate(judge, fill(load("g_eval.txt"), values), material)


def hash_of_steps(steps: Iterable[str]) -> str:
    """16 hex digits of SHA-256 over steps as the judge reads them."""
    return hashlib.sha256(number_lines(steps).encode()).hexdigest()[:16]


def steps_in(answer: str) -> tuple[str, ...]:
    """The steps in a stored answer of a judge; () where it is another thing."""
    try:
        return parse_reply(answer, Steps).steps if "steps" in answer else ()
    except JudgeReplyInvalid:
        return ()


def number_lines(steps: Iterable[str]) -> str:
    """Steps as a numbered list, each on one line."""
    return "\n".join(f"{number}. {' '.join(step.split())}" for number, step in enumerate(steps, start=1))


def describe_fields(fields: Iterable[str]) -> str:
    """Fields as a list, with what each of them is."""
    return "\n".join(f"- {name}: {_meaning_of(name)}" for name in fields)


def _meaning_of(name: str) -> str:
    side, dot, own = name.partition(".")
    if not dot:
        return MEANINGS[name]
    return f"what the application's program was given as {own}" if side == "inputs" else f"its result {own}"
