"""Two answers to one request, compared dimension by dimension and in both orders."""

from collections.abc import Mapping
from functools import cache
from itertools import product
from statistics import fmean
from typing import Annotated, Any, ClassVar, Literal, Self

import orjson
from pydantic import AfterValidator, BeforeValidator, Field, create_model, model_validator

from evaluators.answers.quote_check import contains_quote
from evaluators.asking.judge_input import TextSettings, shorten_all
from evaluators.cases import Json, Turn
from evaluators.evaluator import ADDED_LATER, Evaluator, Example
from evaluators.judge import Answer, Judge, Prompt
from evaluators.mechanisms.rating import NonBlank, each_once
from evaluators.prompts import fill, load
from evaluators.questions import Option, QuestionGroup, ScoreQuestion, guide_before
from evaluators.results import Score
from evaluators.scale import Reply, Scale, reject_bool

_Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")]

Dimension = Literal["accuracy", "completeness", "clarity", "actionability", "relevance"]

DIMENSIONS: Mapping[Dimension, str] = {
    "accuracy": "are facts, technical details and code right, and is nothing made up?",
    "completeness": "does it deal with all parts of the request, and leave out nothing that matters?",
    "clarity": "is it well organised, unambiguous and easy to follow?",
    "actionability": "can the user do what it recommends, and does it say what could go wrong?",
    "relevance": "does it keep to what the user needs, at the right level of detail?",
}

SCALE = Scale(1, 5)

_LEVELS = tuple(
    Option(str(number), meaning)
    for number, meaning in enumerate(
        ("useless", "poor", "acceptable with clear flaws", "good with little to improve", "excellent"), start=1
    )
)

Winner = Literal["a", "b", "tie"]


class Assessment(Reply):
    """One answer in one dimension: why, what shows it, and how good, from 1 to 5."""

    reason: str
    evidence: tuple[str, ...]
    score: Annotated[int, Field(ge=SCALE.lowest, le=SCALE.highest), BeforeValidator(reject_bool)]


class AnswerPair(Reply):
    """Both answers in one dimension."""

    a: Assessment
    b: Assessment


class PairComparison(Reply):
    """Both answers in each dimension; the dimensions are fields that are added."""


SUMMARY: Mapping[str, Any] = {"key_differences": tuple[str, ...], "rationale": str, "recommendations": tuple[str, ...]}
"""The result of a comparison: the fields after the dimensions, if they are requested."""


