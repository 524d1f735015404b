"""Failed evaluations that are still owed: of the evaluations log, those that no later evaluation supersedes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from collector.logs.log import Log
from collector.past.evaluations import PastEvaluation, evaluations_in
from evaluators.results import Evaluation
from evaluators.skip_reasons import UNMADE


def is_unmade(evaluation: Evaluation) -> bool:
    """Whether it was skipped without being tried."""
    return evaluation.reason_code in UNMADE


@dataclass(frozen=True, slots=True)
class OwedEvaluations:
    """Those that are owed, the oldest first, and what a scored evaluation has cost on average, by evaluator."""

    evaluations: Sequence[PastEvaluation]
    mean_usd: Mapping[str, float]


def is_owed(evaluation: Evaluation) -> bool:
    """Whether it failed, or is a retry that was not even tried."""
    if evaluation.outcome == "failed":
        return True
    return evaluation.retry is not None and is_unmade(evaluation)


async def read_owed(log: Log, wanted: Callable[[Evaluation], bool]) -> OwedEvaluations:
    """The owed evaluations of the evaluations log that are `wanted`."""
    owed: dict[str, PastEvaluation] = {}
    superseded: set[str] = set()
    costs: dict[str, tuple[float, int]] = {}
    async for past in evaluations_in(log):
        evaluation = past.evaluation
        superseded.update(evaluation.supersedes)
        if evaluation.cost_usd is not None and evaluation.score is not None:
            total, number = costs.get(evaluation.evaluator, (0.0, 0))
            costs[evaluation.evaluator] = (total + evaluation.cost_usd, number + 1)
        if is_owed(evaluation) and wanted(evaluation):
            owed[evaluation.evaluation_id] = past
    left = sorted(
        (past for name, past in owed.items() if name not in superseded), key=lambda past: past.evaluation.ended_at
    )
    return OwedEvaluations(left, {name: total / number for name, (total, number) in costs.items()})
