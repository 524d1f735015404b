"""The conversation that a judge is shown: numbered turns within a budget, and the fields of the whole."""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Annotated, Literal, get_args

from pydantic import Field

from evaluators.asking import judge_input
from evaluators.asking.windows import MOST_AT_ONCE, WindowSettings, split_evenly
from evaluators.cases import Conversation, Json, Turn
from evaluators.errors import NotApplicable
from evaluators.evaluator import ADDED_LATER
from evaluators.results import SkipReason

CHARACTERS_PER_TOKEN = 4
"""About how many characters a token has. It is for budgets, where an error of 20 % costs little."""

ALWAYS_WORTH_SHOWING = ("input", "actual_output", "error")

NOT_RECORDED = "parts of this turn were not recorded; what they said is unknown"
"""The text that a judge reads in place of the missing part of an incomplete turn."""


MAX_INCOMPLETE = 0.5


class TranscriptSettings(judge_input.TextSettings):
    """How much of a conversation a judge is shown, and how complete it has to be."""

    token_budget: int = Field(default=12_000, ge=500, le=1_000_000)
    """About how many tokens of a conversation one question shows. A longer conversation loses its middle; kinds that
    judge each turn ask about some turns at a time, beside earlier ones."""
    max_incomplete: Annotated[float, ADDED_LATER] = Field(default=MAX_INCOMPLETE, ge=0, le=1)
    """The largest share of incomplete turns with which a conversation is judged by its other turns."""


class ConversationSettings(TranscriptSettings, WindowSettings):
    """How a conversation is shown if its turns are judged one by one."""


VisibleTurn = tuple[int, Turn, Mapping[str, Json]]
"""A turn with its number, counted from 1 in the whole conversation, and its shown fields."""


@dataclass(frozen=True, slots=True)
class Transcript:
    """The shown turns of a conversation of `length` turns, in order.

    `truncated` says that turns or parts of texts were left out. `judged` are the numbers of the turns that are judged
    with it, if only some are. `whole` are all turns, with nothing left out.
    """

    turns: Sequence[VisibleTurn]
    length: int
    truncated: bool
    judged: Sequence[int] = ()
    whole: Sequence[Json] = ()

    @property
    def omitted(self) -> int:
        """How many turns are not shown."""
        return self.length - len(self.turns)

    @property
    def core(self) -> "Transcript":
        """Only the turns that are judged with it."""
        numbers = set(self.judged)
        return replace(self, turns=[turn for turn in self.turns if turn[0] in numbers])

    @property
    def content(self) -> list[Json]:
        """The turns in order, with a mark wherever some were left out."""
        contents: list[Json] = []
        following = 1
        for number, _, content in self.turns:
            contents += _gap(number - following)
            contents.append(dict(content))
            following = number + 1
        return contents + _gap(self.length + 1 - following)

    def beside(self, content: Mapping[str, Json]) -> judge_input.JudgeInput:
        """The material of a question with the transcript and other content."""
        run = ("turns", self.whole) if self.omitted else None
        return judge_input.JudgeInput({**content, "turns": self.content}, self.truncated, self.omitted, run)


def _gap(turns: int) -> list[Json]:
    return [f"[… {turns} turns left out …]"] if turns else []


def build_transcript(
    case: Conversation,
    names: Iterable[str],
    settings: TranscriptSettings,
    *,
    always: Sequence[str] = ALWAYS_WORTH_SHOWING,
) -> Transcript:
    """The named fields of the first and last turns, as many turns as fit into the token budget.

    The choice of turns depends only on the conversation: alternately from the end and from the start, the last turn
    first. A turn without any of the fields is shown with its number alone. The fields `always` are shown whenever the
    turn has them.

    Raises:
        NotApplicable: the conversation has no turn.
    """
    turns, cut, all_turns = _visible_turns(case, names, settings, always)
    head, tail = judge_input.fit_both_ends([judge_input.size_of(content) for _, _, content in turns], _budget(settings))
    positions = (
        range(len(turns))
        if head + tail == len(turns)
        else (*range(head), *range(len(turns) - max(tail, 1), len(turns)))
    )
    return replace(_transcript(turns, cut, positions), whole=all_turns)


