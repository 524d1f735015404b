"""The figures of `evalstream compare judges`: their intervals, and verdicts by labels."""

from random import Random
from typing import Any

from collector.commands.judges.bench import Attempt, JudgedCase, LossScale, Place, mean_figure
from collector.statistics.agreement import ScoreScale
from evaluators.turn.classifier import Classifier


def test_the_interval_does_not_depend_on_the_order_in_which_scores_come() -> None:
    """Cases in the order of a set gave other intervals in each run."""
    chance = Random(1)
    values = {f"case {number}": chance.random() for number in range(60)}
    places = {case: Place(f"c{number // 2}", 1.0 + number % 3) for number, case in enumerate(values)}
    shuffled = dict(chance.sample(sorted(values.items()), len(values)))
    assert mean_figure(values, places) == mean_figure(shuffled, places)


def test_a_label_that_fails_agrees_with_people_who_find_the_answer_bad() -> None:
    """It scores 0.5, which by the score alone passes."""
    labels: Any = {"good": {"meaning": "m", "pass": True}, "unsure": {"meaning": "n", "score": 0.5, "pass": False}}
    scale = LossScale(ScoreScale.of(Classifier(name="right", question="?", labels=labels)), verdicts=True)
    attempts = tuple(Attempt(score, None, None, 1.0, passed) for score, passed in ((0.5, False), (1.0, True)))
    assert scale.loss(JudgedCase("0", "c", 0.0, attempts[:1])) == 0.0
    assert scale.loss(JudgedCase("0", "c", 0.0, attempts)) == 0.5
    assert scale.alike((0.5, False), (1.0, True)) == 0.0
