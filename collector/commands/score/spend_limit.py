"""Spending limit of a command: applied before an evaluation begins, not when its cost is known."""

from collections.abc import Iterable, Sequence

from collector.config.configured import Config
from collector.errors import ConfigError
from collector.evaluate.plan import Assignment, Job


class SpendLimit:
    """US dollars that a run may spend; None for no limit.

    An evaluation begins only if the highest cost of its evaluator so far, or its expected cost, still fits beside the
    evaluations in flight. So the limit is exceeded only by an evaluation that costs more than all before it.
    """

    def __init__(self, max_usd: float | None) -> None:
        self.max_usd = max_usd
        self.spent = 0.0
        self._reserved: dict[str, float] = {}
        self._highest: dict[str, float] = {}

    def reserve(self, jobs: Sequence[Job]) -> bool:
        """Whether a job, or the jobs of a pack, may begin; their costs are reserved until `settle`."""
        needed = {job.evaluation_id: self._needed(job) for job in jobs}
        usd = sum(needed.values())
        if self.max_usd is not None and usd and self.spent + sum(self._reserved.values()) + usd > self.max_usd:
            return False
        self._reserved |= needed
        return True

    def _needed(self, job: Job) -> float:
        return max(job.assignment.expected_usd, self._highest.get(job.assignment.evaluator.name, 0.0))

    def settle(self, job: Job, usd: float | None) -> None:
        """The job has ended at this cost."""
        del self._reserved[job.evaluation_id]
        name = job.assignment.evaluator.name
        self._highest[name] = max(self._highest.get(name, 0.0), usd or 0.0)
        self.spent += usd or 0.0


def require_prices(config: Config, judges: Iterable[str]) -> None:
    """Check that the judges have prices, which a limit in dollars needs.

    Raises:
        ConfigError: one has no price.
    """
    for judge in sorted({member for each in judges for member in config.settings.members(each)}):
        if not config.settings.judges[judge].priced:
            raise ConfigError(
                f"--max-usd: the price of judge {judge} is unknown; "
                f"write judges.{judge}.usd_per_million_input_tokens and usd_per_million_output_tokens"
            )


def judges_of(config: Config, assignments: Iterable[Assignment]) -> set[str]:
    """The names of the judges that these evaluators use in a configuration."""
    judges = (config.evaluators[assignment.evaluator.name].judge for assignment in assignments)
    return {judge for judge in judges if judge is not None}