class PairwiseDimensions(TextSettings, Evaluator[Turn]):
    """Whether the answer is better than another one to the same request: 1 if it is, 0.5 for a tie, else 0.

    The judge scores both in each dimension from 1 to 5, 5 the best, without knowing which is which, and again with
    their places changed. In each round the one with the higher mean wins; if the rounds disagree, it is a tie. The mean
    over traffic is the share of wins, with ties as halves. `confidence` in the details is the share of dimensions on
    which both rounds agree.
    """

    kind: ClassVar[str] = "pairwise_dimensions"
    prompts: ClassVar[tuple[str, ...]] = ("pairwise_dimensions.txt",)
    example: ClassVar[Example] = {"other_output_attribute": "shadow.output"}

    other_output_attribute: NonBlank
    """The turn's attribute that holds the other answer, like that of a shadow or canary deployment."""
    dimensions: Annotated[tuple[Dimension, ...], AfterValidator(each_once)] = tuple(DIMENSIONS)
    """The dimensions to compare."""
    own_dimensions: Annotated[Mapping[_Name, NonBlank], ADDED_LATER] = Field(default_factory=dict[str, str])
    """Further dimensions by name, each with the question that it asks of an answer."""

    consider: Annotated[Mapping[_Name, Annotated[tuple[NonBlank, ...], Field(min_length=1)]], ADDED_LATER] = Field(
        default_factory=dict[str, tuple[str, ...]]
    )
    """Points to consider in a dimension, by its name: {accuracy: [Are the units right?]}."""
    summary: Annotated[bool, ADDED_LATER] = False
    """Whether the judge also writes key differences, a rationale and recommendations, for the details."""

    @model_validator(mode="after")
    def _names_of_its_own(self) -> Self:
        if names := sorted(DIMENSIONS.keys() & self.own_dimensions.keys()):
            raise ValueError(f"own_dimensions: {', '.join(names)} is built in; take another name")
        if names := sorted(SUMMARY.keys() & self.own_dimensions.keys()):
            raise ValueError(f"own_dimensions: {', '.join(names)} is a part of the summary; take another name")
        if not self._questions:
            raise ValueError("dimensions: nothing is compared; name at least one, or one in own_dimensions")
        if unknown := sorted(self.consider.keys() - self._questions.keys()):
            raise ValueError(f"consider: {', '.join(unknown)} is no dimension that is compared")
        return self

    @property
    def templates(self) -> tuple[str, ...]:
        """See `Evaluator.templates`."""
        return (*self.prompts, "pairwise_dimensions_summary.txt") if self.summary else self.prompts

    @property
    def _questions(self) -> Mapping[str, str]:
        """The question of each compared dimension, by the dimension's name."""
        return {**{name: DIMENSIONS[name] for name in self.dimensions}, **self.own_dimensions}

    @property
    def requires(self) -> frozenset[str]:
        """The request and both answers."""
        return frozenset({"input", "actual_output", f"attributes.{self.other_output_attribute}"})

    @property
    def label_names(self) -> tuple[str, ...]:
        """See `Evaluator.label_names`."""
        return ("better", "tie", "worse")

    @property
    def rounds(self) -> int:
        """One for each order of the two answers."""
        return 2

    @property
    def needs_writer(self) -> bool:
        """See `Evaluator.needs_writer`: the summary, if there is one."""
        return self.summary

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        ours, theirs = case.actual_output or "", str(case.attributes[self.other_output_attribute])
        answer = await self._round(judge, case.input, ours, theirs)
        reply = answer.reply
        rounds = (self._read(answer, "ab"), self._read(await self._round(judge, case.input, theirs, ours), "ba"))
        # each is named by the answer and not by its place, which the rounds change
        winner = rounds[0].winner if rounds[0].winner == rounds[1].winner else "tie"
        means = {side: fmean(answer.mean(side) for answer in rounds) for side in ("a", "b")}
        return Score(
            value={"a": 1.0, "tie": 0.5, "b": 0.0}[winner],
            label={"a": "better", "tie": "tie", "b": "worse"}[winner],
            method="decision" if answer.decisions else "single",
            explanation=_explanation(winner, means, rounds[0].winner != rounds[1].winner),
            details={
                "overall": {"actual_output": means["a"], "other_output": means["b"]},
                "confidence": fmean(rounds[0].winner_in(name) == rounds[1].winner_in(name) for name in self._questions),
                "dimensions": {name: _details(rounds, name, ours, theirs) for name in self._questions},
            }
            | self._summary(reply)
            | ({"truncated": True} if max(map(len, (case.input or "", ours, theirs))) > self.longest_text else {}),
        )

    async def _round(self, judge: Judge, request: str | None, a: str, b: str) -> Answer[PairComparison]:
        names = tuple(self._questions)
        lines = "\n".join(self._line(name, question) for name, question in self._questions.items())
        form = _form(names, summary=self.summary)
        instructions = fill(load("pairwise_dimensions.txt"), {"dimensions": lines, "form": form})
        if self.summary:
            instructions += f"\n{load('pairwise_dimensions_summary.txt')}"
        material = shorten_all({"input": request, "a": a, "b": b}, self.longest_text)
        groups = () if self.summary else (_typed_questions(instructions, names),)  # a summary has to be written
        prompt = Prompt(instructions, material.content, groups=groups)
        return (await judge.ask(prompt, _comparison(names, summary=self.summary))).answers[0]

    def _read(self, answer: Answer[PairComparison], places: str) -> "_Round":
        """A round whose first place had side `places[0]`, whose second `places[1]`."""
        pairs = {name: getattr(answer.reply, name) for name in self._questions}
        ours, theirs = ("a", "b") if places == "ab" else ("b", "a")
        written = {name: AnswerPair(a=getattr(pair, ours), b=getattr(pair, theirs)) for name, pair in pairs.items()}
        if not answer.decisions:
            return _Round(written)
        means = dict(zip(product(pairs, ("a", "b")), (decision.mean() for decision in answer.decisions), strict=True))
        return _Round(written, {(name, places["ab".index(place)]): mean for (name, place), mean in means.items()})

    def _summary(self, reply: PairComparison) -> dict[str, Json]:
        values = {name: getattr(reply, name) for name in SUMMARY if self.summary}
        return {name: value if isinstance(value, str) else list(value) for name, value in values.items()}

    def _line(self, name: str, question: str) -> str:
        """A dimension as the judge reads it, with the points to consider below it."""
        return "\n".join(
            [f"- {name}: {question}", *(f"  - consider: {point}" for point in self.consider.get(name, ()))]
        )


