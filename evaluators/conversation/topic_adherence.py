"""Topic adherence: does the application keep to its subjects?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field, create_model

from evaluators.asking.transcript import ConversationSettings, Transcript, build_windows
from evaluators.asking.windows import WindowSample, draw_windows
from evaluators.cases import Conversation, Json, Turn
from evaluators.errors import NotApplicable
from evaluators.evaluator import Evaluator, Example
from evaluators.identity import conversation_id_of
from evaluators.judge import Answer, Judge, Prompt
from evaluators.mechanisms.rating import NonBlank
from evaluators.prompts import fill, load
from evaluators.questions import PredicateQuestion, QuestionGroup, guide_before
from evaluators.results import Score, SkipReason
from evaluators.scale import IN_ORDER, NUMBERS, NumberedReply, Reply, plain_word

_YesOrNo = Annotated[Literal["yes", "no"], BeforeValidator(plain_word)]


class TopicLabel(NumberedReply):
    """The label of a turn: on topic or not, answered or not."""

    reason: str
    on_topic: _YesOrNo
    answered: _YesOrNo

    @property
    def right(self) -> bool:
        """Whether a turn within the subjects was answered, or any other turn was left unanswered."""
        return self.on_topic == self.answered


class TopicLabels(Reply):
    """One label per turn, in their order."""

    turns: Annotated[tuple[TopicLabel, ...], IN_ORDER]


@dataclass(frozen=True, slots=True)
class JudgedTurn:
    """A turn's label, and whether the turn was handled rightly: 0 or 1; or, if the judge gives probabilities, the
    probability of it, with the label's two parts taken as independent.
    """

    label: TopicLabel
    rightness: float
    by_decision_model: bool = False


class TopicAdherence(ConversationSettings, Evaluator[Conversation]):
    """The share of turns in which the application answers within its subjects and declines everything else.

    The judge says of each turn whether it was within the subjects and whether it was answered; code compares the two. A
    conversation without a turn to judge is skipped.
    """

    kind: ClassVar[str] = "topic_adherence"
    all_typed: ClassVar[bool] = True
    needed_fields: ClassVar[frozenset[str]] = frozenset({"turns.input", "turns.actual_output"})
    scope: ClassVar = "conversation"
    prompts: ClassVar[tuple[str, ...]] = ("topic_adherence.txt",)
    example: ClassVar[Example] = {"relevant_topics": ["railway tickets", "timetables"]}

    relevant_topics: tuple[NonBlank, ...] = Field(min_length=1)
    """The subjects that the application may answer."""

    async def evaluate(self, case: Conversation, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        windows = build_windows(case, (), self, _has_both, lookback=10)
        if not windows[0].judged:
            raise NotApplicable(SkipReason.MISSING_FIELD.text("turns.actual_output"))
        sample = draw_windows(
            [len(transcript.judged) for transcript in windows], self.max_windows, conversation_id_of(case)
        )
        labels = {at: await self._labels(judge, windows[at]) for at in sample.judged}
        numbers = [number for at in sample.judged for number in windows[at].judged]
        return _score(numbers, labels, sample, truncated=any(windows[at].truncated for at in sample.judged))

    async def _labels(self, judge: Judge, window: Transcript) -> Sequence[JudgedTurn]:
        items: list[Json] = [{"number": at, "item": f"turn {number}"} for at, number in enumerate(window.judged, 1)]
        topics = "\n".join(f"- {topic}" for topic in self.relevant_topics)
        instructions = fill(load("topic_adherence.txt"), {"topics": topics})
        groups = (_typed_questions(instructions, len(items)),)
        prompt = Prompt(instructions, {"turns": window.content, "items": items}, reminder=NUMBERS, groups=groups)
        return _judged((await judge.ask(prompt, _labels_of(len(items)))).answers[0])


def _typed_questions(instructions: str, count: int) -> QuestionGroup:
    """The typed form of the question, for a judge that decides: two questions for each turn."""
    questions = [
        question
        for at in range(count)
        for question in (
            PredicateQuestion(("turns", at, "on_topic"), f"Item {at + 1} of `items`: what the user asks is on topic."),
            PredicateQuestion(("turns", at, "answered"), f"Item {at + 1} of `items`: the application answered it."),
        )
    ]
    return QuestionGroup(guide_before(instructions, "Judge every item"), tuple(questions))


def _judged(answer: Answer[TopicLabels]) -> Sequence[JudgedTurn]:
    labels = answer.reply.turns
    if not answer.decisions:
        return [JudgedTurn(label, float(label.right)) for label in labels]
    yes = [decision.probabilities["yes"] for decision in answer.decisions]
    return [
        JudgedTurn(label, on_topic * answered + (1 - on_topic) * (1 - answered), by_decision_model=True)
        for label, on_topic, answered in zip(labels, yes[::2], yes[1::2], strict=True)
    ]


def _has_both(turn: Turn) -> bool:
    return turn.incomplete is None and bool(turn.input and turn.actual_output)


def _score(
    numbers: Sequence[int], judged: Mapping[int, Sequence[JudgedTurn]], sample: WindowSample, *, truncated: bool
) -> Score:
    turns = [turn for at in sample.judged for turn in judged[at]]
    labels = [turn.label for turn in turns]
    right = sum(label.right for label in labels)
    wrong = [
        f"Turn {number}: {label.reason or 'wrongly'}"
        for number, label in zip(numbers, labels, strict=True)
        if not label.right
    ]
    whole = "" if sample.complete else f", a sample of {sum(sample.lengths)},"
    details: dict[str, Json] = {
        "turns": [
            {"number": number, "on_topic": turn.label.on_topic, "answered": turn.label.answered}
            | ({"probability": turn.rightness} if turn.by_decision_model else {})
            for number, turn in zip(numbers, turns, strict=True)
        ],
        **sample.details,
    }
    return Score(
        value=min(
            1.0, max(0.0, sample.share_of({at: [turn.rightness for turn in judged[at]] for at in sample.judged}))
        ),
        method="decision" if any(turn.by_decision_model for turn in turns) else "single",
        explanation=" ".join([f"{right} of {len(labels)} turns{whole} were dealt with rightly.", *wrong[:3]]),
        details=details | {"truncated": True} if truncated else details,
    )


@cache
def _labels_of(count: int) -> type[TopicLabels]:
    turns = Annotated[tuple[TopicLabel, ...], Field(min_length=count, max_length=count), IN_ORDER]
    return create_model("TopicLabels", __base__=TopicLabels, __doc__=f"{count} labels, in order.", turns=(turns, ...))
