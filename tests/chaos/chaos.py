"""Kills and restarts at random until everything is judged: `make chaos`. Figures as a table and as JSON; 1 if broken."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from figures import Figures
from harness import Cluster, Setup, cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Fire:
    """When a random worker is killed, how often the broker restarts, and when (s) it all is to be over.

    After `calm_after` seconds nothing is killed any more, so that what is left can be judged.
    """

    kill_every: tuple[float, float] = (2.0, 3.0)
    broker_restarts: int = 2
    calm_after: float = 400.0
    deadline: float = 540.0


async def chaos(setup: Setup, fire: Fire) -> Figures:
    """Run it; what is missing at the deadline is lost."""
    async with cluster(setup) as running:
        under_fire = asyncio.gather(_kill(running, fire), _restart_broker(running, fire))
        finished = await running.finished(fire.deadline)
        if not finished:
            under_fire.cancel()
        await asyncio.gather(under_fire, return_exceptions=not finished)  # a kill that has begun comes to its end
        for each in running.workers:
            if not each.running:
                running.start(each)
        if finished:
            await asyncio.sleep(2.0)  # what is written twice is written now
        await running.drain(30.0)
        return running.figures()


def _under_fire(running: Cluster, fire: Fire) -> bool:
    return not running.done and time.monotonic() - running.began < fire.calm_after


async def _kill(running: Cluster, fire: Fire) -> None:
    while True:
        await asyncio.sleep(running.chance.uniform(*fire.kill_every))
        if not _under_fire(running, fire):
            return
        await running.kill(running.chance.choice(running.workers))


async def _restart_broker(running: Cluster, fire: Fire) -> None:
    """At even shares of the work; in order and by SIGKILL in turns."""
    for number in range(fire.broker_restarts):
        share = (number + 1) / (fire.broker_restarts + 1)
        while running.ledger.distinct < share * running.setup.turns * 2:
            await asyncio.sleep(0.2)
        await running.restart_broker(kill=number % 2 == 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=30_000)
    parser.add_argument("--rate", type=float, default=150.0, help="turns a second that are sent")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=540.0, help="when it is to be over")
    parser.add_argument("--keep", type=Path, help="a folder for what the workers say and export")
    given = parser.parse_args()
    setup = Setup(turns=given.turns, rate=given.rate, seed=given.seed, keep=given.keep)
    figures = asyncio.run(chaos(setup, Fire(calm_after=given.seconds * 0.75, deadline=given.seconds)))
    figures.show("chaos: 3 workers, SIGKILL every 2 to 3 s, broker restarts, a judge that fails 5 %")
    print(figures.json())
    sys.exit(1 if figures.broken() else 0)


if __name__ == "__main__":
    main()
