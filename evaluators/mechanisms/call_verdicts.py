"""Evaluators that give each tool call of a turn a verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from evaluators.asking.judge_input import (
    build_judge_input,
    is_missing,
    longest_field,
    shorten,
    shorten_all,
    size_of,
    to_json_value,
)
from evaluators.asking.windows import WindowSettings, split
from evaluators.cases import Json, ToolCall, Turn
from evaluators.evaluator import Evaluator
from evaluators.identity import turn_id_of
from evaluators.judge import Judge
from evaluators.mechanisms.item_verdicts import VERDICT_PROMPTS, ItemWindow, RatioSpec, VerdictSettings, score_ratio
from evaluators.results import Score


@dataclass(frozen=True, slots=True)
class CallVerdictSpec:
    """The template of the verdicts, how they count, and which fields of the turn the judge sees beside the calls."""

    template: str
    ratio: RatioSpec
    fields: tuple[str, ...]

    @property
    def prompts(self) -> tuple[str, ...]:
        """The names of the templates it uses."""
        return (self.template, *VERDICT_PROMPTS)

    async def score(
        self,
        case: Turn,
        judge: Judge,
        settings: WindowSettings,
        items: Sequence[Json],
        *,
        weigh: bool,
        companions: Mapping[str, Json] | None = None,
    ) -> Score:
        """The share of the items whose verdict counts; `companions` are shown beside the fields."""
        fields = [name for name in self.fields if not is_missing(case, name)]
        material = build_judge_input(case, fields, settings.longest_text)
        beside = shorten_all(companions or {}, settings.longest_text)
        visible = [shorten(item, settings.longest_text) for item in items]
        windows = [
            ItemWindow(
                items=visible[run.start : run.stop],
                materials=({**material.content, **beside.content},),
                truncated=material.truncated or beside.truncated or visible != list(items),
            )
            for run in split([size_of(item) for item in visible], longest_field(settings.longest_text))
        ]
        return await score_ratio(
            judge,
            self.ratio,
            self.template,
            windows,
            max_windows=settings.max_windows,
            seed=turn_id_of(case),
            weigh=weigh,
        )


def call_item(number: int, call: ToolCall) -> Mapping[str, Json]:
    """A call as an item: its number in the turn, the tool and the arguments."""
    return {"call": number, "tool": call.name, "arguments": to_json_value(call.arguments)}


class CallVerdicts(VerdictSettings, WindowSettings, Evaluator[Turn]):
    """The share of a turn's tool calls whose verdict counts. A kind of it says which spec it makes."""

    spec: ClassVar[CallVerdictSpec]

    def items(self, case: Turn) -> Sequence[Json]:
        """The items that get a verdict: every call."""
        return [dict(call_item(number, call)) for number, call in enumerate(case.tools_called, start=1)]

    def companions(self, case: Turn) -> Mapping[str, Json]:  # noqa: ARG002 - for kinds that show more
        """The material that the judge is shown beside the fields of the spec."""
        return {}

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        weigh = self.verdicts == "probabilities"
        items, companions = self.items(case), self.companions(case)
        return await self.spec.score(case, judge, self, items, weigh=weigh, companions=companions)
