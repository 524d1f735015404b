"""Taking a turn's texts apart and judging the parts: what all ratio evaluators of single turns do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from evaluators.cases import Json, Turn
from evaluators.evaluator import Evaluator
from evaluators.judge import Judge
from evaluators.material import Material, material_of
from evaluators.outcome import Score
from evaluators.verdicts import VERDICT_PROMPTS, Share, extract, share_of
from evaluators.wordless import wordless


@dataclass(frozen=True, slots=True)
class Inquiry:
    """Where the items come from, what they are judged with, and how they are counted.

    `name` begins the names of the prompt templates. `apart` are the turn's fields that the judge takes apart into
    items; or `listed` is a field that is a list of items already. `beside` are the fields shown with the items.
    """

    name: str
    share: Share
    apart: tuple[str, ...] = ()
    listed: str | None = None
    beside: tuple[str, ...] = ()

    @property
    def prompts(self) -> tuple[str, ...]:
        """The names of the templates it uses."""
        own = (f"{self.name}_verdicts.txt",) if self.listed else (f"{self.name}_items.txt", f"{self.name}_verdicts.txt")
        return (*own, *VERDICT_PROMPTS)

    async def score(self, case: Turn, judge: Judge, share: Share | None = None) -> Score:
        """The share of the turn's items whose verdict counts; `share` replaces the usual counting."""
        source = material_of(case, (self.listed,) if self.listed else self.apart)
        items = await self._items(source, judge)
        beside = material_of(case, [name for name in self.beside if getattr(case, name) not in (None, ())])
        template = f"{self.name}_verdicts.txt"
        score = await share_of(judge, share or self.share, template, items, beside.content)
        if source.truncated or beside.truncated:
            return replace(score, details={**score.details, "truncated": True})
        return score

    async def _items(self, source: Material, judge: Judge) -> Sequence[Json]:
        if self.listed is not None:
            items: Sequence[Json] = source.content[self.listed]
            return items
        if all(isinstance(text, str) and wordless(text) for text in source.content.values()):
            return ()
        shown = {name: value for name, value in source.content.items() if value}
        return await extract(judge, f"{self.name}_items.txt", shown)


class TurnRatio(Evaluator[Turn]):
    """The share of a turn's items whose verdict counts. A kind of it says which inquiry it makes."""

    inquiry: ClassVar[Inquiry]

    @property
    def requires(self) -> frozenset[str]:
        """What the judge is shown."""
        return frozenset(filter(None, (*self.inquiry.apart, self.inquiry.listed, *self.inquiry.beside)))

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        return await self.inquiry.score(case, judge)
