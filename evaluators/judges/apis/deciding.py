"""The port of wire formats whose models give probabilities for typed questions, and write nothing."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from evaluators.cases import Json
from evaluators.judges.apis.payload import object_in, probability, text
from evaluators.judges.apis.writing import bearer
from evaluators.judges.completions import usage_of
from evaluators.questions import ChoiceQuestion, Decision, PredicateQuestion, QuestionGroup, TypedQuestion
from evaluators.results import Usage

MOST_SCORE_LEVELS = 10
"""Levels that endpoints take in a score question; a longer scale is asked for as a choice."""

_ROUNDING = 0.05
"""How far the sum of probabilities may be from 1: servers round them."""


@dataclass(frozen=True, slots=True)
class NumberedQuestion:
    """A question in a request: its name, the order in which its options are shown, and its guide.

    `shares_guide` says that further questions have the same guide.
    """

    name: str
    question: TypedQuestion
    order: tuple[str, ...]
    guide: str
    shares_guide: bool

    @property
    def text(self) -> str:
        """The guide and the question."""
        return f"{self.guide}\n\n{self.question.text}"

    @property
    def meanings(self) -> Mapping[str, str]:
        """Meanings of the options, in the order shown."""
        meanings = {option.value: option.meaning for option in self.question.options}
        return {value: meanings[value] for value in self.order}

    def decision(self, probabilities: Mapping[Any, Any], kept_mass: float | None = None) -> Decision:
        """The decision that a server's probabilities by option make, with their rounding evened out."""
        known = {value: probability(probabilities.get(value, 0.0)) for value in self.order}
        shares = {value: share for value, share in known.items() if share is not None}
        total = sum(shares.values())
        if len(shares) < len(known) or not set(probabilities) <= set(known) or abs(total - 1) > _ROUNDING:
            return UNUSABLE
        by_option = {option.value: shares[option.value] / total for option in self.question.options}
        return Decision(by_option, kept_mass, self.order if isinstance(self.question, ChoiceQuestion) else ())


REFUSED = Decision({})
UNUSABLE = Decision({}, problem="judge_reply_invalid")


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRequest:
    """The request: the judged material, as an object and as fenced text, and the questions about it."""

    model: str
    material: Mapping[str, Json]
    fenced: str
    questions: Sequence[NumberedQuestion]
    extra: Mapping[str, Json] = field(default_factory=dict[str, Json])


@dataclass(frozen=True, slots=True)
class DecisionReply:
    """The answer: a decision for each question, in their order."""

    decisions: Sequence[Decision]
    model: str | None
    usage: Usage
    fingerprint: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidingApi:
    """One wire format. `most` is how many questions a request may have; endpoints may take fewer.

    `decisions` reads what a response has under `answers`: a decision for each question, in their order.
    """

    name: str
    path: str
    body: Callable[[DecisionRequest], dict[str, Json]]
    decisions: Callable[[Any, Sequence[NumberedQuestion]], Sequence[Decision]]
    most: int
    headers: Callable[[str], Mapping[str, str]] = bearer
    vendor: str = "OPENAI"
    base_url: str = "https://api.openai.com/v1"

    def reply(self, content: bytes, questions: Sequence[NumberedQuestion]) -> DecisionReply:
        """Read the body of a response with status 200.

        Raises:
            NoCompletion: the body holds no answers. HttpStatusError: it is an error with a code or a status of its own,
            which says what it means.
        """
        payload = object_in(content, "answers")
        decisions = self.decisions(payload["answers"], questions)
        return DecisionReply(decisions, text(payload.get("model")), usage_of(payload.get("usage")))


def number_questions(groups: Sequence[QuestionGroup], material: Mapping[str, Json]) -> Sequence[NumberedQuestion]:
    """The questions of all groups, each with a name. A hash of the judged text draws the order of a choice's options.

    Models lean to the first option; so an option comes first for one subject and last for another, but always in the
    same place for one subject.
    """
    subject = hashlib.sha256(orjson.dumps(material, default=str, option=orjson.OPT_SORT_KEYS)).digest()
    pairs = [(group, question) for group in groups for question in group.questions]
    return [
        NumberedQuestion(f"q{number}", question, _order(question, subject), group.guide, len(group.questions) > 1)
        for number, (group, question) in enumerate(pairs, start=1)
    ]


def _order(question: TypedQuestion, subject: bytes) -> tuple[str, ...]:
    values = tuple(option.value for option in question.options)
    if not isinstance(question, ChoiceQuestion):
        return values
    place = orjson.dumps(question.place)
    return tuple(sorted(values, key=lambda value: hashlib.sha256(subject + place + value.encode()).digest()))


def is_predicate(numbered: NumberedQuestion) -> bool:
    """Whether a question is answered by yes or no."""
    return isinstance(numbered.question, PredicateQuestion)


def is_score(numbered: NumberedQuestion) -> bool:
    """Whether a question asks for a level of a scale."""
    chosen = isinstance(numbered.question, PredicateQuestion | ChoiceQuestion)
    return not chosen and len(numbered.order) <= MOST_SCORE_LEVELS


def of_predicate(numbered: NumberedQuestion, yes: Any, kept_mass: float | None = None) -> Decision:
    """The decision that the probability of yes makes."""
    share = probability(yes)
    return UNUSABLE if share is None else numbered.decision({"yes": share, "no": 1 - share}, kept_mass)
