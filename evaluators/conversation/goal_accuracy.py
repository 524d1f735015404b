"""Goal accuracy: did the user reach their goal, in a sensible way?"""

from functools import cache
from typing import Annotated, ClassVar

from pydantic import BeforeValidator, Field

from evaluators.asking.reading import ReadingSettings, read_further
from evaluators.asking.transcript import TranscriptSettings, build_transcript
from evaluators.cases import Conversation, Json
from evaluators.evaluator import Evaluator
from evaluators.judge import Answer, Judge, Prompt
from evaluators.mechanisms.scoring import weighed_mean
from evaluators.prompts import load
from evaluators.questions import QuestionGroup, ScoreQuestion, guide_before, score_levels
from evaluators.results import Score
from evaluators.scale import Reply, Scale, reject_bool

SCALE = Scale(0, 10)

_Points = Annotated[int, Field(ge=SCALE.lowest, le=SCALE.highest), BeforeValidator(reject_bool)]


class PlanAndGoal(Reply):
    """How the application went about it, and what it came to."""

    plan_reason: str
    plan_score: _Points
    goal_reason: str
    goal_score: _Points


class GoalAccuracy(ReadingSettings, TranscriptSettings, Evaluator[Conversation]):
    """The mean of two scores from 0 to 10: for the way to the user's goal, and for reaching it.

    The judge sees all turns with their tool calls, and the conversation's expected outcome if it has one. If both
    scores have token probabilities, each is the mean over the scale, weighted by them.
    """

    kind: ClassVar[str] = "goal_accuracy"
    all_typed: ClassVar[bool] = True
    needed_fields: ClassVar[frozenset[str]] = frozenset({"turns.input", "turns.actual_output"})
    scope: ClassVar = "conversation"
    prompts: ClassVar[tuple[str, ...]] = ("goal_accuracy.txt",)
    revision: ClassVar[int] = 2

    @property
    def score_range(self) -> tuple[float, float]:
        """The ends of both scales."""
        return SCALE.bounds

    async def evaluate(self, case: Conversation, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        expected: dict[str, Json] = {"expected_outcome": case.expected_outcome} if case.expected_outcome else {}
        whole = build_transcript(case, ("tools_called",), self).beside(expected)
        material = await read_further(self, judge, load("goal_accuracy.txt"), whole)
        prompt = Prompt(load("goal_accuracy.txt"), material.content, groups=(_typed_questions(),))
        answer = (await judge.ask(prompt, PlanAndGoal, logprobs=True)).answers[0]
        reply = answer.reply
        raw = (reply.plan_score + reply.goal_score) / 2
        details: dict[str, Json] = {"plan_score": reply.plan_score, "goal_score": reply.goal_score}
        # Both or neither: no `method` describes the mean of a weighted and a plain number.
        plan, goal = _means(answer)
        weighted = None if plan is None or goal is None else (plan + goal) / 2
        if weighted is not None:
            details |= {"expected": {"plan_score": plan, "goal_score": goal}}
        return Score(
            value=SCALE.normalize(raw if weighted is None else weighted),
            raw_score=raw,
            range=SCALE.bounds,
            method="decision" if answer.decisions else "single" if weighted is None else "logprobs",
            explanation=None if answer.decisions else f"Goal: {reply.goal_reason} Plan: {reply.plan_reason}",
            details=details | material.details,
        )


def _means(answer: Answer[PlanAndGoal]) -> tuple[float | None, float | None]:
    """The mean of each score by the judge's probabilities; None if they cannot be trusted."""
    if answer.decisions:
        plan, goal = answer.decisions
        return plan.mean(), goal.mean()
    return weighed_mean(answer, SCALE, "plan_score"), weighed_mean(answer, SCALE, "goal_score")


@cache
def _typed_questions() -> QuestionGroup:
    """The typed form of the question, for a judge that decides: one score question for each of the two."""
    levels = score_levels(SCALE)
    return QuestionGroup(
        guide_before(load("goal_accuracy.txt"), "Each gets a whole number"),
        (
            ScoreQuestion(("plan_score",), "How good is the plan?", levels),
            ScoreQuestion(("goal_score",), "How far was the goal reached?", levels),
        ),
    )
