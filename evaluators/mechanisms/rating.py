"""Evaluators that ask a judge for one number on a scale, and their definitions.

The definitions of G-Eval, of evaluators by a prompt, and of evaluators by guidelines (rules that a judge checks one by
one) are the same for turns and for whole conversations.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property, lru_cache
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias, TypeVar, cast

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from evaluators.answers.reply_parser import parse_reply
from evaluators.asking.answer_settings import ReasonSettings, WorkedExample, examples_text
from evaluators.asking.judge_input import MEANINGS, JudgeInput, TextSettings, is_program_field
from evaluators.asking.reading import read_further
from evaluators.descriptions import Described
from evaluators.errors import JudgeReplyInvalid
from evaluators.evaluator import ADDED_LATER
from evaluators.judge import Judge, Prompt
from evaluators.mechanisms.item_verdicts import VERDICT_PROMPTS, YES_OR_UNCLEAR, ItemWindow, RatioSpec, score_ratio
from evaluators.mechanisms.scoring import Mode, ask_score
from evaluators.prompts import fill, load, placeholders
from evaluators.questions import QuestionGroup, ScoreQuestion, score_levels
from evaluators.results import Score
from evaluators.scale import BINARY, ReasonPlace, Reply, Scale

_QUESTION = "Which score does the case earn, by what is asked above?"
_STRICT_QUESTION = "Is the case perfect by what is asked above? There is nothing in between."
_STRICT_LEVELS = (((0, 0), "it falls short of any of it"), ((1, 1), "it is perfect"))

NonBlank = Annotated[str, Field(min_length=1, pattern=r"\S")]
"""A text that says something."""

Chosen = TypeVar("Chosen", bound=str)


def each_once(names: tuple[Chosen, ...]) -> tuple[Chosen, ...]:
    """The names; a repeated name is refused."""
    if twice := next((name for at, name in enumerate(names) if name in names[:at]), None):
        raise ValueError(f"{twice} is named twice")
    return names


UniqueNames = Annotated[tuple[Chosen, ...], Field(min_length=1), AfterValidator(each_once)]
"""One or more of a set of names, each at most once."""

RATING_PROMPTS = ("rating.txt", "rating_strict.txt")
"""The templates of the form of the answer: part of every version of an evaluator that asks for a rating."""


class Rubric(Described):
    """The meaning of a range of raw scores, both ends included."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    score_range: tuple[int, int]
    """Lowest and highest raw score that the outcome earns."""
    expected_outcome: NonBlank
    """The look of a case that earns a score in this range."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.score_range[0] > self.score_range[1]:
            raise ValueError("score_range: the lowest comes first")
        return self


Bands: TypeAlias = tuple[tuple[tuple[int, int], str], ...]
"""Ranges of raw scores, each with its meaning."""

_LEAST_GRADED = 4
"""From so many steps on, the ends of a scale do not tell the meaning of the numbers between them."""


class RatedExample(WorkedExample):
    """A worked example with its score on the scale."""

    score: int
    """The score that the case earns, on the scale."""


class Rating(ReasonSettings, TextSettings):
    """How the judge is asked for a number, and how a score is made of it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    default_scale: ClassVar[Scale] = Scale(0, 10)
    all_typed: ClassVar[bool] = True
    prompts: ClassVar[tuple[str, ...]] = RATING_PROMPTS

    rubric: tuple[Rubric, ...] = ()
    """The meaning of ranges of the scale."""
    grades: Annotated[bool | None, ADDED_LATER] = None
    """Whether the judge reads what each part of the scale stands for, in general words. Default: true on scales of five
    numbers and more without a rubric, else false."""
    examples: Annotated[tuple[RatedExample, ...], ADDED_LATER] = Field(default=(), max_length=20)
    """Worked examples: {case: {input: …}, score: …, reason: …}."""
    scale: tuple[int, int] | None = None
    """Lowest and highest raw score; the rubric's ends, else the kind's own, if left out."""
    strict_mode: bool = False
    """Score 1 for perfection and 0 for anything else; threshold 1."""
    mode: Mode = "auto"
    """logprobs: the mean by the judge's token probabilities; samples: the mean of `n_samples` answers; single: one
    answer. auto: logprobs if the judge gives them, else samples if `n_samples` is set, else single."""
    n_samples: int | None = Field(default=None, ge=1, le=50)
    """Number of answers to average; 5 with `mode: samples` if left out."""
    temperature: float | None = Field(default=None, ge=0, le=2)
    """The judge's own if left out."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Length limit of an answer."""

    @model_validator(mode="before")
    @classmethod
    def _strict_threshold(cls, data: Any) -> Any:
        """With `strict_mode` the threshold is 1: it is filled in, and any other is refused."""
        if not isinstance(data, Mapping):
            return data
        values = dict(cast("Mapping[str, Any]", data))
        if not values.get("strict_mode"):
            return values
        if values.get("threshold") is None:
            values["threshold"] = 1.0
        if values["threshold"] != 1:
            raise ValueError("threshold and strict_mode: with strict_mode the threshold is 1; leave it out")
        return values

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.strict_mode and (self.mode in {"logprobs", "samples"} or self.scale is not None):
            raise ValueError("strict_mode and mode or scale: a strict score is 0 or 1, from one answer")
        ranges = sorted(rubric.score_range for rubric in self.rubric)
        if any(before[1] >= after[0] for before, after in pairwise(ranges)):
            raise ValueError("rubric: ranges overlap")
        scale = self.raw_scale  # also refuses a scale without length
        if ranges and not self.strict_mode and (ranges[0][0] < scale.lowest or ranges[-1][1] > scale.highest):
            raise ValueError("rubric and scale: a range goes beyond the scale")
        if self.grades and (self.rubric or self.strict_mode):
            raise ValueError("grades and rubric or strict_mode: with either of the latter, omit grades")
        if any(not scale.lowest <= example.score <= scale.highest for example in self.examples):
            raise ValueError(f"examples: a score is off the scale of {scale.lowest} to {scale.highest}")
        return self

    @cached_property
    def raw_scale(self) -> Scale:
        """The scale that the judge is asked for."""
        if self.strict_mode:
            return BINARY
        if self.scale is not None:
            return Scale(*self.scale)
        if self.rubric:
            ends = [end for rubric in self.rubric for end in rubric.score_range]
            return Scale(min(ends), max(ends))
        return self.default_scale

    @property
    def score_range(self) -> tuple[float, float]:
        """The ends of the scale."""
        return self.raw_scale.bounds

    @cached_property
    def form(self) -> str:
        """The instructions on the scale and the form of the answer, with examples before them."""
        values = {
            "lowest": str(self.raw_scale.lowest),
            "highest": str(self.raw_scale.highest),
            "rubric": self._rubric_text(),
        }
        form = fill(load(self._form_template), values)
        return "\n\n".join(filter(None, (self._examples(self.reason), self.language_sentence, form)))

    def _examples(self, place: ReasonPlace) -> str:
        return examples_text([(example, {"score": example.score}) for example in self.examples], place)

    @property
    def _form_template(self) -> str:
        return self.template("rating_strict" if self.strict_mode else "rating")

    @property
    def templates(self) -> tuple[str, ...]:
        """See `Evaluator.templates`."""
        return self.with_form(self.prompts)

    def with_form(self, templates: tuple[str, ...]) -> tuple[str, ...]:
        """The templates of a kind, and the templates of the form that were added later, if they are used."""
        grades = ("rating_grades.txt",) if self._has_grades else ()
        return (*templates, *((self._form_template,) if self.reason != "before" else ()), *grades)

    async def rate(self, judge: Judge, instructions: str, material: JudgeInput) -> Score:
        """Ask for a number on the scale. `instructions` end with the `form`."""
        groups = (self.typed_question(instructions),)
        if material.run is not None:
            material = await read_further(self, judge, instructions, material)
        prompt = Prompt(instructions, material.content, self.temperature, self.max_tokens, groups=groups)
        mode = "single" if self.strict_mode else self.mode
        score = await ask_score(judge, prompt, self.raw_scale, mode=mode, n_samples=self.n_samples, reason=self.reason)
        return replace(score, details={**score.details, **details}) if (details := material.details) else score

    def typed_question(self, instructions: str) -> QuestionGroup:
        """The same question for a judge that decides: without what instructions say about the form of an answer."""
        examples, rubric, question = self._typed
        guide = "\n\n".join(filter(None, (instructions.partition(self.form)[0].strip(), examples)))
        return QuestionGroup(guide + rubric, (question,))

    @cached_property
    def _typed(self) -> tuple[str, str, ScoreQuestion]:
        """The parts of a typed question that are the same for all instructions: examples, a rubric, and the levels."""
        text = _STRICT_QUESTION if self.strict_mode else _QUESTION
        rubric = f"\n{self._rubric_text()}" if self.strict_mode and self.rubric else ""
        levels = score_levels(self.raw_scale, _STRICT_LEVELS if self.strict_mode else self._what_earns)
        return self._examples("none"), rubric, ScoreQuestion(("score",), text, levels)

    @property
    def _has_grades(self) -> bool:
        if self.grades is not None:
            return self.grades
        return not (self.rubric or self.strict_mode) and self.raw_scale.length >= _LEAST_GRADED

    @property
    def _what_earns(self) -> Bands:
        if self._has_grades:
            return grades_of(self.raw_scale)
        return tuple([(band.score_range, band.expected_outcome) for band in self.rubric])

    def _rubric_text(self) -> str:
        about = "What would earn which grade, for orientation:" if self.strict_mode else "What earns which score:"
        return _text_of(self._what_earns, about)


