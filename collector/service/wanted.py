"""The conversations that receivers and the assemble stage take for unwanted, by this configuration and the last.

The conversations that no monitor can want, whatever comes: their draw lies above every rate that can be. Pure.

Rates are lowered by budgets and plans and never raised above what is configured, so a conversation that is out at the
configured rates is out at all of them. A monitor that looks into turns to know what it watches, or how often, may want
any conversation; so may one whose rate is planned, since that may come to 1.
"""

from collections.abc import Collection, Iterator
from functools import lru_cache

from collector.evaluate.plan import Monitor, Plan
from collector.service.process import Process, unprepared


def can_be_wanted(key: str, plan: Plan) -> bool:
    """Whether an evaluator of any monitor may select the conversation with this key."""
    for monitor in plan.monitors:
        if monitor.reads_content:
            return True
        for assignment in monitor.assignments:
            if plan.draw(assignment, key) < monitor.probability(assignment, 1.0, 1.0):
                return True
    return False


def why_all_are_wanted(plan: Plan) -> str | None:
    """Why any conversation may be wanted; None if most are not."""
    return next((reason for monitor in plan.monitors for reason in _reasons(monitor)), None)


def _reasons(monitor: Monitor) -> Iterator[str]:
    name = f"monitor {monitor.name}"
    if monitor.match:
        yield f"{name} selects turns by what they contain (match)"
    if monitor.strata.boosts:
        yield f"{name} judges some turns more often by what they contain (boost)"
    if monitor.agent_runs:
        yield f"{name} watches the runs of agents inside turns"
    if monitor.standard_error is not None:
        yield f"the rate of {name} is planned and may come to 1 (sample: auto)"
    for assignment in monitor.assignments:
        if monitor.probability(assignment, 1.0, 1.0) >= 1.0:
            yield f"{name} evaluates every turn by {assignment.evaluator.name}"


_MOST_ANSWERS = 4096
"""Answers that are remembered: a receiver and the assemble stage ask of each turn, and a conversation has several."""
_LONGEST_KEY = 128
"""Characters of a key whose answer is remembered; longer ones would take memory."""


class WantedConversations:
    """Follows the configurations of a process.

    A conversation that the previous configuration could want is wanted, too: the evaluate stage, which is behind, may
    still judge by it.
    """

    def __init__(self, plan: Plan) -> None:
        self._take((plan,))

    def _take(self, plans: tuple[Plan, ...]) -> None:
        self._plans = plans
        self._selects = all(why_all_are_wanted(plan) is None for plan in plans)
        self._remembered = lru_cache(_MOST_ANSWERS)(self._can_be_wanted)

    def selects(self) -> bool:
        """Whether there are conversations that no monitor can want."""
        return self._selects

    def is_wanted(self, key: str) -> bool:
        """Whether a monitor can want the conversation with this key."""
        return self._remembered(key) if len(key) <= _LONGEST_KEY else self._can_be_wanted(key)

    def _can_be_wanted(self, key: str) -> bool:
        return any(can_be_wanted(key, plan) for plan in self._plans)

    async def take_over(self, process: Process) -> None:
        """See `Apply`."""
        self._take((process.plan, self._plans[0]))


def follow_wanted(process: Process, stages: Collection[str]) -> WantedConversations | None:
    """The conversations whose content the process stores, while its configurations change; None if those are all."""
    if process.config.settings.assemble.keep == "all" or not {"receive", "assemble"} & set(stages):
        return None
    wanted = WantedConversations(process.plan)
    process.changes.append(unprepared(wanted.take_over))
    return wanted
