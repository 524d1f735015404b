"""The choice of cases out of past evaluations. No I/O.

Rules by which a case is nearly the same as an earlier one: its letters, or the vectors of a model of embeddings.
"""

import hashlib
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from rapidfuzz import fuzz

from collector.errors import ConfigError
from collector.redact.redactor import RedactionFailed
from evaluators.cases import Conversation, Turn
from evaluators.embeddings import cosine, embed
from evaluators.errors import JudgeError
from evaluators.judge import Judge
from evaluators.prompts import load
from evaluators.results import Evaluation, Label

Which = Literal["failed", "low", "disagreed", "sampled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedCase:
    """A turn or a conversation, the evaluations of it, people's labels of these, and why it was chosen.

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
"""Per cent of the characters of two questions from which they count as one (Indel similarity, as rapidfuzz has it)."""
SAME_MEANING = 0.96
"""The cosine from which they do, by default: of multilingual-e5-small, measured on 20 pairs (deploy/docs)."""
_COMPARED = 2_000


class Likeness(Protocol):
    """Compares each case with all those before it that were none."""

    async def repeats(self, each: SelectedCase) -> bool:
        """Whether a case is nearly the same as one before it; if not, those after it are compared with it, too."""
        ...


class LikeLetters:
    """By the letters of the questions."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    async def repeats(self, each: SelectedCase) -> bool:
        """See `Likeness`."""
        text = question_of(each.case)[:_COMPARED]
        if any(fuzz.ratio(text, other, score_cutoff=SAME_LETTERS) for other in self._texts):
            return True
        self._texts.append(text)
        return False


class LikeVectors:
    """By the letters, and by the vectors of the questions: the same asked in other words.

    `least` is the cosine from which two are the same. `redacted` gives a case as a judge may see it.
    """

    def __init__(
        self, judge: Judge, least: float, redacted: Callable[[Turn | Conversation], Turn | Conversation]
    ) -> None:
        self._judge = judge
        self._least = least
        self._redacted = redacted
        self._letters = LikeLetters()
        self._vectors: list[list[float]] = []

    async def repeats(self, each: SelectedCase) -> bool:
        """See `Likeness`.

        Raises:
            ConfigError: the model did not answer, or a question could not be redacted.
        """
        if await self._letters.repeats(each):
            return True
        try:
            text = question_of(self._redacted(each.case))[:_COMPARED]
            if not text.strip():
                return False
            [vector], _ = await embed(self._judge, load("similarity.txt"), [text], "query", "query")
            if any(cosine(vector, other) >= self._least for other in self._vectors):
                return True
        except (JudgeError, RedactionFailed) as error:
            raise ConfigError(f"--alike-by: no vector of a question: {error}; leave the option out") from error
        self._vectors.append(vector)
        return False
