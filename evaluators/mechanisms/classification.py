"""Classification: a judge that chooses one label of a fixed set, each with a meaning."""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Generic, Literal, Self, cast

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, create_model, model_validator

from evaluators.answers.word_probabilities import word_distributions
from evaluators.asking.answer_settings import ReasonSettings, WorkedExample, examples_text
from evaluators.asking.judge_input import JudgeInput, TextSettings
from evaluators.asking.reading import ReadingSettings, read_further
from evaluators.asking.transcript import TranscriptSettings, build_conversation_input
from evaluators.cases import Conversation, Json
from evaluators.descriptions import Described
from evaluators.evaluator import ADDED_LATER, Case, Evaluator
from evaluators.judge import Answer, Judge, Prompt
from evaluators.mechanisms.rating import NonBlank, describe_fields
from evaluators.prompts import fill, load
from evaluators.questions import ChoiceQuestion, Decision, Option, QuestionGroup
from evaluators.results import Score
from evaluators.scale import ReasonPlace, Reply, plain_word, reason_in

CLASSIFIER_PROMPTS = ("classifier.txt", "classifier_form.txt")

_WHICH = "Which of the labels applies? Where several might, the one whose meaning fits best."


LabelName = Annotated[str, Field(pattern=r"^[\w:/-](?:[\w :/-]{0,62}[\w:/-])?$")]
"""A label as it appears in every output: letters, digits and spaces, at most 64."""


