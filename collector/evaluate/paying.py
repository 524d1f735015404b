"""Running a job, and paying for what is asked beyond it from the budgets that it is paid from itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from collector.evaluate.plan import Job
from collector.evaluate.purse import Purse
from collector.till import Till
from evaluators.cases import Conversation, Turn
from evaluators.evaluator import Evaluator
from evaluators.judge import Judge
from evaluators.run import Result, run


@dataclass(frozen=True, slots=True)
class PurseTill:
    """Pays for a job's canary. What was paid within a minute before a crash is not known after it."""

    purse: Purse
    job: Job
    partition: int
    clock: Callable[[], float]

    def open(self) -> bool:
        """See `Till.open`."""
        return self.purse.reserve(self._canary, self.clock())

    def close(self, usd: float | None) -> None:
        """See `Till.close`."""
        self.purse.settle(self._canary, self.partition, usd, self.clock())

    @property
    def _canary(self) -> Job:
        return replace(self.job, evaluation_id=f"canary of {self.job.evaluation_id}")


class Run(Protocol):
    """Judges a case, like `evaluators.run.run`; what it asks beyond that is paid from the till."""

    def __call__(
        self, evaluator: Evaluator[Any], case: Turn | Conversation, judge: Judge, *, now: Any, till: Till
    ) -> Awaitable[Result]:
        """Judge the case."""
        ...


async def run_alone(
    evaluator: Evaluator[Any],
    case: Turn | Conversation,
    judge: Judge,
    *,
    now: Any,
    till: Till,  # noqa: ARG001 - nothing more is asked
) -> Result:
    """Judge a case and ask nothing beyond."""
    return await run(evaluator, case, judge, now=now)
