"""Labelled subjects: which labels contradict each other, and which subjects train and which are held out. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from rapidfuzz import fuzz

from evaluators.asking.judge_input import is_missing, to_json_value
from evaluators.cases import Conversation, Json, Turn
from evaluators.evaluator import Evaluator
from evaluators.identity import subject_id_of
from evaluators.texts.draw import draw

NEARLY = 90.0
"""Per cent of the characters of every field from which two subjects are nearly the same, as rapidfuzz has it."""
FEWEST = 5
"""Conversations that people pass, and that they fail, which both parts must have."""
_COMPARED = 2_000
_OF_A_TURN = ("input", "actual_output")


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledSubject:
    """A turn or conversation with people's verdict on it.

    `name` is what a report calls the label: its line, or the evaluation's id. `material` is what the evaluator sees of
    the case. `weight` is what it stands for in the traffic, if it was drawn `at_random` rather than picked by somebody.
    """

    name: str
    case: Turn | Conversation
    conversation: str
    material: Mapping[str, Json]
    passes: bool
    weight: float = 1.0
    at_random: bool = False
    notes: tuple[str, ...] = ()

    @property
    def content(self) -> tuple[str, ...]:
        """The texts of what is shown, without capitals and white space; the subject's id where nothing is shown."""
        texts = tuple(" ".join(_text(self.material[name]).casefold().split()) for name in sorted(self.material))
        return texts if any(texts) else subject_id_of(self.case)


def material_of(case: Turn | Conversation, evaluator: Evaluator[Any]) -> dict[str, Json]:
    """The part of a case that an evaluator sees, as far as it is there; of a conversation, its messages."""
    if isinstance(case, Conversation):
        return {"turns": [_fields(turn, _OF_A_TURN) for turn in case.turns]}
    return _fields(case, sorted(name for name in evaluator.requires if hasattr(case, name)))


def _fields(turn: Turn, names: Iterable[str]) -> dict[str, Json]:
    return {name: to_json_value(getattr(turn, name)) for name in names if not is_missing(turn, name)}


def _text(value: Json) -> str:
    return value if isinstance(value, str) else orjson.dumps(value, default=str).decode()


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Labels of the `same` or nearly the same subject, of which some pass it and some fail it."""

    passing: tuple[str, ...]
    failing: tuple[str, ...]
    same: bool


@dataclass(frozen=True, slots=True)
class Consistent:
    """Each subject once, by the verdict of most, and the contradictions."""

    subjects: tuple[LabelledSubject, ...]
    contradictions: tuple[Contradiction, ...]


def consistent(labels: Sequence[LabelledSubject]) -> Consistent:
    """The labels without those that a majority, or a tie, contradicts; of nearly the same subjects both stay.

    A small difference may be the one that matters, so what is only nearly the same is reported, and used.
    """
    groups: dict[tuple[str, ...], list[LabelledSubject]] = {}
    for subject in labels:
        groups.setdefault(subject.content, []).append(subject)
    same = [each for group in groups.values() if (each := _contradiction(group, same=True)) is not None]
    subjects = [subject for group in groups.values() for subject in _by_most(group)]
    near = [Contradiction((one.name,), (other.name,), same=False) for one, other in _near_opposites(subjects)]
    return Consistent(tuple(subjects), (*same, *near))


def _contradiction(group: Sequence[LabelledSubject], *, same: bool) -> Contradiction | None:
    passing, failing = (
        tuple(subject.name for subject in group if subject.passes is passes) for passes in (True, False)
    )
    return Contradiction(passing, failing, same) if passing and failing else None


def _by_most(group: Sequence[LabelledSubject]) -> Iterator[LabelledSubject]:
    """The labels of the majority, one for each subject; none if there is no majority."""
    balance = sum(1 if subject.passes else -1 for subject in group)
    if not balance:
        return
    subjects: dict[tuple[str, str], LabelledSubject] = {}
    for subject in group:
        if subject.passes is (balance > 0):
            subjects.setdefault(subject_id_of(subject.case), subject)
    yield from subjects.values()


def _near_opposites(subjects: Sequence[LabelledSubject]) -> Iterator[tuple[LabelledSubject, LabelledSubject]]:
    """Each subject that people pass with the first that they fail though it is nearly the same."""
    passing, failing = (
        [(subject, [text[:_COMPARED] for text in subject.content]) for subject in subjects if subject.passes is passes]
        for passes in (True, False)
    )
    for one, texts in passing:
        near = next((other for other, others in failing if _are_near(texts, others)), None)
        if near is not None:
            yield one, near


def _are_near(texts: Sequence[str], others: Sequence[str]) -> bool:
    return len(texts) == len(others) and all(
        fuzz.ratio(text, other, score_cutoff=NEARLY) for text, other in zip(texts, others, strict=True)
    )


@dataclass(frozen=True, slots=True)
class Parts:
    """The subjects that train and those that are held out. `at_random` says that the latter were drawn at random."""

    training: tuple[LabelledSubject, ...]
    holdout: tuple[LabelledSubject, ...]
    at_random: bool


def split(subjects: Sequence[LabelledSubject], share: float) -> Parts:
    """The two parts: a conversation is held out by a hash of its id, with those that have a text in common with it.

    Where enough of the held out were drawn at random, the others train: what somebody picked says nothing about the
    traffic. Else all count alike, and what is gained is gained among labels like these.
    """
    groups = _groups(subjects)
    is_holdout = {group: draw(f"align\x1f{group}", algorithm="sha256") < share for group in set(groups.values())}
    holdout = [subject for subject in subjects if is_holdout[groups[subject.conversation]]]
    random = [subject for subject in holdout if subject.at_random]
    if shortage(random) is None:
        tested = {groups[subject.conversation] for subject in random}
        training = [subject for subject in subjects if groups[subject.conversation] not in tested]
        return Parts(tuple(training), tuple(random), at_random=True)
    training = [subject for subject in subjects if not is_holdout[groups[subject.conversation]]]
    return Parts(tuple(training), tuple(holdout), at_random=False)


def _groups(subjects: Sequence[LabelledSubject]) -> dict[str, str]:
    """The group of each conversation, by the least id in it: those that share a text are together."""
    leaders: dict[str, str] = {}

    def leader(name: str) -> str:
        while (above := leaders.setdefault(name, name)) != name:
            leaders[name] = leaders.setdefault(above, above)
            name = above
        return name

    first: dict[tuple[str, ...], str] = {}
    for subject in subjects:
        one, other = leader(subject.conversation), leader(first.setdefault(subject.content, subject.conversation))
        leaders[max(one, other)] = min(one, other)
    return {subject.conversation: leader(subject.conversation) for subject in subjects}


def shortage(part: Sequence[LabelledSubject]) -> str | None:
    """The kind of case that a part has too few of; None if it has enough."""
    for passes, word in ((True, "pass"), (False, "fail")):
        count = len({subject.conversation for subject in part if subject.passes is passes})
        if count < FEWEST:
            return f"{count} that people {word}"
    return None
