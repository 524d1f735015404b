"""Items, verdicts and their ratio: the mechanism of every evaluator whose score is a proportion.

The judge takes a text apart into items, gives a verdict on each, and code does the counting. An answer with one verdict
too few is no answer: it is sent back, then fails. Nothing missing is ever counted as good or bad.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, create_model, field_validator

from evaluators.cases import Json
from evaluators.judge import Judge, Prompt
from evaluators.prompts import fill, load
from evaluators.results import Score
from evaluators.scale import NumberedReply, Reply, plain_word, sort_by_number

VerdictWord = Literal["yes", "no", "unclear"]
"""What a judge can say of an item."""

MOST_ITEMS = 50
"""Items that are judged at most; what goes beyond is left out, and the score's details say so."""

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


async def extract_items(judge: Judge, template: str, material: Mapping[str, Json]) -> tuple[str, ...]:
    """The items that the judge takes the material apart into, without empty ones and repetitions."""
    instructions = fill(load(template), {"form": load("items_form.txt")})
    verdict = await judge.ask(Prompt(instructions, material), Items)
    return tuple(dict.fromkeys(item.strip() for item in verdict.reply.items if item.strip()))


async def ask_verdicts(
    judge: Judge,
    template: str,
    items: Sequence[Json],
    material: Mapping[str, Json],
    values: Mapping[str, str] | None = None,
) -> Sequence[ItemVerdict]:
    """One verdict per item, all in one question. `items` are shown as the material's field `items`, numbered."""
    instructions = fill(load(template), {"form": load("verdicts_form.txt"), **(values or {})})
    # One question for all items, not one each: it costs a fraction, and the judge sees what the items have in common.
    # The form demands as many verdicts as there are items, so that none is lost on the way.
    numbered: list[Json] = [{"number": number, "item": item} for number, item in enumerate(items, start=1)]
    verdict = await judge.ask(Prompt(instructions, {**material, "items": numbered}), verdicts_form(len(items)))
    return verdict.reply.verdicts


@cache
def verdicts_form(count: int) -> type[ItemVerdicts]:
    """The form of an answer with exactly so many verdicts."""
    verdicts = (tuple[ItemVerdict, ...], Field(min_length=count, max_length=count))
    return create_model("Judgements", __base__=ItemVerdicts, __doc__=f"{count} verdicts, in order.", verdicts=verdicts)


async def score_ratio(
    judge: Judge,
    spec: RatioSpec,
    template: str,
    items: Sequence[Json],
    material: Mapping[str, Json],
    values: Mapping[str, str] | None = None,
) -> Score:
    """The share of the items whose verdict counts, on 0..1."""
    if not items:
        return Score(value=spec.empty_score, explanation=f"There are no {spec.noun}.", method="single")
    judged_items = items[:MOST_ITEMS]
    verdicts = await ask_verdicts(judge, template, judged_items, material, values)
    counting = [each.verdict in spec.counting_verdicts for each in verdicts]
    details: dict[str, Json] = {
        "items": [
            {"item": item, "verdict": each.verdict, "reason": each.reason}
            for item, each in zip(judged_items, verdicts, strict=True)
        ]
    }
    if len(items) > MOST_ITEMS:
        details["left_out"] = len(items) - MOST_ITEMS
    value = sum(counting) / len(counting)
    explanation = _explanation(spec, verdicts, counting)
    return Score(value=value, raw_score=value, explanation=explanation, method="single", details=details)


def _explanation(spec: RatioSpec, verdicts: Sequence[ItemVerdict], counting: Collection[bool]) -> str:
    """Like: 2 of 3 statements are relevant. Item 2: it is about something else."""
    rarer = sum(counting) * 2 < len(counting)  # the reasons worth reading are those of the smaller side
    named = [
        f"Item {number}: {each.reason}"
        for number, (each, counts) in enumerate(zip(verdicts, counting, strict=True), start=1)
        if counts == rarer
    ]
    head = f"{sum(counting)} of {len(counting)} {spec.noun} {spec.predicate}."
    return " ".join([head, *named[:_NAMED]])
