"""Typed questions: an evaluator's questions, independent of the form in which a judge is asked.

A chat model reads instructions and writes an answer; a decision model reads the judged text, and gives probabilities
for the options of each question. Both get the same material. A prompt carries its typed questions beside its messages,
so that a judge takes the form that it knows; neither contains the judged text, so that it is sent once.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

from evaluators.scale import Scale

QUESTIONS_REVISION = 2
"""Counts changes of the typed questions' texts and of the use of their answers: part of the version of a decision
model's scores."""

MOST_LEVELS = 11
"""The most levels of a score question: a longer scale is asked for in so many steps, as even as whole numbers
permit."""

Place: TypeAlias = tuple[str | int, ...]
"""The path of an answer in the reply that the evaluator reads, like ("verdicts", 0, "verdict")."""


@dataclass(frozen=True, slots=True)
class Option:
    """A possible answer of a question: its value, and when it applies; "" if the guide says when."""

    value: str
    meaning: str = ""


@dataclass(frozen=True, slots=True)
class PredicateQuestion:
    """A question whether something is true. The options are yes and no."""

    place: Place
    text: str

    @property
    def options(self) -> tuple[Option, ...]:
        """Yes and no."""
        return _YES_NO


_YES_NO = (Option("yes"), Option("no"))


@dataclass(frozen=True, slots=True)
class ChoiceQuestion:
    """A choice of the option that fits best; their order means nothing."""

    place: Place
    text: str
    options: tuple[Option, ...]


@dataclass(frozen=True, slots=True)
class ScoreQuestion:
    """The level that fits, with ascending whole numbers as values. The score is the mean over the levels."""

    place: Place
    text: str
    options: tuple[Option, ...]


TypedQuestion: TypeAlias = PredicateQuestion | ChoiceQuestion | ScoreQuestion


@dataclass(frozen=True, slots=True)
class QuestionGroup:
    """The typed questions of one evaluator, in order, and the `guide` that says how to answer them.

    The guide and the questions are trusted text: evalstream's and the configuration's. The judged text is the prompt's
    material. `name` is unique among the groups of a request.
    """

    guide: str
    questions: tuple[TypedQuestion, ...]
    name: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """The probabilities of a question's options, adding up to 1; none if there is no answer.

    `kept_mass` is the share of the model's probability that lay on the options, None where the endpoint does not say.
    `order` is the order in which a choice's options were shown. Without probabilities `problem` is the type of the
    failure: `judge_refused` where the model declined, `judge_reply_invalid` where its answer cannot be used.
    """

    probabilities: Mapping[str, float]
    kept_mass: float | None = None
    order: tuple[str, ...] = ()
    problem: Literal["judge_refused", "judge_reply_invalid"] = "judge_refused"

    @property
    def refused(self) -> bool:
        """Whether there is no answer."""
        return not self.probabilities

    @property
    def choice(self) -> str:
        """The most probable option; in a tie the first by name, whatever order was shown."""
        return min(self.probabilities, key=lambda value: (-self.probabilities[value], value))

    def mean(self, worth: Mapping[str, float] | None = None) -> float:
        """The mean of the options' worth; a level of a score question is worth its number."""
        values = {value: float(value) for value in self.probabilities} if worth is None else worth
        mean = math.fsum(share * values[value] for value, share in self.probabilities.items())
        return min(max(values.values()), max(min(values.values()), mean))  # rounding must not leave the scale

    def deviation(self, worth: Mapping[str, float] | None = None) -> float:
        """The standard deviation over the options of their worth."""
        values = {value: float(value) for value in self.probabilities} if worth is None else worth
        mean = self.mean(values)
        spread = math.fsum(share * (values[value] - mean) ** 2 for value, share in self.probabilities.items())
        return math.sqrt(max(0.0, spread))

    @property
    def entropy(self) -> float:
        """How undecided the model was, in bits: 0 for one option alone, 1 for two equally likely options."""
        return max(0.0, -math.fsum(share * math.log2(share) for share in self.probabilities.values() if share > 0))


@lru_cache(maxsize=1000)  # the same for every case of an evaluator
def score_levels(scale: Scale, meanings: tuple[tuple[tuple[int, int], str], ...] = ()) -> tuple[Option, ...]:
    """The levels of a scale, at most `MOST_LEVELS`, each with the meaning of the range of scores that it lies in."""
    steps = min(scale.length, MOST_LEVELS - 1)
    numbers = [scale.lowest + round(scale.length * step / steps) for step in range(steps + 1)]
    ends = {scale.lowest: "the worst", scale.highest: "the best that can be said"}

    def meaning_of(number: int) -> str:
        texts = [text for (lowest, highest), text in meanings if lowest <= number <= highest]
        return texts[0] if texts else ends.get(number, "")

    return tuple(Option(str(number), meaning_of(number)) for number in numbers)


def deciding_model(api: str, model: str) -> str:
    """The name in identities of a model that decides: its scores differ from the scores that the same model writes."""
    return f"{model} ({api} {QUESTIONS_REVISION})"


def guide_before(instructions: str, form: str) -> str:
    """The instructions before the sentence that begins the form of the answer.

    Raises:
        ValueError: they have no such sentence.
    """
    guide, sentence, _ = instructions.partition(form)
    if not sentence:
        raise ValueError(f"the instructions do not say {form!r}")
    return guide.strip()