@cache  # the same for every case
def grades_of(scale: Scale) -> Bands:
    """The meanings of the parts of a scale, in general words: five, or as many as it has numbers."""
    words = load("rating_grades.txt").splitlines()[::-1]  # the worst first
    count = min(len(words), scale.length + 1)
    chosen = {5: words, 4: [*words[:2], *words[3:]], 3: words[::2], 2: words[::4]}[count]
    numbers = range(scale.lowest, scale.highest + 1)
    ends = [round(len(numbers) * part / count) for part in range(count + 1)]
    return tuple(
        ((numbers[start], numbers[end - 1]), text) for start, end, text in zip(ends, ends[1:], chosen, strict=False)
    )


@lru_cache(maxsize=1000)  # the same for every case of an evaluator
def _text_of(bands: Bands, about: str) -> str:
    lines = [f"- {range_text(score_range)}: {outcome}" for score_range, outcome in sorted(bands)]
    return "\n".join(["", about, *lines, ""]) if bands else ""


def range_text(score_range: tuple[int, int]) -> str:
    """A range of raw scores as words: `7` or `7 to 9`."""
    lowest, highest = score_range
    return str(lowest) if lowest == highest else f"{lowest} to {highest}"


STEPS_HASH = "steps_hash"
"""The detail of a score that names the steps which a judge wrote from criteria."""
G_EVAL_PROMPTS = ("g_eval.txt", "g_eval_steps.txt", *RATING_PROMPTS)


