"""Kills and restarts at random until everything is judged: `make chaos`. Figures as a table and as JSON; 1 if broken."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from dataclasses import dataclass, replace
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
    broker_frozen: float = 0.0
    """Seconds for which the broker stands still, once, in the middle of the work."""
    worker_frozen: float = 0.0
    """The same for a worker, at a quarter of the work."""
    garbage: float = 0.0
    """Seconds for which the judge answers 200 with a page, at a fifth of the work; at seven tenths it fails 19 of 20
    calls, the destination answers with a page, and it says that it has refused more than was sent, each as long.
    """
    calm_after: float = 400.0
    deadline: float = 540.0


async def chaos(setup: Setup, fire: Fire) -> Figures:
    """Run it; what is missing at the deadline is lost."""
    async with cluster(setup) as running:
        under_fire = asyncio.gather(
            _kill(running, fire),
            _restart_broker(running, fire),
            _freeze_broker(running, fire),
            _freeze_worker(running, fire),
            _garble(running, fire),
        )
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
        await running.kill(running.chance.choice([each for each in running.workers if each.name not in running.frozen]))


async def _restart_broker(running: Cluster, fire: Fire) -> None:
    """At even shares of the work; in order and by SIGKILL in turns."""
    for number in range(fire.broker_restarts):
        share = (number + 1) / (fire.broker_restarts + 1)
        await _until(running, share)
        await running.restart_broker(kill=number % 2 == 1)


async def _until(running: Cluster, share: float) -> None:
    while running.share < share:
        await asyncio.sleep(0.2)


async def _freeze_broker(running: Cluster, fire: Fire) -> None:
    if fire.broker_frozen:
        await _until(running, 0.5)
        await running.freeze_broker(fire.broker_frozen)


async def _freeze_worker(running: Cluster, fire: Fire) -> None:
    """Nobody kills it meanwhile."""
    if fire.worker_frozen:
        await _until(running, 0.25)
        while not (free := [each for each in running.workers if each.running]):
            await asyncio.sleep(0.1)
        await running.freeze(running.chance.choice(free), fire.worker_frozen)


async def _garble(running: Cluster, fire: Fire) -> None:
    if fire.garbage:
        await _until(running, 0.2)
        running.judge.faults = replace(running.setup.faults, reply=(200, "<html><body>Maintenance</body></html>"))
        await asyncio.sleep(fire.garbage)
        running.judge.faults = running.setup.faults
        await _until(running, 0.7)
        running.judge.faults = replace(running.setup.faults, error_share=0.95)
        running.sink.page = True
        await asyncio.sleep(fire.garbage)
        running.judge.faults = running.setup.faults
        running.sink.page, running.sink.overclaims = False, True
        await asyncio.sleep(fire.garbage)
        running.sink.calm()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=30_000)
    parser.add_argument("--rate", type=float, default=150.0, help="turns a second that are sent")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=540.0, help="when it is to be over")
    parser.add_argument("--at-once", action="store_true", help="leave out the evaluations that wait for batches")
    parser.add_argument("--keep", type=Path, help="a folder for what the workers say and export")
    given = parser.parse_args()
    setup = Setup(turns=given.turns, rate=given.rate, seed=given.seed, keep=given.keep, deferred=not given.at_once,
        sink=True,
    )  # fmt: skip
    fire = Fire(
        calm_after=given.seconds * 0.75, deadline=given.seconds, broker_frozen=50.0, worker_frozen=60.0, garbage=10.0
    )
    figures = asyncio.run(chaos(setup, fire))
    figures.show(
        "chaos: 3 workers, SIGKILL every 2 to 3 s; broker restarted, killed, frozen for 50 s; a worker frozen for 60 s; a "
        "judge that fails 5 %, answers with a page for 10 s and fails 95 % for 10 s; a destination that answers with a "
        "page and claims to have refused more than was sent, 10 s each; a fifth of the turns judged in batches, too"
    )
    print(figures.json())
    sys.exit(1 if figures.broken() else 0)


if __name__ == "__main__":
    main()