class _Round:
    """The judge's answer after it saw the answers in one order. Sides are named by the answers: a is the judged one."""

    def __init__(self, pairs: Mapping[str, AnswerPair], means: Mapping[tuple[str, str], float] | None = None) -> None:
        self.pairs = pairs
        self._means = means or {}

    def score(self, dimension: str, side: str) -> float:
        """The rating as the judge wrote it, or the mean by the probabilities of a judge that decides."""
        written: Assessment = getattr(self.pairs[dimension], side)
        return self._means.get((dimension, side), written.score)

    def mean(self, side: str) -> float:
        return fmean(self.score(dimension, side) for dimension in self.pairs)

    @property
    def winner(self) -> Winner:
        return _better(self.mean("a"), self.mean("b"))

    def winner_in(self, dimension: str) -> Winner:
        return _better(self.score(dimension, "a"), self.score(dimension, "b"))


def _better(a: float, b: float) -> Winner:
    return "a" if a > b else "b" if b > a else "tie"


def _details(rounds: tuple[_Round, _Round], dimension: str, ours: str, theirs: str) -> Json:
    return {
        name: {
            "scores": [answer.score(dimension, side) for answer in rounds],
            "reason": getattr(rounds[0].pairs[dimension], side).reason,
            "evidence": [
                quote for quote in getattr(rounds[0].pairs[dimension], side).evidence if contains_quote(quote, text)
            ],
        }
        for name, side, text in (("actual_output", "a", ours), ("other_output", "b", theirs))
    }


def _explanation(winner: Winner, means: Mapping[str, float], disagreed: bool) -> str:
    says = {"a": "Better than the other answer", "b": "Worse than the other answer", "tie": "No better than the other"}
    doubt = "; the order of presentation decided" if disagreed else ""
    return f"{says[winner]}: {means['a']:.2f} against {means['b']:.2f} of 5{doubt}."


@cache
def _comparison(dimensions: tuple[str, ...], *, summary: bool) -> type[PairComparison]:
    fields: dict[str, Any] = dict.fromkeys(dimensions, (AnswerPair, ...))
    fields |= {name: (kind, ...) for name, kind in SUMMARY.items() if summary}
    return create_model("Comparison", __base__=PairComparison, __doc__="Both answers in each dimension.", **fields)


def _typed_questions(instructions: str, dimensions: tuple[str, ...]) -> QuestionGroup:
    """The same for a judge that decides: a score for each answer in each dimension."""
    questions = (
        ScoreQuestion((name, side, "score"), f"How good is `{side}` in the dimension {name}?", _LEVELS)
        for name, side in product(dimensions, ("a", "b"))
    )
    return QuestionGroup(guide_before(instructions, "For each dimension and each"), tuple(questions))


def _form(dimensions: tuple[str, ...], *, summary: bool) -> str:
    """An example of the answer's form, with the first dimension written out."""
    one = {"reason": "<why>", "evidence": ["<passage>"], "score": "<1 to 5>"}
    form: dict[str, Json] = {name: {"a": one, "b": one} for name in dimensions}
    if summary:
        form |= {"key_differences": ["<difference>"], "rationale": "<why>", "recommendations": ["<recommendation>"]}
    return orjson.dumps(form).decode().replace('"<1 to 5>"', "<1 to 5>")
