"""Items, verdicts and their ratio: the mechanism of every evaluator whose score is a proportion.

The judge takes a text apart into items, gives a verdict on each, and code does the counting. An answer with one verdict
too few is no answer: it is sent back, then fails. Nothing missing is ever counted as good or bad.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, create_model, field_validator

from evaluators.cases import Json
from evaluators.judge import Judge, Prompt
from evaluators.prompts import fill, load
from evaluators.results import Score
from evaluators.scale import NUMBERS, NumberedReply, Reply, plain_word, sort_by_number
from evaluators.windows import MAX_WINDOWS, WindowSample, draw_windows

VerdictWord = Literal["yes", "no", "unclear"]
"""What a judge can say of an item."""

VERDICT_PROMPTS = ("items_form.txt", "verdicts_form.txt")
"""The templates of the forms of the answers: part of every version of an evaluator that takes a share."""

_NAMED = 3  # items that an explanation names


class Items(Reply):
    """What a text was taken apart into."""

    items: tuple[str, ...]


class ItemVerdict(NumberedReply):
    """A verdict on one item, after its reason."""

    reason: str
    verdict: Annotated[VerdictWord, BeforeValidator(plain_word)]


class ItemVerdicts(Reply):
    """One verdict per item, in their order."""

    verdicts: tuple[ItemVerdict, ...]

    @field_validator("verdicts")
    @classmethod
    def _in_order(cls, verdicts: tuple[ItemVerdict, ...]) -> tuple[ItemVerdict, ...]:
        return sort_by_number(verdicts)


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioSpec:
    """What share of the items got a verdict that counts; what the score is where there is none; what to call them.

    `noun` is what the items are, `holds` what counts about them: "statements" that "are relevant".
    """

    counting_verdicts: frozenset[VerdictWord]
    empty_score: float
    noun: str
    predicate: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemWindow:
    """Items that get their verdicts in one question, and what the judge is shown with them.

    Where that is too much for one question there are several `materials`, each for a question of its own about the same
    items. `truncated` says that something was left out that may matter.
    """

    items: Sequence[Json]
    materials: Sequence[Mapping[str, Json]] = ({},)
    truncated: bool = False


async def extract_items(judge: Judge, template: str, material: Mapping[str, Json]) -> tuple[str, ...]:
    """The items that the judge takes the material apart into, without empty ones and repetitions."""
    instructions = fill(load(template), {"form": load("items_form.txt")})
    verdict = await judge.ask(Prompt(instructions, material), Items)
    return tuple(dict.fromkeys(item.strip() for item in verdict.reply.items if item.strip()))


async def ask_verdicts(
    judge: Judge, template: str, window: ItemWindow, values: Mapping[str, str] | None = None
) -> Sequence[ItemVerdict]:
    """One verdict per item of a window. `items` are shown as the material's field `items`, numbered."""
    instructions = fill(load(template), {"form": load("verdicts_form.txt"), **(values or {})})
    # One question for all items, not one each: it costs a fraction, and the judge sees what the items have in common.
    # The form demands as many verdicts as there are items, so that none is lost on the way.
    numbered: list[Json] = [{"number": number, "item": item} for number, item in enumerate(window.items, start=1)]
    form = verdicts_form(len(window.items))
    rounds = [
        (await judge.ask(Prompt(instructions, {**material, "items": numbered}, reminder=NUMBERS), form)).reply.verdicts
        for material in window.materials
    ]
    return [_decisive(verdicts) for verdicts in zip(*rounds, strict=True)]


def _decisive(verdicts: Sequence[ItemVerdict]) -> ItemVerdict:
    """Of several verdicts on one item, by parts of the material: what one part says, others need not say."""
    order: tuple[VerdictWord, ...] = ("yes", "no", "unclear")
    return min(verdicts, key=lambda each: order.index(each.verdict))


@cache
def verdicts_form(count: int) -> type[ItemVerdicts]:
    """The form of an answer with exactly so many verdicts."""
    verdicts = (tuple[ItemVerdict, ...], Field(min_length=count, max_length=count))
    return create_model("Judgements", __base__=ItemVerdicts, __doc__=f"{count} verdicts, in order.", verdicts=verdicts)


async def score_ratio(
    judge: Judge,
    spec: RatioSpec,
    template: str,
    windows: Sequence[ItemWindow],
    values: Mapping[str, str] | None = None,
    *,
    max_windows: int = MAX_WINDOWS,
    seed: str = "",
) -> Score:
    """The share of the items whose verdict counts, on 0..1: of all windows, or of a sample drawn by `seed`."""
    if not any(window.items for window in windows):
        return Score(value=spec.empty_score, explanation=f"There are no {spec.noun}.", method="single")
    sample = draw_windows([len(window.items) for window in windows], max_windows, seed)
    verdicts = {at: await ask_verdicts(judge, template, windows[at], values) for at in sample.judged}
    counting = {at: [each.verdict in spec.counting_verdicts for each in verdicts[at]] for at in sample.judged}
    details: dict[str, Json] = {
        "items": [
            {"item": item, "verdict": each.verdict, "reason": each.reason}
            for at in sample.judged
            for item, each in zip(windows[at].items, verdicts[at], strict=True)
        ],
        **sample.details,
    }
    if any(windows[at].truncated for at in sample.judged):
        details["truncated"] = True
    value = sample.share_of(counting)
    explanation = _explanation(spec, sample, verdicts, counting)
    return Score(value=value, raw_score=value, explanation=explanation, method="single", details=details)


def _explanation(
    spec: RatioSpec,
    sample: WindowSample,
    verdicts: Mapping[int, Sequence[ItemVerdict]],
    counting: Mapping[int, Sequence[bool]],
) -> str:
    """Like: 2 of 3 statements are relevant. Item 2: it is about something else."""
    flags = [flag for at in sample.judged for flag in counting[at]]
    rarer = sum(flags) * 2 < len(flags)  # the reasons worth reading are those of the smaller side
    named = [
        f"Item {sum(sample.lengths[:at]) + number}: {each.reason}"
        for at in sample.judged
        for number, (each, counts) in enumerate(zip(verdicts[at], counting[at], strict=True), start=1)
        if counts == rarer
    ]
    whole = "" if sample.complete else f", a sample of {sum(sample.lengths)},"
    return " ".join([f"{sum(flags)} of {len(flags)} {spec.noun}{whole} {spec.predicate}.", *named[:_NAMED]])