class LabelDefinition(Described):
    """A label's meaning and its score."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    meaning: NonBlank
    """When the label applies."""
    score: float | None = Field(default=None, ge=0, le=1)
    """Its worth on 0..1; 0 if it fails, else 1, if left out."""
    passes: bool | None = Field(default=None, alias="pass")
    """Whether a case with this label passes; if left out while another label has it, 1 passes and 0 fails."""

    @property
    def worth(self) -> float:
        """The score of a case that certainly has this label."""
        return self.score if self.score is not None else float(self.passes is not False)

    @property
    def verdict(self) -> bool | None:
        """Whether a case with this label passes, where a label of the classifier has `pass`."""
        return self.passes if self.passes is not None else {1.0: True, 0.0: False}.get(self.worth)


def _with_meaning(value: Any) -> Any:
    return {"meaning": value} if isinstance(value, str) else value


def distinct_labels(labels: Mapping[str, LabelDefinition]) -> Mapping[str, LabelDefinition]:
    """The labels; two labels that would be read as one are refused."""
    if len({plain_word(name) for name in labels}) < len(labels):
        raise ValueError("two labels differ in nothing but capitals and full stops; rename one")
    return labels


class ChosenLabel(Reply):
    """A reason and a label of the question: see `label_form`."""

    reason: str
    label: str


class LabelThenReason(Reply):
    """A label and then its reason."""

    label: str
    reason: str


class LabelAlone(Reply):
    """A label without a reason."""

    label: str


AnyChoice = ChosenLabel | LabelThenReason | LabelAlone


class LabelledExample(WorkedExample):
    """A worked example with its label."""

    label: LabelName
    """The label that fits the case."""


def ready_labels(template: str, worth: Mapping[str, float]) -> Mapping[str, LabelDefinition]:
    """Labels with these scores, for a kind whose prompt (part of the version) has their meanings."""
    return {
        name: LabelDefinition.model_validate(
            {"meaning": f"see {template}: {name}", "score": score, "pass": True if score == 1 else None}
        )
        for name, score in worth.items()
    }


class Classification(ReasonSettings, TextSettings, Evaluator[Case], Generic[Case]):
    """How a judge is asked for a label, and how a score is made of it. A kind of it says which labels there are."""

    temperature: float | None = Field(default=None, ge=0, le=2)
    """The judge's own if left out."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Length limit of an answer."""

    all_typed: ClassVar[bool] = True
    prompts: ClassVar[tuple[str, ...]] = CLASSIFIER_PROMPTS
    ready: ClassVar[Mapping[str, LabelDefinition]]
    """The labels of a kind that has its own; its first prompt says what they mean."""

    def instructions(self, question: str, fields: Iterable[str], examples: Sequence[LabelledExample]) -> str:
        """The fixed part of the question."""
        labels = self.label_definitions
        values = {
            "question": question.strip(),
            "labels": "\n".join(f"- {name}: {' '.join(label.meaning.split())}" for name, label in labels.items()),
            "fields": describe_fields(fields),
            "form": self.label_form_text(examples),
        }
        return fill(load("classifier.txt"), values)

    def label_form_text(self, examples: Sequence[LabelledExample] = ()) -> str:
        """The instructions on the form of the answer, with examples before them."""
        examples_part = examples_text([(example, {"label": example.label}) for example in examples], self.reason)
        return "\n\n".join(part for part in (examples_part, self.language_sentence, self._form_text()) if part)

    def _form_text(self) -> str:
        return fill(load(self.template("classifier_form")), {"names": ", ".join(self.label_definitions)}).strip()

    def typed_question(self, instructions: str) -> QuestionGroup:
        """The same question for a judge that decides: each label with its meaning in the instructions."""
        guide = instructions.partition(self._form_text())[0].strip().removesuffix(self.language_sentence)
        listed = {name: f"- {name}: " for name in self.label_definitions}
        lines = guide.splitlines()
        options = [
            Option(name, next((line.removeprefix(start) for line in lines if line.startswith(start)), ""))
            for name, start in listed.items()
        ]
        rest = [line for line in lines if line != "The labels:" and not line.startswith(tuple(listed.values()))]
        guide = "\n".join(line for line, after in pairwise([*rest, ""]) if line or after).strip()
        return QuestionGroup(guide, (ChoiceQuestion(("label",), _WHICH, tuple(options)),))

    @property
    def templates(self) -> tuple[str, ...]:
        """See `Evaluator.templates`."""
        return (*self.prompts, *((self.template("classifier_form"),) if self.reason != "before" else ()))

    @property
    def label_definitions(self) -> Mapping[str, LabelDefinition]:
        """The labels by name, with their scores: the kind's labels, unless the user has configured labels."""
        return self.ready

    @property
    def label_names(self) -> tuple[str, ...]:
        """See `Evaluator.label_names`."""
        return tuple(self.label_definitions)

    @property
    def label_verdicts(self) -> Mapping[str, bool | None]:
        """See `Evaluator.label_verdicts`. Once one label has `pass`, those without it pass at a score of 1, fail at 0,
        and do neither between.
        """
        labels = self.label_definitions
        decides = any(label.passes is not None for label in labels.values())
        return {name: label.verdict for name, label in labels.items() if decides}

    @property
    def has_scores(self) -> bool:
        """See `Evaluator.has_scores`."""
        return len({label.worth for label in self.label_definitions.values()}) > 1

    async def classify_ready(self, judge: Judge, material: JudgeInput) -> Score:
        """Ask for one of the kind's own labels."""
        instructions = fill(load(self.prompts[0]), {"form": self.label_form_text()})
        return await self.classify(judge, instructions, material)

    async def classify(self, judge: Judge, instructions: str, material: JudgeInput) -> Score:
        """Ask for a label. The score is the mean of the labels' scores, weighted by the judge's token probabilities;
        without these, the score of the written label.
        """
        labels = self.label_definitions
        groups = (self.typed_question(instructions),)
        material = await read_further(self, judge, instructions, material)
        prompt = Prompt(instructions, material.content, self.temperature, self.max_tokens, groups=groups)
        answer = (await judge.ask(prompt, label_form(tuple(labels), self.reason), logprobs=True)).answers[0]
        return score_of_label(answer, labels, material.details)


