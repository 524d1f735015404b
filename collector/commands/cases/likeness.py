"""Rules by which a case is nearly the same as an earlier one: its letters, or the vectors of a model of embeddings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from rapidfuzz import fuzz

from collector.commands.cases.selection import SelectedCase, question_of
from collector.errors import ConfigError
from collector.redact.redactor import RedactionFailed
from evaluators.cases import Conversation, Turn
from evaluators.embeddings import cosine, embed
from evaluators.errors import JudgeError
from evaluators.judge import Judge
from evaluators.prompts import load

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
