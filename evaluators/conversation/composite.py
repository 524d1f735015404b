"""One score of a conversation out of those of several evaluators."""

from __future__ import annotations

from typing import ClassVar

from evaluators.cases import Conversation, Scope
from evaluators.evaluator import Evaluator, Example
from evaluators.judge import Judge
from evaluators.mechanisms.composition import Composition
from evaluators.results import Score, Skipped


class ConversationalComposite(Composition, Evaluator[Conversation]):
    """One score of a conversation out of those of other evaluators: do all pass, does any, or their weighted mean.

    As `composite`, of conversations: its members score conversations, and `if` draws by the conversation's id.
    """

    kind: ClassVar[str] = "conversational_composite"
    scope: ClassVar[Scope] = "conversation"
    example: ClassVar[Example] = {
        "combine": "weighted",
        "of": {
            "cheap": {"kind": "task_cost", "max_tool_calls": 10, "threshold": 0.5},
            "calm": {"kind": "frustration", "threshold": 0.5},
        },
    }

    @property
    def requires(self) -> frozenset[str]:
        """The fields that every member needs."""
        return self.needed_fields

    @property
    def needs_writer(self) -> bool:
        """See `Evaluator.needs_writer`: whether a member does."""
        return any(evaluator.needs_writer for evaluator in self.of)

    @property
    def needs_judge(self) -> bool:  # type: ignore[override]  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether any member asks a judge."""
        return self.judged

    @property
    def templates(self) -> tuple[str, ...]:
        """Those of its members."""
        return tuple(name for evaluator in self.of for name in evaluator.templates)

    @property
    def version(self) -> str:
        """See `Evaluator.version`: it has those of its members in it."""
        return self.version_of(self.kind)

    async def evaluate(self, case: Conversation, judge: Judge) -> Score | Skipped:
        """See `Evaluator.evaluate`."""
        return await self.composed(self.name, case, judge)
