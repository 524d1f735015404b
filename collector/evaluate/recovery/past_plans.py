"""The configurations of a partition, from its control records and the plans of configurations that were taken."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Protocol

from collector.evaluate.plan import Plan
from collector.evaluate.recovery.configurations import UNNUMBERED, Configurations, Switch
from collector.evaluate.recovery.control_records import ControlRecord

UNTAKEN = 1 << 62
"""The first offset of a configuration that the partition's owner has not taken yet: after all records."""


class PlanHistory(Protocol):
    """The plans of all configurations that were taken."""

    async def plan_of(self, number: int, substitute: Plan | None = None) -> Plan | None:
        """A plan by its number, with judges that cannot be asked. If it can no longer be built here, it is the
        `substitute` with the evaluators' versions of then; None without one.

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


async def past_plans(numbers: Iterable[int], history: PlanHistory, substitute: Plan) -> list[Plan]:
    """The plans of configurations from before a replay point, without those that are unknown here."""
    return [plan for number in numbers if (plan := await history.plan_of(number, substitute)) is not None]


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
            former += [*((min(end, until), old_plan) for end, old_plan in unnumbered), (until, plan)]
        else:
            former.append((until, await history.plan_of(earlier, plan) or plan))
    if switches == [(start[0], UNNUMBERED)]:
        former += unnumbered
    # All configurations that an owner ever had, and those between. One whose switch is void may have finished earlier
    # evaluations, and an owner may have had a newer one than this process has read so far.
    switched = (switched_to for _, switched_to in switches)
    known = {number, *switched, *(control.configuration or number for control in controls)} - {0}
    others = (other for other in range(min(known), max(known) + 1) if other != number) if known else ()
    return Configurations(switches, plan, number, await past_plans(others, history, plan), former)
