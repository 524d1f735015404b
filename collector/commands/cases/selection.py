"""The choice of cases out of past evaluations. No I/O.

A case is nearly the same as an earlier one by the letters of its question.
"""

import hashlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from rapidfuzz import fuzz

from evaluators.cases import Conversation, Turn
from evaluators.results import Evaluation, Label

Which = Literal["failed", "low", "disagreed", "sampled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedCase:
    """A turn or a conversation with its evaluations, people's labels of them, and the reason why it was chosen.

    `probability` is the one with which sampling let it be judged; 1 / it is its weight.
    """

    case: Turn | Conversation
    evaluations: tuple[Evaluation, ...]
    labels: tuple[Label, ...]
    which: Which
    probability: float


def candidates(
    evaluations: Iterable[Evaluation],
    labels: Iterable[Label],
    which: Which,
    *,
    below: float | None,
    lower_is_better: Collection[str] = (),
) -> list[Evaluation]:
    """The evaluations that make a case, best first: the worst where low ones are meant, else in the order of a hash.

    `below` is the score under which one is low; without it, what fails its threshold.
    """
    scored = [evaluation for evaluation in evaluations if evaluation.score is not None]
    match which:
        case "failed":
            chosen = [evaluation for evaluation in scored if evaluation.passed is False]
        case "low":
            limit = below if below is not None else 0.5
            chosen = [evaluation for evaluation in scored if _badness(evaluation, lower_is_better) > 1.0 - limit]
            return sorted(chosen, key=lambda each: (-_badness(each, lower_is_better), _hash(each)))
        case "disagreed":
            contradicted = {label.evaluation_id for label in labels if _contradicts(label)}
            chosen = [evaluation for evaluation in scored if evaluation.evaluation_id in contradicted]
        case "sampled":
            chosen = scored
    return sorted(chosen, key=_hash)


def question_of(case: Turn | Conversation) -> str:
    """The text by which cases are compared: the question, or all questions of a conversation."""
    turns: Sequence[Turn] = (case,) if isinstance(case, Turn) else case.turns
    return "\n".join(" ".join((turn.input or "").lower().split()) for turn in turns)


def _badness(evaluation: Evaluation, lower_is_better: Collection[str]) -> float:
    score = evaluation.score or 0.0
    return score if evaluation.evaluator in lower_is_better else 1.0 - score


def _contradicts(label: Label) -> bool:
    if label.opinion is not None:
        return label.opinion == "disagree"
    return label.score is not None and label.judge_score is not None and abs(label.score - label.judge_score) >= 0.5


def _hash(evaluation: Evaluation) -> bytes:
    return hashlib.sha256(evaluation.evaluation_id.encode()).digest()


SAME_LETTERS = 90.0
"""Two questions count as one if at least this per cent of their characters agree (Indel similarity in rapidfuzz)."""
_COMPARED = 2_000


def diverse(cases: Iterable[SelectedCase], most: int) -> tuple[list[SelectedCase], int]:
    """At most so many cases whose questions differ, and how many were left out as near-duplicates of one before."""
    chosen: list[SelectedCase] = []
    texts: list[str] = []
    duplicates = 0
    for case in cases:
        if len(chosen) >= most:
            break
        text = question_of(case.case)[:_COMPARED]
        if any(fuzz.ratio(text, other, score_cutoff=SAME_LETTERS) for other in texts):
            duplicates += 1
        else:
            chosen.append(case)
            texts.append(text)
    return chosen, duplicates
