"""Classification: a judge that chooses one label of a fixed set, each with a meaning."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model

from evaluators.cases import Json
from evaluators.g_eval_definition import describe_fields
from evaluators.judge import Answer, Judge, Prompt
from evaluators.judge_input import JudgeInput, TextSettings
from evaluators.prompts import fill, load
from evaluators.rating import NonBlank
from evaluators.results import Score
from evaluators.scale import Reply, plain_word
from evaluators.word_probabilities import word_distributions

CLASSIFIER_PROMPTS = ("classifier.txt",)

LabelName = Annotated[str, Field(pattern=r"^[\w:/-](?:[\w :/-]{0,62}[\w:/-])?$")]
"""A label as it appears in every output: letters, digits and spaces, at most 64."""


class LabelDefinition(BaseModel):
    """What a label means, and what it is worth."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    meaning: NonBlank = Field(description="When the label applies.")
    score: float | None = Field(
        default=None, ge=0, le=1, description="What it is worth on 0..1; 0 if it fails, else 1, if left out."
    )
    passes: bool | None = Field(default=None, alias="pass", description="Whether a case with this label passes.")

    @property
    def worth(self) -> float:
        """The score of a case that certainly has this label."""
        return self.score if self.score is not None else float(self.passes is not False)


def _with_meaning(value: Any) -> Any:
    return {"meaning": value} if isinstance(value, str) else value


def distinct_labels(labels: Mapping[str, LabelDefinition]) -> Mapping[str, LabelDefinition]:
    """The labels, refused where two of them would be read as one."""
    if len({plain_word(name) for name in labels}) < len(labels):
        raise ValueError("two labels differ in nothing but capitals and full stops; rename one")
    return labels


class ChosenLabel(Reply):
    """A reason and a label. The labels are those of the question: see `label_form`."""

    reason: str
    label: str


class Classification(TextSettings):
    """How a judge is asked for a label, and how a score is made of it."""

    temperature: float | None = Field(default=None, ge=0, le=2, description="The judge's own if left out.")
    max_tokens: int | None = Field(default=None, ge=1, description="Length limit of an answer.")

    prompts: ClassVar[tuple[str, ...]] = CLASSIFIER_PROMPTS

    def instructions(self, question: str, labels: Mapping[str, LabelDefinition], fields: Iterable[str]) -> str:
        """The fixed part of the question."""
        values = {
            "question": question.strip(),
            "labels": "\n".join(f"- {name}: {' '.join(each.meaning.split())}" for name, each in labels.items()),
            "names": ", ".join(labels),
            "fields": describe_fields(fields),
        }
        return fill(load("classifier.txt"), values)

    @staticmethod
    def label_passes(labels: Mapping[str, LabelDefinition], score: Score, threshold: float | None) -> bool | None:
        """Whether a score passes: by the threshold if there is one, else by what its label says."""
        if threshold is not None:
            return score.value >= threshold
        return labels[score.label].passes if score.label in labels else None

    async def classify(
        self, judge: Judge, instructions: str, labels: Mapping[str, LabelDefinition], material: JudgeInput
    ) -> Score:
        """Ask for a label. Its score is the mean of what the labels are worth, by the judge's token probabilities where
        there are such, else what the label is worth that was written.
        """
        prompt = Prompt(instructions, material.content, self.temperature, self.max_tokens)
        answer = (await judge.ask(prompt, label_form(tuple(labels)), logprobs=True)).answers[0]
        return score_of_label(answer, labels, truncated=material.truncated)


def score_of_label(answer: Answer[ChosenLabel], labels: Mapping[str, LabelDefinition], *, truncated: bool) -> Score:
    """The score of an answer: see `Classification.classify`.

    With token probabilities p the details have `probabilities`, `confidence`, that of the label, and `entropy`, the sum
    of -p log2 p in bits.
    """
    label = answer.reply.label
    details: dict[str, Json] = {"truncated": True} if truncated else {}
    weighed = word_distributions(answer, "label", tuple(labels))
    distribution = weighed[-1] if weighed else None
    if distribution is None:
        return Score(
            value=labels[label].worth, label=label, explanation=answer.reply.reason, method="single", details=details
        )
    shares = distribution.shares
    details |= {
        "probabilities": {name: shares[name] for name in labels if name in shares},
        "confidence": shares.get(label, 0.0),
        "entropy": distribution.entropy,
    }
    mean = math.fsum(share * labels[name].worth for name, share in shares.items())
    return Score(
        value=min(1.0, max(0.0, mean)),  # rounding must not leave the scale
        label=label,
        explanation=answer.reply.reason,
        method="logprobs",
        kept_mass=distribution.kept_mass,
        details=details,
    )


@cache
def label_form(names: tuple[str, ...]) -> type[ChosenLabel]:
    """The form of an answer with one of these labels."""
    plain = {plain_word(name): name for name in names}

    def as_written(value: Any) -> Any:
        return plain.get(plain_word(value), value) if isinstance(value, str) else value

    label = Annotated[cast("Any", Literal[names]), BeforeValidator(as_written)]
    return create_model("Chosen", __base__=ChosenLabel, __doc__="A reason, then a label.", label=(label, ...))


Labels = Annotated[
    Mapping[LabelName, Annotated[LabelDefinition, BeforeValidator(_with_meaning)]],
    Field(
        min_length=2,
        max_length=50,
        description="The labels by name: when each applies, or {meaning, score, pass}.",
    ),
]
"""A field of an evaluator that has labels of the user's own."""
