"""What a command may spend on judges: known before an evaluation begins, not when the bill is there."""

from __future__ import annotations

from collections.abc import Iterable

from collector.config.loading import Config
from collector.errors import ConfigError
from collector.evaluate.plan import Assignment, Job


class Allowance:
    """US dollars that a run may spend; None for as many as it takes.

    An evaluation begins only where the most that one of its evaluator has cost so far, or is expected to, still fits
    beside those under way. So the limit is passed only by what an evaluation costs beyond all before it.
    """

    def __init__(self, max_usd: float | None) -> None:
        self.max_usd = max_usd
        self.spent = 0.0
        self._reserved: dict[str, float] = {}
        self._dearest: dict[str, float] = {}

    def reserve(self, job: Job) -> bool:
        """Whether the job may begin; its price is set aside until `settle`."""
        assignment = job.assignment
        usd = max(assignment.expected_usd, self._dearest.get(assignment.evaluator.name, 0.0))
        if self.max_usd is not None and usd and self.spent + sum(self._reserved.values()) + usd > self.max_usd:
            return False
        self._reserved[job.evaluation_id] = usd
        return True

    def settle(self, job: Job, usd: float | None) -> None:
        """The job has ended and cost so much."""
        del self._reserved[job.evaluation_id]
        name = job.assignment.evaluator.name
        self._dearest[name] = max(self._dearest.get(name, 0.0), usd or 0.0)
        self.spent += usd or 0.0


def require_prices(config: Config, judges: Iterable[str]) -> None:
    """A limit in dollars needs to know what judges cost.

    Raises:
        ConfigError: one of them has no price.
    """
    for judge in sorted({member for each in judges for member in config.settings.members(each)}):
        if not config.settings.judges[judge].priced:
            raise ConfigError(
                f"--max-usd: what judge {judge} costs is not known; "
                f"write judges.{judge}.usd_per_million_input_tokens and usd_per_million_output_tokens"
            )


def judges_of(config: Config, assignments: Iterable[Assignment]) -> set[str]:
    """The names of the judges that these evaluators ask in a configuration."""
    named = (config.evaluators[each.evaluator.name].judge for each in assignments)
    return {each for each in named if each is not None}