Preset = Literal[
    "helpfulness", "coherence", "fluency", "conciseness", "sycophancy", "image_coherence", "image_helpfulness"
]
"""Criteria whose steps come with evalstream. Fields of images need a judge that sees pictures."""


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

    async def steps(self, judge: Judge, fields: tuple[str, ...]) -> tuple[str, ...]:
        """The evaluation steps: the configured ones, else the judge's, asked for without a case.

        A `DefinitionCache` judge is asked once and for all; any other each time.
        """
        if self.evaluation_steps is not None:
            return self.evaluation_steps
        if self.preset is not None:
            return tuple(load(f"preset_{self.preset}.txt").splitlines())
        return (await judge.ask(_steps_question(self.criteria or "", fields), Steps)).reply.steps

    async def rate_by_steps(self, judge: Judge, fields: tuple[str, ...], material: JudgeInput) -> Score:
        """Ask for a number by the steps. The details have the hash of steps that the judge wrote."""
        instructions, steps_hash = _instructions(await self.steps(judge, fields), fields, self.form)
        if self.criteria is not None:
            material = replace(material, notes={**material.notes, STEPS_HASH: steps_hash})
        return await self.rate(judge, instructions, material)


@lru_cache(maxsize=1000)  # the same for every case of an evaluator
def _steps_question(criteria: str, fields: tuple[str, ...]) -> Prompt:
    return Prompt(fill(load("g_eval_steps.txt"), {"criteria": criteria, "fields": describe_fields(fields)}))


