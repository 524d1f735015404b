"""What a stage and a copy know of a service that has had one configuration."""

from __future__ import annotations

from collector.evaluate.plan import Plan
from collector.evaluate.recovery.configurations import UNNUMBERED
from collector.evaluate.stage import StageDefinitions
from collector.logs.memory import MemoryLog


class OnePlan:
    """The history of a service whose configuration never changed."""

    number = UNNUMBERED

    async def plan_of(self, number: int, _substitute: Plan | None = None) -> Plan | None:
        raise AssertionError(f"configuration {number}")


def one_plan() -> StageDefinitions:
    return StageDefinitions(OnePlan(), MemoryLog("definitions", partitions=1))
