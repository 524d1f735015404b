"""A conversation as a judge is shown it: numbered turns, within a budget."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, Field

from evaluators.cases import Conversation, Json, Turn
from evaluators.errors import NotApplicable
from evaluators.evaluator import ADDED_LATER
from evaluators.judge_input import LONGEST_TEXT, fit_both_ends, shorten, size_of, to_json_value

CHARACTERS_PER_TOKEN = 4
"""How many characters a token has, about: for budgets, where being 20 % wrong costs little."""

ALWAYS_WORTH_SHOWING = ("input", "actual_output", "error")

NOT_RECORDED = "parts of this turn were not recorded; what they said is unknown"
"""What a judge reads in place of what an incomplete turn lacks."""


MAX_INCOMPLETE = 0.5


class TranscriptSettings(BaseModel):
    """Which conversations a judge is shown, and how much of them."""

    token_budget: int = Field(
        default=12_000,
        ge=500,
        le=1_000_000,
        description="About how many tokens of a conversation the judge is shown; of a longer one not the middle.",
    )
    max_incomplete: Annotated[float, ADDED_LATER] = Field(
        default=MAX_INCOMPLETE,
        ge=0,
        le=1,
        description="The largest share of incomplete turns with which a conversation is judged by its other turns.",
    )


@dataclass(frozen=True, slots=True)
class Transcript:
    """The shown turns as JSON, with their numbers, counted from 1 in the whole conversation.

    `truncated` says that turns or parts of texts were left out.
    """

    turns: Sequence[tuple[int, Turn, Mapping[str, Json]]]
    omitted: int
    truncated: bool

    @property
    def content(self) -> list[Json]:
        """The turns in order, with a mark where some were left out."""
        contents: list[Json] = [dict(content) for _, _, content in self.turns]
        if self.omitted:
            gap = next(at for at, (number, _, _) in enumerate(self.turns) if number > at + 1)
            contents.insert(gap, f"[… {self.omitted} turns left out …]")
        return contents


def build_transcript(
    case: Conversation, names: Iterable[str], token_budget: int, *, always: Sequence[str] = ALWAYS_WORTH_SHOWING
) -> Transcript:
    """The named fields of the conversation's turns, the first and the last as far as the budget goes.

    Which turns are shown depends on nothing but the conversation: by turns one from the end and one from the start,
    the last first. A turn without any of the fields is shown with its number alone. `always` are shown in any case
    where the turn has them.

    Raises:
        NotApplicable: the conversation has no turn.
    """
    if not case.turns:
        raise NotApplicable("missing_field: turns")
    budget = token_budget * CHARACTERS_PER_TOKEN
    longest = min(LONGEST_TEXT, budget // 2)
    wanted = tuple(dict.fromkeys((*always, *names)))
    whole = [{"number": number, **_fields(turn, wanted)} for number, turn in enumerate(case.turns, start=1)]
    cut = [{name: shorten(value, longest) for name, value in each.items()} for each in whole]
    head, tail = fit_both_ends([size_of(each) for each in cut], budget)
    positions = (
        range(len(cut)) if head + tail == len(cut) else (*range(head), *range(len(cut) - max(tail, 1), len(cut)))
    )
    omitted = len(cut) - len(positions)
    return Transcript(
        turns=[(at + 1, case.turns[at], cut[at]) for at in positions],
        omitted=omitted,
        truncated=omitted > 0 or any(whole[at] != cut[at] for at in positions),
    )


def _fields(turn: Turn, names: Iterable[str]) -> dict[str, Json]:
    values = {name: to_json_value(getattr(turn, name)) for name in names}
    if turn.incomplete is not None:
        values["incomplete"] = NOT_RECORDED
    return {name: value for name, value in values.items() if value is not None and value != []}
