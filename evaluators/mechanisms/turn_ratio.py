"""Ratio evaluators of single turns: a text is taken apart into items, and every item gets a verdict.

There are also evaluators of turns whose score combines two shares, like precision and recall.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from evaluators.answers.trivial_answer import is_trivial_answer
from evaluators.asking.judge_input import build_judge_input, cut, longest_field, shorten, size_of, split_text
from evaluators.asking.reading import read_further
from evaluators.asking.windows import WindowSettings, draw_windows, split, split_evenly
from evaluators.cases import Json, Turn
from evaluators.evaluator import Evaluator
from evaluators.identity import turn_id_of
from evaluators.judge import Judge
from evaluators.mechanisms import item_verdicts
from evaluators.mechanisms.item_verdicts import VerdictSettings
from evaluators.prompts import fill, load
from evaluators.results import Score


@dataclass(frozen=True, slots=True)
class TurnRatioSpec:
    """The source of the items, the fields that they are judged with, and how they are counted.

    `name` begins the names of the prompt templates. `extract_from` are the turn's fields that the judge takes apart
    into items, with `extract_beside` in view; or `list_field` is a list of items already. `companion_fields` are shown
    with the items.
    """

    name: str
    ratio: item_verdicts.RatioSpec
    extract_from: tuple[str, ...] = ()
    extract_beside: tuple[str, ...] = ()
    list_field: str | None = None
    companion_fields: tuple[str, ...] = ()

    @property
    def prompts(self) -> tuple[str, ...]:
        """The names of the templates it uses."""
        items = () if self.list_field else (f"{self.name}_items.txt",)
        return (*items, f"{self.name}_verdicts.txt", *item_verdicts.VERDICT_PROMPTS)

    @property
    def needed_fields(self) -> frozenset[str]:
        """The material that the judge is shown."""
        return frozenset(filter(None, (*self.extract_from, self.list_field, *self.companion_fields)))

    async def score(
        self,
        case: Turn,
        judge: Judge,
        settings: WindowSettings,
        ratio: item_verdicts.RatioSpec | None = None,
        sources: Mapping[str, Sequence[Json]] | None = None,
    ) -> Score:
        """The share of the turn's items whose verdict counts; `ratio` replaces the usual counting.

        `sources` are lists that are shown with the items, like the companion fields; if they are too long for one
        question, each part is a question, and the most decisive answer counts.
        """
        longest = settings.longest_text
        items, cut_items, read = await self._items(case, judge, settings)
        named = [name for name in self.companion_fields if getattr(case, name) not in (None, ())]
        beside = build_judge_input(case, named, longest)
        template = f"{self.name}_verdicts.txt"
        if items:
            beside = await read_further(settings, judge, fill(load(template), {"form": ""}), beside, items)
        parts, cut_parts, lost_parts = _parts(sources or {}, settings)
        windows = [
            item_verdicts.ItemWindow(
                items=items[run.start : run.stop],
                materials=[{**beside.content, **part} for part in parts],
                truncated=cut_items or cut_parts or beside.truncated,
                partial=lost_parts or beside.is_part,
            )
            for run in split([size_of(item) for item in items], longest_field(longest))
        ]
        score = await item_verdicts.score_ratio(
            judge,
            ratio or self.ratio,
            template,
            windows,
            max_windows=max(1, settings.max_windows // len(parts)),
            seed=turn_id_of(case),
            weigh=isinstance(settings, item_verdicts.VerdictSettings) and settings.verdicts == "probabilities",
        )
        return replace(score, details={**score.details, **read, **beside.notes})

    async def _items(
        self, case: Turn, judge: Judge, settings: WindowSettings
    ) -> tuple[Sequence[Json], bool, Mapping[str, Json]]:
        """The items, whether something was left out for its length, and how much was read, if not all in one question.

        A long text is taken apart piece by piece, one question for each: at most as many as the permitted windows, else
        a random sample. The fields beside it are shortened.
        """
        longest = settings.longest_text
        if self.list_field is not None:
            texts: Sequence[str] = getattr(case, self.list_field)
            visible = [cut(text, longest) for text in texts]
            return visible, visible != list(texts), {}
        source = build_judge_input(case, (*self.extract_from, *self.extract_beside), longest)
        texts = [source.content[name] for name in self.extract_from]
        if all(isinstance(text, str) and is_trivial_answer(text) for text in texts):
            return (), False, {}
        material = {name: value for name, value in source.content.items() if value}
        name = self.extract_from[0]
        pieces = split_text(getattr(case, name) or "", longest)
        if len(pieces) == 1:
            items = await item_verdicts.extract_items(judge, f"{self.name}_items.txt", material)
            return items, source.truncated, {}
        sample = draw_windows([1] * len(pieces), settings.max_windows, turn_id_of(case))
        items = [
            item
            for at in sample.judged
            for item in await item_verdicts.extract_items(
                judge, f"{self.name}_items.txt", {**material, name: pieces[at]}
            )
        ]
        beside = build_judge_input(case, [field for field in source.content if field != name], longest)
        read: dict[str, Json] = {"pieces": {"of": len(pieces), "read": len(sample.judged)}}
        return tuple(dict.fromkeys(items)), beside.truncated or not sample.complete, read


def _parts(
    sources: Mapping[str, Sequence[Json]], settings: WindowSettings
) -> tuple[Sequence[Mapping[str, Json]], bool, bool]:
    """The sources in parts that fit into one question each, whether something was left out, and whole sources."""
    pieces = [(name, value) for name, values in sources.items() for value in values]
    visible = [(name, shorten(value, settings.longest_text)) for name, value in pieces]
    if not visible:
        return [{}], False, False
    runs = split_evenly(
        [size_of(value) for _, value in visible], longest_field(settings.longest_text), most=len(visible)
    )
    parts: list[dict[str, Json]] = []
    for run in runs[: settings.max_windows]:
        part: dict[str, list[Json]] = {}
        for name, value in visible[run.start : run.stop]:
            part.setdefault(name, []).append(value)
        parts.append({**part})
    lost = len(runs) > len(parts)
    return parts, lost or visible != pieces, lost


class TurnRatio(item_verdicts.VerdictSettings, WindowSettings, Evaluator[Turn]):
    """The share of a turn's items whose verdict counts. A kind of it says which spec it makes."""

    spec: ClassVar[TurnRatioSpec]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "needed_fields" not in vars(cls):
            cls.needed_fields = cls.spec.needed_fields

    @property
    def rounds(self) -> int:
        """One to take the text apart, unless it is a list already, and one for the verdicts."""
        return 1 if self.spec.list_field else 2

    @property
    def needs_writer(self) -> bool:
        """See `Evaluator.needs_writer`: the items, unless they are a list already."""
        return self.spec.list_field is None

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        return await self.spec.score(case, judge, self)


class TwoRatios(VerdictSettings, WindowSettings, Evaluator[Turn]):
    """Two shares of one turn, each with the items of a spec, and a score that is made of them."""

    first: ClassVar[TurnRatioSpec]
    second: ClassVar[TurnRatioSpec]
    trivial_without: ClassVar[str | None] = "actual_output"

    @property
    def rounds(self) -> int:
        """For each share, one to take a text apart and one for the verdicts."""
        return 4

    @property
    def needs_writer(self) -> bool:
        """See `Evaluator.needs_writer`: the items."""
        return True

    def combine(self, value: float, shares: Mapping[str, Score]) -> Score:
        """The score, with both shares and their items in its details."""
        details: dict[str, Json] = {name: {"share": share.value, **share.details} for name, share in shares.items()}
        if any(share.details.get("truncated") for share in shares.values()):
            details["truncated"] = True
        explanation = " ".join(f"{name}: {share.explanation}" for name, share in shares.items())
        return Score(value=value, explanation=explanation, details=details, method=next(iter(shares.values())).method)
