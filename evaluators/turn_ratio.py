"""Ratio evaluators of single turns: a text is taken apart into items, and every item gets a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from evaluators.cases import Json, Turn
from evaluators.evaluator import Evaluator
from evaluators.item_verdicts import VERDICT_PROMPTS, RatioSpec, extract_items, score_ratio
from evaluators.judge import Judge
from evaluators.judge_input import JudgeInput, build_judge_input
from evaluators.results import Score
from evaluators.trivial_answer import is_trivial_answer


@dataclass(frozen=True, slots=True)
class TurnRatioSpec:
    """Where the items come from, what they are judged with, and how they are counted.

    `name` begins the names of the prompt templates. `apart` are the turn's fields that the judge takes apart into
    items; or `listed` is a field that is a list of items already. `beside` are the fields shown with the items.
    """

    name: str
    ratio: RatioSpec
    extract_from: tuple[str, ...] = ()
    list_field: str | None = None
    companion_fields: tuple[str, ...] = ()

    @property
    def prompts(self) -> tuple[str, ...]:
        """The names of the templates it uses."""
        own = (
            (f"{self.name}_verdicts.txt",)
            if self.list_field
            else (f"{self.name}_items.txt", f"{self.name}_verdicts.txt")
        )
        return (*own, *VERDICT_PROMPTS)

    async def score(self, case: Turn, judge: Judge, ratio: RatioSpec | None = None) -> Score:
        """The share of the turn's items whose verdict counts; `share` replaces the usual counting."""
        source = build_judge_input(case, (self.list_field,) if self.list_field else self.extract_from)
        items = await self._items(source, judge)
        beside = build_judge_input(
            case, [name for name in self.companion_fields if getattr(case, name) not in (None, ())]
        )
        template = f"{self.name}_verdicts.txt"
        score = await score_ratio(judge, ratio or self.ratio, template, items, beside.content)
        if source.truncated or beside.truncated:
            return replace(score, details={**score.details, "truncated": True})
        return score

    async def _items(self, source: JudgeInput, judge: Judge) -> Sequence[Json]:
        if self.list_field is not None:
            items: Sequence[Json] = source.content[self.list_field]
            return items
        if all(isinstance(text, str) and is_trivial_answer(text) for text in source.content.values()):
            return ()
        material = {name: value for name, value in source.content.items() if value}
        return await extract_items(judge, f"{self.name}_items.txt", material)


class TurnRatio(Evaluator[Turn]):
    """The share of a turn's items whose verdict counts. A kind of it says which spec it makes."""

    spec: ClassVar[TurnRatioSpec]

    @property
    def requires(self) -> frozenset[str]:
        """What the judge is shown."""
        return frozenset(filter(None, (*self.spec.extract_from, self.spec.list_field, *self.spec.companion_fields)))

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        return await self.spec.score(case, judge)
