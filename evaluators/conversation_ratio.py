"""Ratio evaluators of conversations: every turn, or every extracted item, gets a verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from evaluators.cases import Conversation, Json, Turn
from evaluators.errors import NotApplicable
from evaluators.evaluator import Evaluator
from evaluators.identity import conversation_id_of
from evaluators.item_verdicts import VERDICT_PROMPTS, ItemWindow, RatioSpec, extract_items, score_ratio
from evaluators.judge import Judge
from evaluators.results import Score
from evaluators.transcript import ConversationSettings, Transcript, build_transcript, build_windows
from evaluators.windows import split


@dataclass(frozen=True, slots=True)
class ConversationRatioSpec:
    """What of a conversation gets a verdict, and how verdicts are counted.

    `name` begins the names of the prompt templates. With `extracted` the judge first takes the conversation apart into
    items; else each turn is an item, if it has all the fields of `judged`. `shown` are the turn's fields that the judge
    sees beside the usual input, output and error. Of a conversation that is too long for one question, it sees with the
    turns to judge those before them, at most `lookback`.
    """

    name: str
    ratio: RatioSpec
    extracts_items: bool = False
    required_fields: tuple[str, ...] = ()
    extra_fields: tuple[str, ...] = ()
    lookback: int | None = 10

    @property
    def prompts(self) -> tuple[str, ...]:
        """The names of the templates it uses."""
        items = (f"{self.name}_items.txt",) if self.extracts_items else ()
        return (*items, f"{self.name}_verdicts.txt", *VERDICT_PROMPTS)

    async def score(
        self,
        case: Conversation,
        judge: Judge,
        settings: ConversationSettings,
        *,
        companions: Mapping[str, Json] | None = None,
        values: Mapping[str, str] | None = None,
    ) -> Score:
        """The share of the items whose verdict counts.

        `companions` are shown with the turns; `values` fill placeholders of the template with the configuration's text.
        """
        if self.extracts_items:
            transcript = build_transcript(case, self.extra_fields, settings)
            windows = await self._extracted(_window(transcript, companions or {}), judge)
        else:
            transcripts = build_windows(case, self.extra_fields, settings, self._has, self.lookback)
            windows = [_window(each, companions or {}) for each in transcripts]
            transcript = transcripts[0]
            if not transcript.judged:
                raise NotApplicable(f"missing_field: {', '.join(f'turns.{name}' for name in self.required_fields)}")
        score = await score_ratio(
            judge,
            self.ratio,
            f"{self.name}_verdicts.txt",
            windows,
            values,
            max_windows=settings.max_windows,
            seed=conversation_id_of(case),
        )
        if not self.extracts_items or not transcript.omitted:
            return score
        return replace(score, details={**score.details, "turns_left_out": transcript.omitted})

    async def _extracted(self, whole: ItemWindow, judge: Judge) -> Sequence[ItemWindow]:
        [material] = whole.materials
        items = await extract_items(judge, f"{self.name}_items.txt", material)
        runs = split([0] * len(items), 0)
        return [replace(whole, items=items[run.start : run.stop]) for run in runs]

    def _has(self, turn: Turn) -> bool:
        return turn.incomplete is None and all(getattr(turn, name) for name in self.required_fields)


def _window(transcript: Transcript, companions: Mapping[str, Json]) -> ItemWindow:
    return ItemWindow(
        items=[f"turn {number}" for number in transcript.judged],
        materials=({"turns": transcript.content, **companions},),
        truncated=transcript.truncated,
    )


class ConversationRatio(ConversationSettings, Evaluator[Conversation]):
    """The share of a conversation's items whose verdict counts. A kind of it says which spec it makes."""

    scope: ClassVar = "conversation"
    spec: ClassVar[ConversationRatioSpec]

    @property
    def requires(self) -> frozenset[str]:
        """What the user and the application said."""
        return frozenset({"turns.input", "turns.actual_output"})

    async def evaluate(self, case: Conversation, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        return await self.spec.score(case, judge, self)
