"""Failed evaluations that are still owed: of the evaluations log, those that no later evaluation supersedes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass

from collector.errors import BadInput
from collector.logs.log import Log
from collector.records.epochs import valid_evaluations
from collector.records.json import evaluation_from_json
from evaluators.results import Evaluation
from evaluators.skip_reasons import UNMADE


def is_unmade(evaluation: Evaluation) -> bool:
    """Whether it was skipped without being tried."""
    return evaluation.reason_code in UNMADE


@dataclass(frozen=True, slots=True)
class OwedEvaluation:
    """A failed evaluation, and the partition of the evaluations log that it is in."""

    evaluation: Evaluation
    partition: int


@dataclass(frozen=True, slots=True)
class OwedEvaluations:
    """Those that are owed, the oldest first, and what a scored evaluation has cost on average, by evaluator."""

    evaluations: Sequence[OwedEvaluation]
    mean_usd: Mapping[str, float]


def is_owed(evaluation: Evaluation) -> bool:
    """Whether it failed, or is a retry that was not even tried."""
    if evaluation.outcome == "failed":
        return True
    return evaluation.retry is not None and is_unmade(evaluation)


async def read_owed(log: Log, wanted: Callable[[Evaluation], bool]) -> OwedEvaluations:
    """The owed evaluations of the evaluations log that are `wanted`."""
    owed: dict[str, OwedEvaluation] = {}
    superseded: set[str] = set()
    costs: dict[str, tuple[float, int]] = {}
    for partition in range(log.partitions):
        async for evaluation in _evaluations(log, partition):
            superseded.update(evaluation.supersedes)
            if evaluation.cost_usd is not None and evaluation.score is not None:
                total, number = costs.get(evaluation.evaluator, (0.0, 0))
                costs[evaluation.evaluator] = (total + evaluation.cost_usd, number + 1)
            if is_owed(evaluation) and wanted(evaluation):
                owed[evaluation.evaluation_id] = OwedEvaluation(evaluation, partition)
    left = sorted(
        (evaluation for name, evaluation in owed.items() if name not in superseded),
        key=lambda each: each.evaluation.ended_at,
    )
    return OwedEvaluations(left, {name: total / number for name, (total, number) in costs.items()})


async def _evaluations(log: Log, partition: int) -> AsyncIterator[Evaluation]:
    async for record in valid_evaluations(log, partition):
        try:
            yield evaluation_from_json(record.value)
        except BadInput:
            continue  # the exporters report it
