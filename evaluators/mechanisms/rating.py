"""The common part of evaluators that ask a judge for one number on a scale."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache, lru_cache
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Self, TypeAlias, TypeVar, cast

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from evaluators.asking.answer_settings import ReasonSettings, WorkedExample, examples_text
from evaluators.asking.judge_input import JudgeInput, TextSettings
from evaluators.asking.reading import read_further
from evaluators.descriptions import Described
from evaluators.evaluator import ADDED_LATER
from evaluators.judge import Judge, Prompt
from evaluators.mechanisms.scoring import Mode, ask_score
from evaluators.prompts import fill, load
from evaluators.questions import QuestionGroup, ScoreQuestion, score_levels
from evaluators.results import Score
from evaluators.scale import BINARY, ReasonPlace, Scale

_QUESTION = "Which score does the case earn, by what is asked above?"
_STRICT_QUESTION = "Is the case perfect by what is asked above? There is nothing in between."
_STRICT_LEVELS = (((0, 0), "it falls short of any of it"), ((1, 1), "it is perfect"))

NonBlank = Annotated[str, Field(min_length=1, pattern=r"\S")]
"""A text that says something."""

Chosen = TypeVar("Chosen", bound=str)


def each_once(names: tuple[Chosen, ...]) -> tuple[Chosen, ...]:
    """The names, refused where one of them is there twice."""
    if twice := next((name for at, name in enumerate(names) if name in names[:at]), None):
        raise ValueError(f"{twice} is named twice")
    return names


UniqueNames = Annotated[tuple[Chosen, ...], Field(min_length=1), AfterValidator(each_once)]
"""One or more of a set of names, none of them twice."""

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
"""Ranges of raw scores, each with what earns it."""

_LEAST_GRADED = 4
"""Steps of a scale from which on its two ends do not say what the numbers between them stand for."""


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
    """Whether the judge reads what each part of the scale stands for, in general words. By default on scales of five
    numbers and more without a rubric."""
    examples: Annotated[tuple[RatedExample, ...], ADDED_LATER] = Field(default=(), max_length=20)
    """Worked examples: {case: {input: …}, score: …, reason: …}."""
    scale: tuple[int, int] | None = None
    """Lowest and highest raw score; the rubric's ends, else the kind's own, if left out."""
    strict_mode: bool = False
    """Score 1 for perfection and 0 for anything else; threshold 1."""
    mode: Mode = "auto"
    """How a number is made of the judge's answer."""
    n_samples: int | None = Field(default=None, ge=1, le=50)
    """Answers to average, where samples are taken."""
    temperature: float | None = Field(default=None, ge=0, le=2)
    """The judge's own if left out."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Length limit of an answer; the judge's if left out."""

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
            raise ValueError(
                "grades and rubric or strict_mode: they say what scores stand for themselves; leave it out"
            )
        if any(not scale.lowest <= example.score <= scale.highest for example in self.examples):
            raise ValueError(f"examples: a score is off the scale of {scale.lowest} to {scale.highest}")
        return self

    @property
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

    @property
    def form(self) -> str:
        """The instructions on the scale and the form of the answer, with examples before them."""
        values = {
            "lowest": str(self.raw_scale.lowest),
            "highest": str(self.raw_scale.highest),
            "rubric": self._rubric_text(),
        }
        form = fill(load(self._form_template), values)
        return "\n\n".join(part for part in (self._examples(self.reason), self.language_sentence, form) if part)

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
        """The templates of a kind, and those of the form that were added later, where they are used."""
        grades = ("rating_grades.txt",) if self._has_grades else ()
        later = (self._form_template,) if self.reason != "before" else ()
        return (*templates, *later, *grades)

    async def rate(self, judge: Judge, instructions: str, material: JudgeInput) -> Score:
        """Ask for a number on the scale. `instructions` end with the `form`."""
        groups = (self.typed_question(instructions),)
        material = await read_further(self, judge, instructions, material)
        prompt = Prompt(instructions, material.content, self.temperature, self.max_tokens, groups=groups)
        mode = "single" if self.strict_mode else self.mode
        score = await ask_score(judge, prompt, self.raw_scale, mode=mode, n_samples=self.n_samples, reason=self.reason)
        return replace(score, details={**score.details, **details}) if (details := material.details) else score

    def typed_question(self, instructions: str) -> QuestionGroup:
        """The same question for a judge that decides: without what instructions say about the form of an answer."""
        examples = self._examples("none")
        guide = "\n\n".join(part for part in (instructions.partition(self.form)[0].strip(), examples) if part)
        text = _STRICT_QUESTION if self.strict_mode else _QUESTION
        rubric = () if self.strict_mode else self._what_earns
        if self.strict_mode and self.rubric:
            guide += f"\n{self._rubric_text()}"
        levels = score_levels(self.raw_scale, rubric or (_STRICT_LEVELS if self.strict_mode else ()))
        return QuestionGroup(guide, (ScoreQuestion(("score",), text, levels),))

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
