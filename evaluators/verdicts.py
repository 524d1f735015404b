"""Extract, judge each, take a share: the mechanism of every evaluator whose score is a ratio.

The judge takes a text apart into items, gives a verdict on each, and code does the counting. An answer with one verdict
too few is no answer: it is sent back, then fails. Nothing missing is ever counted as good or bad.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from pydantic import Field, create_model

from evaluators.cases import Json
from evaluators.judge import Judge, Prompt
from evaluators.outcome import Score
from evaluators.prompts import fill, load
from evaluators.scale import Reply

Answer = Literal["yes", "no", "unclear"]

MOST_ITEMS = 50
"""Items that are judged at most; what goes beyond is left out, and the score's details say so."""

VERDICT_PROMPTS = ("items_form.txt", "verdicts_form.txt")
"""The templates of the forms of the answers: part of every version of an evaluator that takes a share."""

_NAMED = 3  # items that an explanation names


class Items(Reply):
    """What a text was taken apart into."""

    items: tuple[str, ...]


class Judgement(Reply):
    """A verdict on one item, after its reason."""

    reason: str
    verdict: Answer


class Judgements(Reply):
    """One verdict per item, in their order."""

    verdicts: tuple[Judgement, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What share of the items got a verdict that counts; what the score is where there is none; what to call them.

    `noun` is what the items are, `holds` what counts about them: "statements" that "are relevant".
    """

    counts: frozenset[Answer]
    without_items: float
    noun: str
    holds: str


async def extract(judge: Judge, template: str, material: Mapping[str, Json]) -> tuple[str, ...]:
    """The items that the judge takes the material apart into, without empty ones and repetitions."""
    instructions = fill(load(template), {"form": load("items_form.txt")})
    verdict = await judge.ask(Prompt(instructions, material), Items)
    return tuple(dict.fromkeys(item.strip() for item in verdict.reply.items if item.strip()))


async def judge_each(
    judge: Judge,
    template: str,
    items: Sequence[Json],
    material: Mapping[str, Json],
    values: Mapping[str, str] | None = None,
) -> Sequence[Judgement]:
    """One verdict per item, all in one question. `items` are shown as the material's field `items`, numbered."""
    instructions = fill(load(template), {"form": load("verdicts_form.txt"), **(values or {})})
    shown: list[Json] = [{"number": number, "item": item} for number, item in enumerate(items, start=1)]
    verdict = await judge.ask(Prompt(instructions, {**material, "items": shown}), judgements_of(len(items)))
    return verdict.reply.verdicts


@cache
def judgements_of(count: int) -> type[Judgements]:
    """The form of an answer with exactly so many verdicts."""
    verdicts = (tuple[Judgement, ...], Field(min_length=count, max_length=count))
    return create_model("Judgements", __base__=Judgements, __doc__=f"{count} verdicts, in order.", verdicts=verdicts)


async def share_of(
    judge: Judge,
    share: Share,
    template: str,
    items: Sequence[Json],
    material: Mapping[str, Json],
    values: Mapping[str, str] | None = None,
) -> Score:
    """The share of the items whose verdict counts, on 0..1."""
    if not items:
        return Score(value=share.without_items, explanation=f"There are no {share.noun}.", method="single")
    kept = items[:MOST_ITEMS]
    judgements = await judge_each(judge, template, kept, material, values)
    counted = [each.verdict in share.counts for each in judgements]
    details: dict[str, Json] = {
        "items": [
            {"item": item, "verdict": each.verdict, "reason": each.reason}
            for item, each in zip(kept, judgements, strict=True)
        ]
    }
    if len(items) > MOST_ITEMS:
        details["left_out"] = len(items) - MOST_ITEMS
    value = sum(counted) / len(counted)
    explanation = _explanation(share, judgements, counted)
    return Score(value=value, raw_score=value, explanation=explanation, method="single", details=details)


def _explanation(share: Share, judgements: Sequence[Judgement], counted: Collection[bool]) -> str:
    """Like: 2 of 3 statements are relevant. Item 2: it is about something else."""
    rarer = sum(counted) * 2 < len(counted)  # the reasons worth reading are those of the smaller side
    named = [
        f"Item {number}: {each.reason}"
        for number, (each, counts) in enumerate(zip(judgements, counted, strict=True), start=1)
        if counts == rarer
    ]
    head = f"{sum(counted)} of {len(counted)} {share.noun} {share.holds}."
    return " ".join([head, *named[:_NAMED]])
