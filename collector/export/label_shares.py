"""Shares of labels as scores: 1 where an evaluation has the label, else 0, so that a share is a mean like any other.

So means, standard errors and the drop detector serve for shares as they are, with the same bound on false alarms: it
holds for any scores in [0, 1]. The share of a label is a series of its own, named after evaluator and label.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from evaluators.results import Evaluation


def share_name(evaluator: str, label: str) -> str:
    """The name of a label's share, where evaluators are named: `outcome=escalated`."""
    return f"{evaluator}={label}"


def label_scores(evaluation: Evaluation, labels: Iterable[str]) -> Iterator[tuple[str, float | None]]:
    """The name of each label's share, and the score that an evaluation adds to it; None if it has no score."""
    for label in labels:
        share = None if evaluation.score is None else float(evaluation.label == label)
        yield share_name(evaluation.evaluator, label), share