@lru_cache(maxsize=1000)
def _instructions(steps: tuple[str, ...], fields: tuple[str, ...], rating: str) -> tuple[str, str]:
    """The instructions to rate by steps, and the hash of the steps."""
    values = {"steps": number_lines(steps), "fields": describe_fields(fields), "rating": rating}
    return fill(load("g_eval.txt"), values), hash_of_steps(steps)


def hash_of_steps(steps: Iterable[str]) -> str:
    """16 hex digits of SHA-256 over steps as the judge reads them."""
    return hashlib.sha256(number_lines(steps).encode()).hexdigest()[:16]


def steps_in(answer: str) -> tuple[str, ...]:
    """The steps in a stored answer of a judge; () if the answer holds no steps."""
    try:
        return parse_reply(answer, Steps).steps if "steps" in answer else ()
    except JudgeReplyInvalid:
        return ()


def number_lines(steps: Iterable[str]) -> str:
    """Steps as a numbered list, each on one line."""
    return "\n".join(f"{number}. {' '.join(step.split())}" for number, step in enumerate(steps, start=1))


def describe_fields(fields: Iterable[str]) -> str:
    """Fields as a list, each with its description."""
    return "\n".join(f"- {name}: {_meaning_of(name)}" for name in fields)


def _meaning_of(name: str) -> str:
    side, dot, own = name.partition(".")
    if not dot:
        return MEANINGS[name]
    return f"what the application's program was given as {own}" if side == "inputs" else f"its result {own}"


GUIDELINE_PROMPTS = ("guidelines_verdicts.txt", *VERDICT_PROMPTS)

_RATIO = RatioSpec(counting_verdicts=YES_OR_UNCLEAR, noun="guidelines", predicate="are kept")


PROMPT_PROMPTS = ("prompt.txt", *RATING_PROMPTS)

_GUIDELINE_FIELDS = ("input", "actual_output")


class PromptDefinition(Rating):
    """Exactly one of `prompt` and `guidelines`. The placeholders of a prompt decide what the judge is shown."""

    known_fields: ClassVar[tuple[str, ...]]
    """The names that a prompt may have as placeholders, in the order in which the judge reads the fields."""
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
        if unknown := sorted(self.named_fields - {*self.known_fields, *self.program_names}):
            where = "guideline_params" if self.prompt is None else "prompt"
            raise ValueError(f"{where}: unknown {', '.join(unknown)}; there are {', '.join(self.known_fields)}")
        return self

    @property
    def named_fields(self) -> frozenset[str]:
        """The fields that the judge is shown."""
        return frozenset(self.guideline_params) if self.prompt is None else placeholders(self.prompt)

    @property
    def program_names(self) -> Sequence[str]:
        """The named fields of a structured program, if a turn is judged."""
        return sorted(filter(is_program_field, self.named_fields)) if self.of_turns else ()

    @property
    def ordered_fields(self) -> Sequence[str]:
        """The named fields in the order in which the judge reads them."""
        return [*(name for name in self.known_fields if name in self.named_fields), *self.program_names]

    @property
    def templates(self) -> tuple[str, ...]:
        """See `Evaluator.templates`."""
        return GUIDELINE_PROMPTS if self.prompt is None else self.with_form(PROMPT_PROMPTS)

    @property
    def score_range(self) -> tuple[float, float]:
        """The ends of the scale; 0 and 1, as of a share, with guidelines."""
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

        An undecided guideline counts as kept; if the judge saw only a part of a run, it is left out of the share.
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
