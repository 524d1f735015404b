"""The conversations that no monitor can want, whatever comes: their draw lies above every rate that can be. Pure.

Rates are lowered by budgets and plans and never raised above what is configured, so a conversation that is out at the
configured rates is out at all of them. A monitor that looks into turns to know what it watches, or how often, may want
any conversation; so may one whose rate is planned, since that may come to 1.
"""

from __future__ import annotations

from collections.abc import Iterator

from collector.evaluate.plan import Monitor, Plan


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
