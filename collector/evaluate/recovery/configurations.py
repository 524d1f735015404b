"""The configuration in force at each offset of a partition, so that a replay judges by the configuration of then.

Configurations have numbers, in the order in which they were taken. Before a configuration applies to a partition, the
owner writes a control record with its number and first offset. The owner's newest configuration makes the unfinished
evaluations of earlier ones, so an evaluation is done if any of them has made it.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from typing import Protocol

from collector.evaluate.plan import Job, Plan
from collector.evaluate.recovery.control_records import ControlRecord

UNNUMBERED = 0
"""The number that stands for the configurations of earlier releases, which had no numbers."""

Switch = tuple[int, int]
"""An offset, and the number of the configuration that applies from there on."""
_OFFSET, _NUMBER = itemgetter(0), itemgetter(1)


UNTAKEN = 1 << 62
"""The first offset of a configuration that the partition's owner has not taken yet: after all records."""


_PAST = 8
"""The most earlier configurations that are remembered; a restart builds their plans."""


class PlanHistory(Protocol):
    """The plans of all configurations that were taken."""

    async def plan_of(self, number: int) -> Plan | None:
        """A plan by its number, with judges that cannot be asked; None if it can no longer be built here.

        Waits while the log that has it is unavailable.
        """
        ...


def switches_of(start: Switch, controls: Iterable[ControlRecord]) -> list[Switch]:
    """The switches of a partition from a replay point on, given the control records in the order of the log.

    A record voids earlier ones for the same or a later offset.
    """
    low, number = start
    switches = [start]
    for control in controls:
        if control.configuration is None:
            continue
        if control.offset >= low:
            while switches and switches[-1][0] >= control.offset:
                switches.pop()
            switches.append((control.offset, control.configuration))
        elif number == UNNUMBERED:  # an earlier release, which had no numbers, committed it
            switches[:1] = [(low, control.configuration)]
    return switches


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


async def past_plans(numbers: Iterable[int], history: PlanHistory) -> list[Plan]:
    """The plans of configurations from before a replay point, without plans that cannot be built here."""
    return [plan for number in numbers if (plan := await history.plan_of(number)) is not None]


async def configurations_of(
    start: Switch,
    controls: Sequence[ControlRecord],
    plan: Plan,
    number: int,
    history: PlanHistory,
    unnumbered: Iterable[tuple[int, Plan]] = (),
) -> Configurations:
    """The configurations of a partition since `start`, for an owner that has `plan` with this `number`.

    `unnumbered` are the plans of an earlier release. `plan` replaces a plan that can no longer be built here.
    """
    switches = switches_of(start, controls)
    if switches[-1][1] != number:  # the partition's owner still has another one, newer or older
        switches.append((UNTAKEN, number))
    former: list[tuple[int, Plan]] = []
    for (_, earlier), (until, _) in pairwise(switches):
        if earlier == UNNUMBERED:
            former += [(end, old_plan) for end, old_plan in unnumbered if end < until]
            after = [old_plan for end, old_plan in unnumbered if end >= until]
            former.append((until, after[0] if after else plan))
        else:
            former.append((until, await history.plan_of(earlier) or plan))
    if switches == [(start[0], UNNUMBERED)]:
        former += unnumbered
    # All configurations that an owner ever had, and those between. One whose switch is void may have finished earlier
    # evaluations, and an owner may have had a newer one than this process has read so far.
    switched = (switched_to for _, switched_to in switches)
    known = {number, *switched, *(control.configuration or number for control in controls)} - {0}
    others = (other for other in range(min(known), max(known) + 1) if other != number) if known else ()
    plans = [await history.plan_of(other) for other in others]
    return Configurations(switches, plan, number, [other for other in plans if other is not None], former)
