"""A steady rate for a quarter of an hour with every fault in turn: `make soak`. Memory has to stay where it is; 1 if not.

The first worker lives through everything, and its memory is measured. Stores that are bounded but fill slowly (the
ledger's horizon, the ids that exporters know again) are made small, so that they are full before measuring begins.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from figures import Figures
from full_disk import DiskCorner, NoDisk, disk_corner
from harness import USUAL, Cluster, Setup, cluster, configuration
from workers import evalstream

BETWEEN_FAULTS = 8.0
SAMPLE_EVERY = 2.0
FLAT = 0.05
SESSION = 10.0
HORIZON = 150.0


def evalstream_of_short_memory(arguments: Sequence[str], stderr: str) -> None:
    """What the command `evalstream` does, with stores that are full within three minutes.

    The ledger's horizon stays longer than the longest freeze and what follows it: turns that are assembled again after
    a freeze would be beyond it, and judged again, which no freeze of a minute makes of a quarter of an hour.
    """
    from collector.evaluate.recovery.ledger import Ledger
    from collector.records import epochs

    assert Ledger.__init__.__kwdefaults__["horizon"] == 900.0
    Ledger.__init__.__kwdefaults__["horizon"] = HORIZON
    epochs.REMEMBERED = 200
    evalstream(arguments, stderr)


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Resident memory (MiB) of the worker that nobody kills: medians after warming up and at the end, and the most."""

    warm: float
    end: float
    most: float
    samples: int

    @property
    def growth(self) -> float:
        return self.end / self.warm - 1


def memory_of(samples: Sequence[int]) -> Memory:
    """The first third is warming up; the second is compared with the last."""
    mebibytes = [each / (1 << 20) for each in samples]
    third = len(mebibytes) // 3
    return Memory(
        warm=median(mebibytes[third : 2 * third]),
        end=median(mebibytes[2 * third :]),
        most=max(mebibytes),
        samples=len(samples),
    )


async def soak(setup: Setup, seconds: float) -> tuple[Figures, Memory, dict[str, int], list[str]]:
    """Run it; gives the figures, the memory, how often each fault was made, and what is wrong on the small disk."""
    made: dict[str, int] = {}
    samples: list[int] = []
    async with cluster(setup) as running, AsyncExitStack() as stack:
        corner = await _corner(running, stack)
        tasks = [
            asyncio.create_task(_faults(running, corner, made)),
            asyncio.create_task(_sample(running, samples)),
        ]
        await asyncio.sleep(seconds)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await _peace(running, corner)
        await running.finished(100.0)
        await asyncio.sleep(2.0)
        await running.drain(30.0)
        broken = await corner.broken(30.0) if corner is not None else []
        if corner is not None:
            made["turns accepted on the small disk"] = corner.accepted
            made["requests refused on the small disk"] = corner.refused
        return running.figures(), memory_of(samples), made, broken


async def _corner(running: Cluster, stack: AsyncExitStack) -> DiskCorner | None:
    """A service of one process on a small disk; None where none can be mounted."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="evalstream-disk-")))
    settings = configuration("disk", running.broker.bootstrap, running.judge_url, 8)
    try:
        return await stack.enter_async_context(disk_corner(folder, settings))
    except NoDisk as error:
        print(error, file=sys.stderr)
        return None


async def _sample(running: Cluster, samples: list[int]) -> None:
    while True:
        samples.append(running.workers[0].resident())
        await asyncio.sleep(SAMPLE_EVERY)


async def _faults(running: Cluster, corner: DiskCorner | None, made: dict[str, int]) -> None:
    for name, fault in itertools.cycle(FAULTS.items()):
        await asyncio.sleep(BETWEEN_FAULTS)
        if name == FULL_DISK:
            if corner is not None:
                await _full_disk(corner)
                made[name] = made.get(name, 0) + 1
            continue
        await fault(running)
        made[name] = made.get(name, 0) + 1


async def _full_disk(corner: DiskCorner) -> None:
    corner.disk.fill()
    await asyncio.sleep(10.0)
    corner.disk.free()


async def _peace(running: Cluster, corner: DiskCorner | None) -> None:
    """Whatever a fault has left half done."""
    if corner is not None:
        corner.disk.free()
    running.sink.calm()
    running.judge.faults = running.setup.faults
    if running.broker.running:
        running.broker.go_on()
    else:
        await asyncio.to_thread(running.broker.start)
    for each in running.workers:
        if each.running:
            each.send(signal.SIGCONT)


async def _kill_worker(running: Cluster) -> None:
    await running.kill(running.chance.choice(running.workers[1:]))


async def _replace_worker(running: Cluster) -> None:
    await running.replace(running.chance.choice(running.workers[1:]))


def _freeze_worker(seconds: float) -> Callable[[Cluster], Awaitable[None]]:
    async def fault(running: Cluster) -> None:
        worker = running.chance.choice(running.workers[1:])
        if worker.running:
            worker.send(signal.SIGSTOP)
            await asyncio.sleep(seconds)
            worker.send(signal.SIGCONT)

    return fault


def _judge(seconds: float, **faults: Any) -> Callable[[Cluster], Awaitable[None]]:
    async def fault(running: Cluster) -> None:
        running.judge.faults = replace(USUAL, **faults)
        await asyncio.sleep(seconds)
        running.judge.faults = running.setup.faults

    return fault


def _broker(*, kill: bool, away: float = 0.0) -> Callable[[Cluster], Awaitable[None]]:
    async def fault(running: Cluster) -> None:
        await running.restart_broker(kill=kill, away=away)

    return fault


def _freeze_broker(seconds: float) -> Callable[[Cluster], Awaitable[None]]:
    async def fault(running: Cluster) -> None:
        running.broker.pause()
        await asyncio.sleep(seconds)
        running.broker.go_on()

    return fault


def _sink(
    seconds: float, status: int = 200, *, page: bool = False, overclaims: bool = False
) -> Callable[[Cluster], Awaitable[None]]:
    async def fault(running: Cluster) -> None:
        running.sink.status, running.sink.page, running.sink.overclaims = status, page, overclaims
        await asyncio.sleep(seconds)
        running.sink.calm()

    return fault


async def _delete_what_was_read(running: Cluster) -> None:
    """What retention does: the front of the logs goes, as far as nobody needs it any more."""
    assert running.logs is not None
    for log in (running.logs.spans, running.logs.turns):
        await log.truncate(time.time())


async def _elsewhere(_running: Cluster) -> None:
    """The fault is not the cluster's: see `_full_disk`."""