class EndOfConversation(ReadingSettings, TranscriptSettings, Classification[Conversation]):
    """One of a kind's own labels for a whole conversation. A conversation beyond the token budget has no middle."""

    scope: ClassVar = "conversation"
    needed_fields: ClassVar[frozenset[str]] = frozenset({"turns.input", "turns.actual_output"})
    visible_fields: ClassVar[tuple[str, ...]]
    """The fields of the turns that the judge sees."""

    async def evaluate(self, case: Conversation, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        return await self.classify_ready(judge, build_conversation_input(case, self.visible_fields, self))


def score_of_label(answer: Answer[AnyChoice], labels: Mapping[str, LabelDefinition], details: dict[str, Json]) -> Score:
    """The score of an answer: see `Classification.classify`.

    With token probabilities p the details have `probabilities`, `confidence` (the label's p), and `entropy`, the sum of
    -p log2 p in bits; `uncertainty` is the standard deviation of the labels' scores.
    """
    label = answer.reply.label
    if answer.decisions:
        return _score_of_decision(answer.decisions[0], labels, details)
    reason = reason_in(answer.reply)
    weighed = word_distributions(answer, "label", tuple(labels))
    distribution = weighed[-1] if weighed else None
    if distribution is None:
        return Score(value=labels[label].worth, label=label, explanation=reason, method="single", details=details)
    shares = distribution.shares
    details |= {
        "probabilities": {name: shares[name] for name in labels if name in shares},
        "confidence": shares.get(label, 0.0),
        "entropy": distribution.entropy,
    }
    mean = math.fsum(share * labels[name].worth for name, share in shares.items())
    spread = math.fsum(share * (labels[name].worth - mean) ** 2 for name, share in shares.items())
    details["uncertainty"] = math.sqrt(spread)
    return Score(
        value=min(1.0, max(0.0, mean)),  # rounding must not leave the scale
        label=label,
        explanation=reason,
        method="logprobs",
        kept_mass=distribution.kept_mass,
        details=details,
    )


def _score_of_decision(decision: Decision, labels: Mapping[str, LabelDefinition], details: Mapping[str, Json]) -> Score:
    worth = {name: labels[name].worth for name in decision.probabilities}
    return Score(
        value=decision.mean(worth),
        label=decision.choice,
        method="decision",
        kept_mass=decision.kept_mass,
        details={
            **details,
            "probabilities": {name: decision.probabilities[name] for name in labels if name in worth},
            "confidence": decision.probabilities[decision.choice],
            "entropy": decision.entropy,
            "uncertainty": decision.deviation(worth),
            **({"order": list(decision.order)} if decision.order else {}),
        },
    )


@cache
def label_form(names: tuple[str, ...], place: ReasonPlace = "before") -> type[AnyChoice]:
    """The form of an answer with one of these labels, and with its reason before it, after it, or not at all."""
    plain = {plain_word(name): name for name in names}

    def as_written(value: Any) -> Any:
        return plain.get(plain_word(value), value) if isinstance(value, str) else value

    fields: dict[str, Any] = {"label": (Annotated[cast("Any", Literal[names]), BeforeValidator(as_written)], ...)}
    base: Any = {"before": ChosenLabel, "after": LabelThenReason, "none": LabelAlone}[place]
    return cast("type[AnyChoice]", create_model("Chosen", __base__=base, __doc__="A label.", **fields))


Examples = Annotated[
    tuple[LabelledExample, ...],
    Field(max_length=20, description="Worked examples: {case: {input: …}, label: …, reason: …}."),
]

Labels = Annotated[
    Mapping[LabelName, Annotated[LabelDefinition, BeforeValidator(_with_meaning)]],
    Field(min_length=2, max_length=50, description="The labels by name: when each applies, or {meaning, score, pass}."),
]
"""A field of an evaluator that has labels of the user's own."""


class OwnLabels(Described):
    """A question with labels of the user's own: the fields that classifiers of turns and of conversations share."""

    question: NonBlank
    """The question that the judge answers with a label."""
    labels: Annotated[Labels, AfterValidator(distinct_labels)]
    examples: Annotated[Examples, ADDED_LATER] = ()

    @model_validator(mode="after")
    def _known_labels(self) -> Self:
        if unknown := sorted({example.label for example in self.examples} - self.labels.keys()):
            raise ValueError(f"examples: {', '.join(unknown)} is none of the labels")
        labels = self.labels.values()
        if any(label.passes for label in labels) and all(label.verdict for label in labels):
            raise ValueError("labels: each one passes; write pass: false, or a score below 1, where a case is bad")
        return self

    @property
    def label_definitions(self) -> Mapping[str, LabelDefinition]:
        """See `Classification.label_definitions`."""
        return self.labels
