"""Topic adherence: does the application keep to its subjects?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field, create_model, field_validator

from evaluators.cases import Conversation, Json, Turn
from evaluators.errors import NotApplicable
from evaluators.evaluator import Evaluator, Example
from evaluators.identity import conversation_id_of
from evaluators.judge import Judge, Prompt
from evaluators.prompts import fill, load
from evaluators.rating import NonBlank
from evaluators.results import Score
from evaluators.scale import NUMBERS, NumberedReply, Reply, plain_word, sort_by_number
from evaluators.transcript import ConversationSettings, Transcript, build_windows
from evaluators.windows import WindowSample, draw_windows

_YesOrNo = Annotated[Literal["yes", "no"], BeforeValidator(plain_word)]


class TopicLabel(NumberedReply):
    """Where a turn lies, and what the application made of it."""

    reason: str
    on_topic: _YesOrNo
    answered: _YesOrNo

    @property
    def right(self) -> bool:
        """Answered what is within the subjects, or left unanswered what is not."""
        return self.on_topic == self.answered


class TopicLabels(Reply):
    """One label per turn, in their order."""

    turns: tuple[TopicLabel, ...]

    @field_validator("turns")
    @classmethod
    def _in_order(cls, turns: tuple[TopicLabel, ...]) -> tuple[TopicLabel, ...]:
        return sort_by_number(turns)


class TopicAdherence(ConversationSettings, Evaluator[Conversation]):
    """The share of turns in which the application answers what is within its subjects and declines what is not.

    The judge says of each turn whether it was within the subjects and whether it was answered; code compares. A
    conversation without a turn to judge gets no score.
    """

    kind: ClassVar[str] = "topic_adherence"
    scope: ClassVar = "conversation"
    prompts: ClassVar[tuple[str, ...]] = ("topic_adherence.txt",)
    example: ClassVar[Example] = {"relevant_topics": ["railway tickets", "timetables"]}

    relevant_topics: tuple[NonBlank, ...] = Field(min_length=1, description="The subjects that the application is for.")

    @property
    def requires(self) -> frozenset[str]:
        """What the user and the application said."""
        return frozenset({"turns.input", "turns.actual_output"})

    async def evaluate(self, case: Conversation, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        windows = build_windows(case, (), self, _has_both, lookback=10)
        if not windows[0].judged:
            raise NotApplicable("missing_field: turns.actual_output")
        sample = draw_windows([len(each.judged) for each in windows], self.max_windows, conversation_id_of(case))
        labels = {at: await self._labels(judge, windows[at]) for at in sample.judged}
        numbers = [number for at in sample.judged for number in windows[at].judged]
        return _score(numbers, labels, sample, truncated=any(windows[at].truncated for at in sample.judged))

    async def _labels(self, judge: Judge, window: Transcript) -> Sequence[TopicLabel]:
        items: list[Json] = [
            {"number": at, "item": f"turn {number}"} for at, number in enumerate(window.judged, start=1)
        ]
        prompt = Prompt(self._instructions(), {"turns": window.content, "items": items}, reminder=NUMBERS)
        return (await judge.ask(prompt, _labels_of(len(items)))).reply.turns

    def _instructions(self) -> str:
        return fill(load("topic_adherence.txt"), {"topics": "\n".join(f"- {topic}" for topic in self.relevant_topics)})


def _has_both(turn: Turn) -> bool:
    return turn.incomplete is None and bool(turn.input and turn.actual_output)


def _score(
    numbers: Sequence[int], labels_of: Mapping[int, Sequence[TopicLabel]], sample: WindowSample, *, truncated: bool
) -> Score:
    labels = [label for at in sample.judged for label in labels_of[at]]
    right = sum(label.right for label in labels)
    wrong = [f"Turn {number}: {label.reason}" for number, label in zip(numbers, labels, strict=True) if not label.right]
    whole = "" if sample.complete else f", a sample of {sum(sample.lengths)},"
    details: dict[str, Json] = {
        "turns": [
            {"number": number, "on_topic": label.on_topic, "answered": label.answered}
            for number, label in zip(numbers, labels, strict=True)
        ],
        **sample.details,
    }
    return Score(
        value=sample.share_of({at: [label.right for label in labels_of[at]] for at in sample.judged}),
        method="single",
        explanation=" ".join([f"{right} of {len(labels)} turns{whole} were dealt with rightly.", *wrong[:3]]),
        details=details | {"truncated": True} if truncated else details,
    )


@cache
def _labels_of(count: int) -> type[TopicLabels]:
    turns = (tuple[TopicLabel, ...], Field(min_length=count, max_length=count))
    return create_model("TopicLabels", __base__=TopicLabels, __doc__=f"{count} labels, in order.", turns=turns)
