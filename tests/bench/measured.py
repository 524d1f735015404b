"""What a benchmark measures, as lines of JSON from its process to `run.py`, and small tools for measuring.

CPU time is user and system time of all threads of a process. Where floor and figure are compared, they are measured by
turns in one run, and the ratio is the median of the ratios of the pairs: another load on the machine hits both alike.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Figure:
    """A measured figure: the median of `repeats` in `unit`. `floor` and `ratio` where something is measured beside it.

    `aim` is a bound on the ratio, or on the value where there is no floor; None for no aim. It is the most that is
    allowed, or the least with `at_least`.
    """

    group: str
    name: str
    unit: str
    repeats: tuple[float, ...]
    floor: float | None = None
    ratio: float | None = None
    aim: float | None = None
    at_least: bool = False
    note: str = ""
    value: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", statistics.median(self.repeats))

    @property
    def reached(self) -> bool | None:
        """Whether the aim is; None without one."""
        measured = self.value if self.ratio is None else self.ratio
        if self.aim is None:
            return None
        return measured >= self.aim if self.at_least else measured <= self.aim

    def show(self) -> None:
        """Give it to who runs the benchmark."""
        print(json.dumps(asdict(self)), flush=True)


def read_figure(line: str) -> Figure:
    """What `show` printed."""
    plain = json.loads(line)
    plain.pop("value")
    return Figure(**plain | {"repeats": tuple(plain["repeats"])})


def arguments(what: str) -> argparse.Namespace:
    """`--smoke` (seconds, only to see that it works), `--long` (as long as it takes)."""
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--smoke", action="store_true", help="as little as shows that it works")
    parser.add_argument("--long", action="store_true", help="full sizes, however long it takes")
    return parser.parse_args()


def cpu_of(work: Callable[[], object]) -> float:
    """Seconds of CPU."""
    start = time.process_time()
    work()
    return time.process_time() - start


def by_turns(repeats: int, floor: Callable[[], object], work: Callable[[], object]) -> tuple[list[float], list[float]]:
    """CPU of both, measured in pairs; the first pair only warms up."""
    pairs = [(cpu_of(floor), cpu_of(work)) for _ in range(repeats + 1)][1:]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def beside(
    group: str, name: str, unit: str, floors: Sequence[float], works: Sequence[float], scale: float, **more: object
) -> Figure:
    """A figure beside its floor; `scale` makes the unit out of seconds."""
    ratio = statistics.median(work / floor for floor, work in zip(floors, works, strict=True))
    return Figure(
        group, name, unit, tuple(each * scale for each in works), statistics.median(floors) * scale, ratio, **more
    )  # type: ignore[arg-type]


def cpu_seconds(pid: int) -> float:
    """CPU that a process has used until now."""
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / TICKS


def resident(pid: int | str = "self") -> float:
    """Resident memory of a process in MB."""
    line = next(each for each in Path(f"/proc/{pid}/status").read_text().splitlines() if each.startswith("VmRSS"))
    return int(line.split()[1]) / 1000
