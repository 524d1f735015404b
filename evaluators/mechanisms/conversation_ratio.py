"""Ratio evaluators of conversations: every turn, or every extracted item, gets a verdict."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from evaluators.asking.transcript import ConversationSettings, Transcript, build_windows
from evaluators.asking.windows import draw_windows, split
from evaluators.cases import Conversation, Json, Turn
from evaluators.errors import NotApplicable
from evaluators.evaluator import Evaluator
from evaluators.identity import conversation_id_of
from evaluators.judge import Judge
from evaluators.mechanisms import item_verdicts
from evaluators.results import Score, SkipReason


@dataclass(frozen=True, slots=True)
class ConversationRatioSpec:
    """The parts of a conversation that get a verdict, and how verdicts are counted.

    `name` begins the names of the prompt templates. With `extracts_items` the judge first takes the conversation apart
    into items; else each turn is an item, if it has all `required_fields`. `extra_fields` are the turn's fields that
    the judge sees beside the usual input, output and error. If a conversation is too long for one question, the judge
    sees the turns to judge and at most `lookback` turns before them.
    """

    name: str
    ratio: item_verdicts.RatioSpec
    extracts_items: bool = False
    required_fields: tuple[str, ...] = ()
    extra_fields: tuple[str, ...] = ()
    lookback: int | None = 10

    @property
    def prompts(self) -> tuple[str, ...]:
        """The names of the templates it uses."""
        items = (f"{self.name}_items.txt",) if self.extracts_items else ()
        return (*items, f"{self.name}_verdicts.txt", *item_verdicts.VERDICT_PROMPTS)

    async def score(
        self,
        case: Conversation,
        judge: Judge,
        settings: ConversationSettings,
        *,
        companions: Mapping[str, Json] | None = None,
        values: Mapping[str, str] | None = None,
    ) -> Score:
        """The share of the items whose verdict counts.

        `companions` are shown with the turns; `values` fill placeholders of the template with the configuration's text.
        """
        if self.extracts_items:
            windows, read = await self._extracted(case, judge, settings, companions or {})
        else:
            transcripts = build_windows(case, self.extra_fields, settings, self._has, self.lookback)
            windows, read = [_window(transcript, companions or {}) for transcript in transcripts], {}
            if not transcripts[0].judged:
                raise NotApplicable(SkipReason.MISSING_FIELD.text(*(f"turns.{name}" for name in self.required_fields)))
        score = await item_verdicts.score_ratio(
            judge,
            self.ratio,
            f"{self.name}_verdicts.txt",
            windows,
            values,
            max_windows=settings.max_windows,
            seed=conversation_id_of(case),
            weigh=isinstance(settings, item_verdicts.VerdictSettings) and settings.verdicts == "probabilities",
        )
        return replace(score, details={**score.details, **read}) if read else score

    async def _extracted(
        self, case: Conversation, judge: Judge, settings: ConversationSettings, companions: Mapping[str, Json]
    ) -> tuple[Sequence[item_verdicts.ItemWindow], Mapping[str, Json]]:
        """The items with their material, and how many of the windows were read, if there was more than one.

        A long conversation is taken apart window by window. The items of a window are judged with its turns and all
        later turns in view, as an early wish may be met late.
        """
        transcripts = build_windows(case, self.extra_fields, settings, lambda turn: turn.incomplete is None, ahead=True)
        sample = draw_windows(
            [len(transcript.judged) for transcript in transcripts], settings.max_windows, conversation_id_of(case)
        )
        windows: list[item_verdicts.ItemWindow] = []
        for at in sample.judged:
            transcript = transcripts[at]
            own = transcript.core if len(transcripts) > 1 else transcript
            material: Mapping[str, Json] = {"turns": own.content, **companions}
            items = await item_verdicts.extract_items(judge, f"{self.name}_items.txt", material)
            whole = _window(transcript, companions)
            windows += [replace(whole, items=items[run.start : run.stop]) for run in split([0] * len(items), 0)]
        if len(transcripts) == 1:
            return windows, {"turns_left_out": transcripts[0].omitted} if transcripts[0].omitted else {}
        return windows, {"read": {"of": len(transcripts), "windows": len(sample.judged)}, **sample.details}

    def _has(self, turn: Turn) -> bool:
        return turn.incomplete is None and all(getattr(turn, name) for name in self.required_fields)


def _window(transcript: Transcript, companions: Mapping[str, Json]) -> item_verdicts.ItemWindow:
    return item_verdicts.ItemWindow(
        items=[f"turn {number}" for number in transcript.judged],
        materials=({"turns": transcript.content, **companions},),
        truncated=transcript.truncated,
    )


class ConversationRatio(item_verdicts.VerdictSettings, ConversationSettings, Evaluator[Conversation]):
    """The share of a conversation's items whose verdict counts. A kind of it sets its `spec`."""

    scope: ClassVar = "conversation"
    needed_fields: ClassVar[frozenset[str]] = frozenset({"turns.input", "turns.actual_output"})
    spec: ClassVar[ConversationRatioSpec]

    @property
    def rounds(self) -> int:
        """One for the verdicts, and one for the extraction of items, if there is one."""
        return 2 if self.spec.extracts_items else 1

    @property
    def needs_writer(self) -> bool:
        """See `Evaluator.needs_writer`: the items, unless they are the turns."""
        return self.spec.extracts_items

    async def evaluate(self, case: Conversation, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        return await self.spec.score(case, judge, self)
