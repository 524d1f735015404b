"""The configuration in force at each offset of a partition, so that a replay judges by the configuration of then.

Configurations have numbers, in the order in which they were taken. Before a configuration applies to a partition, the
owner writes a control record with its number and first offset. The owner's newest configuration makes the unfinished
evaluations of earlier ones, so an evaluation is done if any of them has made it.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter

from collector.evaluate.plan import Job, Plan

UNNUMBERED = 0
"""The number that stands for the configurations of earlier releases, which had no numbers."""

Switch = tuple[int, int]
"""An offset, and the number of the configuration that applies from there on."""
_OFFSET, _NUMBER = itemgetter(0), itemgetter(1)


_PAST = 8
"""The most earlier configurations that are remembered; a restart builds their plans."""


@dataclass(frozen=True, slots=True)
class Configurations:
    """The configurations of one partition since its replay point. `plan`, of this `number`, makes unfinished
    evaluations.

    `others` are all other plans that may have made the due evaluations. `former` are the plans in force before the last
    switch, each up to an offset.
    """

    switches: Sequence[Switch]
    plan: Plan
    number: int = UNNUMBERED
    others: Sequence[Plan] = ()
    former: Sequence[tuple[int, Plan]] = ()

    def number_at(self, offset: int) -> int:
        """The number in force at an offset."""
        return self.switches[max(0, bisect_right(self.switches, offset, key=_OFFSET) - 1)][1]

    def past_at(self, offset: int, resumed: Iterable[int] = ()) -> tuple[int, ...]:
        """The newest numbers that were in force before the one at an offset, oldest first; `resumed` are older than all
        known.
        """
        over = bisect_right(self.switches, offset, key=_OFFSET) - 1
        numbers = [*resumed, *map(_NUMBER, self.switches[: max(0, over)])]
        return tuple(dict.fromkeys(filter(UNNUMBERED.__ne__, reversed(numbers))))[:_PAST][::-1]

    def by_others(self, job: Job) -> Sequence[Job]:
        """The job as each plan except `plan` would make it: one of them may have judged the same turn before.

        A request for a new evaluation after the last switch means `plan` alone.
        """
        if not self.others:
            return ()
        if job.trigger_offset >= self.switches[-1][0] and (job.retry is not None or job.happened_at is not None):
            return ()
        return [made for plan in self.others if (made := plan.successor_of(job)) is not None]

    def by_newest(self, job: Job) -> Job | None:
        """The job as `plan` makes it; None if `plan` no longer has its evaluator."""
        return job if job.trigger_offset >= self.switches[-1][0] else self.plan.successor_of(job)
