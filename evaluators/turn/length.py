"""Length of the answer."""

import re
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from evaluators.cases import Turn
from evaluators.evaluator import CodeEvaluator, Example
from evaluators.judge import Judge
from evaluators.results import Score

_UNSPACED = re.compile(
    "[\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]"
)
"""Chinese characters and Japanese kana, of scripts that put no space between words."""


class Length(CodeEvaluator[Turn]):
    """1 from the minimum to the maximum; outside it falls evenly, to 0 for no text and at twice the maximum.

    Words are what white space divides; each Chinese character and each Japanese kana is a word by itself. For Thai,
    Lao, Khmer and Burmese count characters.
    """

    kind: ClassVar[str] = "length"
    needed_fields: ClassVar[frozenset[str]] = frozenset({"actual_output"})
    example: ClassVar[Example] = {"maximum": 200}

    unit: Literal["words", "characters"] = "words"
    """The unit that is counted."""
    minimum: int = Field(default=0, ge=0)
    """The least that is right."""
    maximum: int | None = Field(default=None, ge=1)
    """The most that is right; no limit if left out."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.maximum is None and self.minimum == 0:
            raise ValueError("minimum and maximum: give at least one of them")
        if self.maximum is not None and self.maximum < self.minimum:
            raise ValueError("minimum and maximum: the maximum is below the minimum")
        return self

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        text = case.actual_output or ""
        length = _words(text) if self.unit == "words" else len(text)
        return Score(value=self._value(length), explanation=f"{length} {self.unit}", details={"length": length})

    def _value(self, length: int) -> float:
        if length < self.minimum:
            return length / self.minimum
        return max(0.0, 2.0 - length / self.maximum) if self.maximum is not None and length > self.maximum else 1.0


def _words(text: str) -> int:
    spaced, characters = _UNSPACED.subn(" ", text)
    return len(spaced.split()) + characters