PAGE = "<html><body><h1>Service under maintenance</h1></body></html>"
FULL_DISK = "disk full for 10 s, under a service of its own"
FAULTS: dict[str, Callable[[Cluster], Awaitable[None]]] = {
    # First, as it makes the longest backlog: the memory that a process keeps of it belongs to warming up.
    "broker away for a minute": _broker(kill=False, away=60.0),
    "worker killed": _kill_worker,
    "judge fails half of the calls for 10 s": _judge(10.0, error_share=0.5),
    "broker restarted": _broker(kill=False),
    "worker stopped and replaced": _replace_worker,
    "judge answers nothing for 5 s": _judge(5.0, hang=True),
    FULL_DISK: _elsewhere,
    "broker frozen for 50 s, longer than every time-out": _freeze_broker(50.0),
    "judge answers 200 with a page for 10 s": _judge(10.0, reply=(200, PAGE)),
    "worker frozen for 5 s": _freeze_worker(5.0),
    "destination answers 401 for 15 s": _sink(15.0, 401),
    "worker frozen beyond its session": _freeze_worker(SESSION + 10.0),
    "what was read is deleted from the logs": _delete_what_was_read,
    "judge limits for 10 s": _judge(10.0, limited_share=0.5),
    "broker killed": _broker(kill=True),
    "judge refuses the key for 10 s": _judge(10.0, reply=(401, '{"error": {"message": "wrong key"}}')),
    "destination answers 500 for 15 s": _sink(15.0, 500),
    "judge fails 19 of 20 calls for 15 s": _judge(15.0, error_share=0.95),
    "destination answers 200 with a page for 15 s": _sink(15.0, page=True),
    "destination says that it refused more than was sent for 15 s": _sink(15.0, overclaims=True),
    "judge takes 2 s for 10 s": _judge(10.0, latency=2.0),
    "broker frozen for 5 s": _freeze_broker(5.0),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=760.0)
    parser.add_argument("--rate", type=float, default=10.0, help="turns a second")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="a folder for what the workers say and export")
    given = parser.parse_args()
    setup = Setup(
        turns=int(given.seconds * given.rate), rate=given.rate, seed=given.seed, keep=given.keep,
        entry=evalstream_of_short_memory, session=SESSION, sink=True,
    )  # fmt: skip
    began = time.monotonic()
    figures, memory, made, on_disk = asyncio.run(soak(setup, given.seconds))
    shown = [
        ("memory after warming up, MiB", f"{memory.warm:.1f}"),
        ("memory at the end, MiB", f"{memory.end:.1f}"),
        ("most memory, MiB", f"{memory.most:.1f}"),
        ("growth", f"{memory.growth:+.1%}"),
        *((name, str(times)) for name, times in made.items()),
    ]
    figures.show(f"soak: {given.rate:g} turns a second, all faults in turn", shown)
    broken = [each for each in figures.broken() if "repeated" not in each] + on_disk
    if memory.growth > FLAT:
        broken.append(f"memory has grown by {memory.growth:.1%}")
    faults = {"seconds_in_all": round(time.monotonic() - began), "faults": made, "broken": broken}
    print(json.dumps(asdict(figures) | {"memory": asdict(memory) | {"growth": memory.growth}} | faults))
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
