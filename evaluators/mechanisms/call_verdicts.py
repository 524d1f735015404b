"""Evaluators that give each tool call of a turn a verdict."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

from evaluators.asking import judge_input
from evaluators.asking.reading import read_further
from evaluators.asking.windows import WindowSettings, split
from evaluators.cases import Json, ToolCall, Turn
from evaluators.evaluator import Evaluator
from evaluators.identity import turn_id_of
from evaluators.judge import Judge
from evaluators.mechanisms.item_verdicts import VERDICT_PROMPTS, ItemWindow, RatioSpec, VerdictSettings, score_ratio
from evaluators.prompts import fill, load
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
        longest = settings.longest_text
        fields = [name for name in self.fields if not judge_input.is_missing(case, name)]
        run_of_calls = CallRun(
            [judge_input.shorten(judge_input.to_json_value(call), longest) for call in case.tools_called],
            judge_input.longest_field(longest),
        )
        is_long = "tools_called" in fields and not run_of_calls.fits
        material = judge_input.build_judge_input(case, fields, longest)
        if is_long:
            material = await read_further(settings, judge, fill(load(self.template), {"form": ""}), material, items)
        is_around = is_long and "reading" not in material.notes
        beside = judge_input.shorten_all(companions or {}, longest)
        visible = [judge_input.shorten(item, longest) for item in items]
        sizes = [judge_input.size_of(item) + (run_of_calls.size_of(item) if is_around else 0) for item in visible]
        windows = [
            ItemWindow(
                items=visible[run.start : run.stop],
                materials=(
                    {
                        **material.content,
                        **(run_of_calls.around(visible[run.start : run.stop]) if is_around else {}),
                        **beside.content,
                    },
                ),
                truncated=is_long or material.truncated or beside.truncated or visible != list(items),
                partial=is_long,
            )
            for run in split(sizes, judge_input.longest_field(longest) // (2 if is_around else 1))
        ]
        score = await score_ratio(
            judge,
            self.ratio,
            self.template,
            windows,
            max_windows=settings.max_windows,
            seed=turn_id_of(case),
            weigh=weigh,
        )
        return replace(score, details={**score.details, **material.notes})


@dataclass(frozen=True, slots=True)
class CallRun:
    """The calls of a run, numbered from 1, of which a question shows at most `longest` characters."""

    calls: Sequence[Json]
    longest: int

    @property
    def fits(self) -> bool:
        """Whether one question can show all of them."""
        return sum(map(judge_input.size_of, self.calls)) <= self.longest

    def size_of(self, item: Json) -> int:
        """Characters of the call that an item is about; 0 if it is about none."""
        number = _number_of(item)
        return judge_input.size_of(self.calls[number - 1]) if number else 0

    def around(self, items: Sequence[Json]) -> Mapping[str, Json]:
        """The calls that the items are about, then as many of those before and after them as fit, the nearest first.

        `calls_by_tool` counts all calls, so that a judge can tell a tool that was never called.
        """
        own = [number for item in items if (number := _number_of(item))] or [len(self.calls)]
        chosen = set(own)
        room = self.longest - sum(judge_input.size_of(self.calls[number - 1]) for number in chosen)
        for number in (*range(max(own), min(own), -1), *range(min(own), 0, -1), *range(max(own), len(self.calls) + 1)):
            size = judge_input.size_of(self.calls[number - 1])
            if number not in chosen and size <= room:
                chosen.add(number)
                room -= size
        listed: list[Json] = []
        before = 0
        for number in (*sorted(chosen), len(self.calls) + 1):
            if number - before > 1:
                listed.append(f"[… {number - before - 1} calls left out …]")
            if number <= len(self.calls):
                listed.append({"call": number, **_as_object(self.calls[number - 1])})
            before = number
        counts = Counter(str(_as_object(call).get("name")) for call in self.calls)
        return {"tools_called": listed, "calls_by_tool": dict(counts)}


def _number_of(item: Json) -> int:
    number = cast("Mapping[str, Json]", item).get("call") if isinstance(item, Mapping) else None
    return number if isinstance(number, int) else 0


def _as_object(call: Json) -> Mapping[str, Json]:
    return cast("Mapping[str, Json]", call) if isinstance(call, Mapping) else {}


def call_item(number: int, call: ToolCall) -> Mapping[str, Json]:
    """A call as an item: its number in the turn, the tool and the arguments."""
    return {"call": number, "tool": call.name, "arguments": judge_input.to_json_value(call.arguments)}


class CallVerdicts(VerdictSettings, WindowSettings, Evaluator[Turn]):
    """The share of a turn's tool calls whose verdict counts. A kind of it says which spec it makes."""

    spec: ClassVar[CallVerdictSpec]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.prompts = cls.spec.prompts

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
