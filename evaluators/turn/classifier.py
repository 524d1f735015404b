"""A judge's classification of a turn by labels of the user's own."""

from typing import ClassVar

from evaluators.asking.judge_input import ProgramField, TurnField, build_judge_input
from evaluators.asking.reading import ReadingSettings
from evaluators.cases import Turn
from evaluators.evaluator import Example
from evaluators.judge import Judge
from evaluators.mechanisms.classification import Classification, OwnLabels
from evaluators.mechanisms.rating import UniqueNames
from evaluators.results import Score


class Classifier(ReadingSettings, OwnLabels, Classification[Turn]):
    """Assigns one of your labels to a turn: a topic, an intent, a failure mode.

    The judge gives a reason and one label. The score is the label's `score`; without one, 0 if the label has
    `pass: false`, else 1. If the judge gives token probabilities, they weight the labels' scores, and `details` has
    each label's probability, the `confidence` in the chosen one, and the `entropy` in bits.
    """

    kind: ClassVar[str] = "classifier"
    example: ClassVar[Example] = {
        "question": "What does the user want?",
        "labels": {
            "refund": "Money back for an order.",
            "delivery": "When or where an order arrives.",
            "other": "All else.",
        },
    }

    evaluation_params: UniqueNames[TurnField | ProgramField] = ("input", "actual_output")
    """The turn's fields that the judge is shown, and must have."""

    @property
    def requires(self) -> frozenset[str]:
        """The fields of `evaluation_params`."""
        return frozenset(self.evaluation_params)

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        instructions = self.instructions(self.question, self.evaluation_params, self.examples)
        material = build_judge_input(case, self.evaluation_params, self.longest_text)
        return await self.classify(judge, instructions, material)
