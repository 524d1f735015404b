"""Ratio evaluators of conversations: every turn, or every extracted item, gets a verdict in one question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from evaluators.cases import Conversation, Json, Turn
from evaluators.evaluator import Evaluator
from evaluators.item_verdicts import VERDICT_PROMPTS, RatioSpec, extract_items, score_ratio
from evaluators.judge import Judge
from evaluators.results import Score
from evaluators.transcript import Transcript, TranscriptSettings, build_transcript


@dataclass(frozen=True, slots=True)
class ConversationRatioSpec:
    """What of a conversation gets a verdict, and how verdicts are counted.

    `name` begins the names of the prompt templates. With `extracted` the judge first takes the conversation apart into
    items; else each turn is an item, if it has all the fields of `judged`. `shown` are the turn's fields that the judge
    sees beside the usual input, output and error.
    """

    name: str
    ratio: RatioSpec
    extracts_items: bool = False
    required_fields: tuple[str, ...] = ()
    extra_fields: tuple[str, ...] = ()

    @property
    def prompts(self) -> tuple[str, ...]:
        """The names of the templates it uses."""
        items = (f"{self.name}_items.txt",) if self.extracts_items else ()
        return (*items, f"{self.name}_verdicts.txt", *VERDICT_PROMPTS)

    async def score(
        self,
        case: Conversation,
        judge: Judge,
        token_budget: int,
        *,
        companions: Mapping[str, Json] | None = None,
        values: Mapping[str, str] | None = None,
    ) -> Score:
        """The share of the items whose verdict counts.

        `beside` is shown with the turns; `values` fill placeholders of the template with text of the configuration.
        """
        transcript = build_transcript(case, self.extra_fields, token_budget)
        material: dict[str, Json] = {"turns": transcript.content, **(companions or {})}
        items = await self._items(transcript, material, judge)
        score = await score_ratio(judge, self.ratio, f"{self.name}_verdicts.txt", items, material, values)
        if not transcript.truncated:
            return score
        return replace(score, details={**score.details, "truncated": True, "turns_left_out": transcript.omitted})

    async def _items(self, transcript: Transcript, material: Mapping[str, Json], judge: Judge) -> Sequence[Json]:
        if self.extracts_items:
            return await extract_items(judge, f"{self.name}_items.txt", material)
        return [f"turn {number}" for number, turn, _ in transcript.turns if self._has(turn)]

    def _has(self, turn: Turn) -> bool:
        return turn.incomplete is None and all(getattr(turn, name) for name in self.required_fields)


class ConversationRatio(TranscriptSettings, Evaluator[Conversation]):
    """The share of a conversation's items whose verdict counts. A kind of it says which spec it makes."""

    scope: ClassVar = "conversation"
    spec: ClassVar[ConversationRatioSpec]

    @property
    def requires(self) -> frozenset[str]:
        """What the user and the application said."""
        return frozenset({"turns.input", "turns.actual_output"})

    async def evaluate(self, case: Conversation, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        return await self.spec.score(case, judge, self.token_budget)
