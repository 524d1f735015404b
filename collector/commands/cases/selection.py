"""The choice of cases out of past evaluations. No I/O.

A case is nearly the same as an earlier one by the letters of its question.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from rapidfuzz import fuzz

from collector.calibration.page_labels import human_of
from collector.statistics.agreement import MIDDLE, ScoreScale
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
    labels: Mapping[str, Sequence[Label]],
    which: Which,
    *,
    below: float | None,
    scales: Mapping[str, ScoreScale],
) -> list[Evaluation]:
    """The evaluations that make a case, best first: the worst where low ones are meant, else in the order of a hash.

    `labels` are those of each evaluation's answer, by the evaluation's id. `below` is the score under which one is low;
    without it, 0.5. `scales` are those of evaluators, by name.
    """
    scored = [evaluation for evaluation in evaluations if evaluation.score is not None]
    match which:
        case "failed":
            chosen = [evaluation for evaluation in scored if evaluation.passed is False]
        case "low":
            limit = below if below is not None else 0.5
            chosen = [evaluation for evaluation in scored if _badness(evaluation, scales) > 1.0 - limit]
            return sorted(chosen, key=lambda each: (-_badness(each, scales), _hash(each)))
        case "disagreed":
            chosen = [
                evaluation for evaluation in scored
                if _contradict(labels.get(evaluation.evaluation_id, ()), evaluation, scales)
            ]  # fmt: skip
        case "sampled":
            chosen = scored
    return sorted(chosen, key=_hash)


def question_of(case: Turn | Conversation) -> str:
    """The text by which cases are compared: the question, or all questions of a conversation."""
    turns: Sequence[Turn] = (case,) if isinstance(case, Turn) else case.turns
    return "\n".join(" ".join((turn.input or "").lower().split()) for turn in turns)


def _badness(evaluation: Evaluation, scales: Mapping[str, ScoreScale]) -> float:
    score = evaluation.score or 0.0
    return score if _scale(evaluation, scales).lower_is_better else 1.0 - score


def _scale(evaluation: Evaluation, scales: Mapping[str, ScoreScale]) -> ScoreScale:
    # the verdict of an evaluator that is not configured any more stays
    return scales.get(evaluation.evaluator, ScoreScale(by_label=True))


def _contradict(labels: Sequence[Label], evaluation: Evaluation, scales: Mapping[str, ScoreScale]) -> bool:
    """Whether people's verdict on the answer differs from that of the score by the threshold of now, as in `calibrate`:
    that of their mean, and a tie is none. To disagree with a score that had no verdict is to contradict this score
    alone.
    """
    scale = _scale(evaluation, scales)
    people = [human_of(label, lower_is_better=scale.lower_is_better) for label in labels]
    if known := [human for human in people if human is not None]:
        human, passed = fmean(known), evaluation.passed
        decides = scale.decides(passed) and not (len(known) > 1 and human == MIDDLE)
        return decides and scale.is_bad(human) != scale.fails(evaluation.score or 0.0, passed)
    return any(
        label.opinion == "disagree" and label.evaluation_id == evaluation.evaluation_id
        for label in labels
        if label.state != "retracted" and label.judge_passed is None
    )


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
