"""An evaluator of conversations that needs no judge."""

from __future__ import annotations

from typing import Any, ClassVar

from evaluators.cases import Conversation
from evaluators.evaluator import Evaluator
from evaluators.judge import Judge
from evaluators.results import Score


class Turns(Evaluator[Conversation]):
    kind: ClassVar[str] = "turns"
    scope: ClassVar[Any] = "conversation"
    needs_judge: ClassVar[bool] = False

    @property
    def requires(self) -> frozenset[str]:
        return frozenset()

    async def evaluate(self, case: Conversation, judge: Judge) -> Score:
        return Score(value=min(1.0, len(case.turns) / 10))