def build_windows(
    case: Conversation,
    names: Iterable[str],
    settings: TranscriptSettings,
    is_judged: Callable[[Turn], bool],
    lookback: int | None = None,
    *,
    ahead: bool = False,
) -> Sequence[Transcript]:
    """The transcripts of a conversation that show the judge some turns to judge: one transcript if all fit.

    Otherwise several, each with the turns to judge and at most `lookback` turns before them, as far as the token budget
    goes: the nearest and the first. With `ahead` it is the turns after them instead: the nearest and the last.

    Raises:
        NotApplicable: the conversation has no turn.
    """
    turns, cut, _ = _visible_turns(case, names, settings, ALWAYS_WORTH_SHOWING)
    judged = [at for at, (_, turn, _) in enumerate(turns) if is_judged(turn)]
    sizes = [judge_input.size_of(content) for _, _, content in turns]
    budget = _budget(settings)
    if len(judged) <= MOST_AT_ONCE and (sum(sizes) <= budget or not judged):
        return [replace(build_transcript(case, names, settings), judged=[at + 1 for at in judged])]
    stretches = [sum(sizes[before + 1 : at + 1]) for before, at in zip([judged[0] - 1, *judged], judged, strict=False)]
    windows: list[Transcript] = []
    for run in split_evenly(stretches, budget * _OWN_SHARE // 100):
        core = range(judged[run.start], judged[run.stop - 1] + 1)
        around = range(0 if lookback is None else max(0, core.start - lookback), core.start)
        if ahead:
            around = range(core.stop, len(turns))
        head, tail = judge_input.fit_both_ends([sizes[at] for at in around], budget - sum(sizes[at] for at in core))
        window = _transcript(turns, cut, sorted((*around[:head], *around[len(around) - tail :], *core)))
        lost = head + tail < len(around) or any(at in cut for at in core)
        windows.append(replace(window, truncated=lost, judged=[at + 1 for at in judged[run.start : run.stop]]))
    return windows


_OWN_SHARE = 67
"""Percent of the token budget that the judged turns of a window may take; the rest is for their context."""


def _budget(settings: TranscriptSettings) -> int:
    return settings.token_budget * CHARACTERS_PER_TOKEN


def _visible_turns(
    case: Conversation, names: Iterable[str], settings: TranscriptSettings, always: Sequence[str]
) -> tuple[Sequence[VisibleTurn], AbstractSet[int], Sequence[Json]]:
    """Every turn with its shown fields, the positions of turns with a cut text, and the whole turns."""
    if not case.turns:
        raise NotApplicable(SkipReason.MISSING_FIELD.text("turns"))
    longest = min(settings.longest_text, _budget(settings) // 2)
    wanted = tuple(dict.fromkeys((*always, *names)))
    whole = [{"number": number, **_fields(turn, wanted)} for number, turn in enumerate(case.turns, start=1)]
    cut = [{name: judge_input.shorten(value, longest) for name, value in turn.items()} for turn in whole]
    turns = [(at + 1, case.turns[at], fields) for at, fields in enumerate(cut)]
    return turns, {at for at, fields in enumerate(cut) if fields != whole[at]}, list[Json](whole)


def _transcript(turns: Sequence[VisibleTurn], cut: AbstractSet[int], positions: Sequence[int]) -> Transcript:
    visible = [turns[at] for at in positions]
    return Transcript(visible, len(turns), len(visible) < len(turns) or any(at in cut for at in positions))


def _fields(turn: Turn, names: Iterable[str]) -> dict[str, Json]:
    values = {name: judge_input.to_json_value(getattr(turn, name)) for name in names}
    if turn.incomplete is not None:
        values["incomplete"] = NOT_RECORDED
    return {name: value for name, value in values.items() if value is not None and value != []}


ConversationField = Literal["scenario", "expected_outcome", "chatbot_role"]
"""The fields that describe a conversation as a whole."""

OF_THE_WHOLE: tuple[str, ...] = get_args(ConversationField)


def required_fields(names: Sequence[str]) -> frozenset[str]:
    """The names in a conversation's terms: a turn's field becomes `turns.<field>`, which exists if any turn has it."""
    return frozenset(name if name in OF_THE_WHOLE else f"turns.{name}" for name in names)


def build_conversation_input(
    case: Conversation, names: Sequence[str], settings: TranscriptSettings
) -> judge_input.JudgeInput:
    """The named fields: a turn's fields with each turn, the conversation's fields once.

    Raises:
        NotApplicable: the conversation has no turn.
    """
    of_turns = [name for name in names if name not in OF_THE_WHOLE]
    transcript = build_transcript(case, of_turns, settings, always=())
    whole = {name: judge_input.to_json_value(getattr(case, name)) for name in names if name in OF_THE_WHOLE}
    visible = judge_input.shorten_all(whole, settings.longest_text)
    if not of_turns:
        return visible
    material = transcript.beside(visible.content)
    return replace(material, truncated=visible.truncated or material.truncated)
