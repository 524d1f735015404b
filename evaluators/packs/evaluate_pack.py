"""Evaluation of one case by several evaluators in a pack, and the version that marks such evaluations."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any

from evaluators.cases import Conversation, Turn
from evaluators.evaluation import Result, evaluate, utc_now
from evaluators.evaluator import Evaluator
from evaluators.identity import judged_version
from evaluators.judge import Judge
from evaluators.judges.wrapper import members_of, with_members
from evaluators.packs.pack import Pack, PackSeat
from evaluators.packs.packed_prompt import PACK_PROMPTS
from evaluators.prompts import load

PACK_REVISION = 2
"""Counts changes in how a pack is asked and read that are not in its template: part of every packed version."""


def packed_version(evaluator: Evaluator[Any], model: str, pack: Sequence[Evaluator[Any]]) -> str:
    """The version of an evaluator that a judge's model answers in a pack: 12 hex digits.

    It differs from the version of the evaluator alone, and changes with the definition of any evaluator in the pack:
    the other questions shift scores a little.
    """
    others = sorted(evaluator.version for evaluator in pack)
    frame = [load(name) for name in PACK_PROMPTS]
    parts = [judged_version(evaluator, model), "pack", str(PACK_REVISION), *frame, *others]
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:12]


class SeatedJudges:
    """One judge for each evaluator of a pack: a seat, or for a jury or a cascade as many seats as it has judges."""

    def __init__(self, judge: Judge, size: int) -> None:
        self._seats = list(zip(*(Pack(member, size).seats for member in members_of(judge)), strict=True))
        self.judges: Sequence[Judge] = [_seated(judge, seats) for seats in self._seats]

    def leave(self, number: int) -> None:
        """The evaluator with this number has ended."""
        for seat in self._seats[number]:
            seat.leave()


def _seated(judge: Judge, seats: Sequence[PackSeat]) -> Judge:
    """The judge with its members at their seats."""
    following = iter(seats)
    return with_members(judge, lambda _: next(following))


async def run_pack(judge: Judge, runs: Sequence[Callable[[Judge], Awaitable[Result]]]) -> list[Result]:
    """Run evaluations of one case side by side, each with its seat in a pack as its judge."""
    seated = SeatedJudges(judge, len(runs))

    async def run(number: int) -> Result:
        try:
            return await runs[number](seated.judges[number])
        finally:
            seated.leave(number)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(run(number)) for number in range(len(runs))]
    return [task.result() for task in tasks]


async def evaluate_pack(
    evaluators: Sequence[Evaluator[Any]],
    case: Turn | Conversation,
    judge: Judge,
    *,
    now: Callable[[], datetime] = utc_now,
) -> list[Result]:
    """Evaluate a case by several evaluators whose questions go out together; the results are in their order.

    See `evaluators.evaluate` for each result: a failure or refusal does not change the others.
    """

    def run_of(evaluator: Evaluator[Any]) -> Callable[[Judge], Awaitable[Result]]:
        return lambda seat: evaluate(evaluator, case, seat, now=now)

    return await run_pack(judge, [run_of(evaluator) for evaluator in evaluators])
