"""Pieces of PromQL."""

import re
from collections.abc import Iterable, Sequence

from collector.alerting.rules.series import EARLY, GAP, PROCESS, PROCESS_FRESH


def growth(counter: str, window: str, by: Sequence[str]) -> str:
    """PromQL of the growth of counters in a window, by these labels.

    `increase()` extrapolates a counter that is younger than the window, each by a factor of its own: a mean was off by
    0.03 so, and its error ten times too small. The growth of such a counter is its whole value, if it began at 0 within
    the window (`series.PROCESS_FRESH`, recorded with this text of the window). If that is not known, as after
    Prometheus has lost its data, only the growth since the first sample is sure. If a process restarts, its counter has
    also grown before that: `increase()` adds both, but for what the counter held at its first scrape (`series.EARLY`).
    """
    name, brace, where = counter.partition("{")
    early = f"{EARLY[name]}{brace}{where}" if name in EARLY else ""
    first = f"({early} unless last_over_time({early}[{GAP}] offset {window}))"
    fresh = f"on ({PROCESS}) {PROCESS_FRESH}{selector(window=window)}"
    whole = f"{counter}{early and f' unless ignoring (early) {first}'} and {fresh}"
    exact = f"({whole} or {counter} - min_over_time({counter}[{window}]))"
    new = f"{exact} unless {counter} offset {window} unless resets({counter}[{window}]) > 0"
    return f"sum by ({', '.join(by)}) (({new}) or increase({counter}[{window}]){early and f' or {first}'})"


def duration(seconds: float) -> str:
    """A duration as PromQL writes it: `15m`, `90s`, `250ms`."""
    milliseconds = round(seconds * 1000)
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)):
        if milliseconds >= size and milliseconds % size == 0:
            # 24h rather than 1d: the longest window is a day, and the others are hours
            if unit == "d" and milliseconds // size == 1:
                continue
            return f"{milliseconds // size}{unit}"
    return f"{milliseconds}ms"


def selector(*matchers: str, **labels: str) -> str:
    """A selector for label values, and further matchers: `{evaluator="helpful",lambda=~"1|2"}`."""
    return "{" + ",".join((*(f"{name}={quoted(value)}" for name, value in labels.items()), *matchers)) + "}"


def quoted(value: str) -> str:
    """A string of PromQL."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def any_of(names: Iterable[str]) -> str:
    """The string of a matcher (`=~`) for one of these values, dots and the like escaped."""
    return quoted("|".join(re.escape(name).replace("\\-", "-") for name in names))
