"""The contents of the evaluations log: by id, by subject, and what backfills of a stretch have cost."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from collector.evaluate.retry.past_jobs import Stretch
from collector.logs.log import Log
from collector.past.evaluations import PastEvaluation, evaluations_in, is_owed, is_unmade, subject_key


@dataclass(slots=True)
class KnownEvaluations:
    """Known evaluations by these evaluators (all, if none are named), each in its version of now.

    `live` are ids of what was made as the traffic came. `by_subject` has the newest score's id of each evaluator and
    subject, None where none is a score. `owed` are failures and what was not even tried, if nothing supersedes it.
    `mean_usd` is what a scored evaluation has cost on average; `spent_usd` what backfills of the stretch, by the
    version of now, have cost.
    """

    versions: Mapping[str, str]
    stretch: Stretch
    ids: set[str] = field(default_factory=set[str])
    live: set[str] = field(default_factory=set[str])
    by_subject: dict[Hashable, str | None] = field(default_factory=dict[Hashable, str | None])
    owed: dict[str, PastEvaluation] = field(default_factory=dict[str, PastEvaluation])
    spent_usd: float = 0.0
    costs: dict[str, tuple[float, int]] = field(default_factory=dict[str, tuple[float, int]])
    ends: dict[int, int] = field(default_factory=dict[int, int])
    """How far each partition was read."""

    @property
    def mean_usd(self) -> dict[str, float]:
        """By evaluator, of those that were paid for."""
        return {name: total / number for name, (total, number) in self.costs.items()}

    async def read(self, log: Log) -> None:
        """Read the log to its end."""
        superseded: set[str] = set()
        for partition in range(log.partitions):
            self.ends[partition] = await log.end_offset(partition)
            async for past in evaluations_in(log, [partition]):
                superseded.update(past.evaluation.supersedes)
                self._add(past)
        for name in superseded:
            self.owed.pop(name, None)

    def _add(self, past: PastEvaluation) -> None:
        evaluation = past.evaluation
        self.ids.add(evaluation.evaluation_id)
        if evaluation.evaluator not in self.versions:
            return
        is_current = evaluation.evaluator_version == self.versions[evaluation.evaluator]
        if evaluation.happened_at is None:
            self.live.add(evaluation.evaluation_id)
        elif is_current and evaluation.happened_at in self.stretch:
            self.spent_usd += evaluation.cost_usd or 0.0
        key = subject_key(evaluation)
        scored = evaluation.evaluation_id if evaluation.score is not None else None
        self.by_subject[key] = scored or self.by_subject.get(key)
        if scored and evaluation.cost_usd is not None:
            total, number = self.costs.get(evaluation.evaluator, (0.0, 0))
            self.costs[evaluation.evaluator] = (total + evaluation.cost_usd, number + 1)
        if is_owed(evaluation) or is_unmade(evaluation):
            self.owed[evaluation.evaluation_id] = past
