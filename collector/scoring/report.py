"""Tallies as a table for people and as JSON for programs."""

from __future__ import annotations

from collections.abc import Mapping

import orjson
from rich import box
from rich.console import Console
from rich.table import Table

from collector.scoring.summary import Tally


def below(tally: Tally, line: float) -> bool:
    """Whether the mean misses the line; without scores it does."""
    return tally.mean is None or tally.mean < line


def as_json(by_evaluator: Mapping[str, Tally]) -> str:
    """One JSON object by evaluator."""
    return orjson.dumps({name: _plain(tally) for name, tally in by_evaluator.items()}).decode() + "\n"


def _plain(tally: Tally) -> dict[str, object]:
    return {
        "scored": tally.scored,
        "skipped": tally.skipped,
        "failed": dict(tally.failed),
        "mean": tally.mean,
        "interval": tally.interval,
        "pass_share": tally.pass_share,
        "tokens": tally.tokens,
        "cost_usd": tally.cost_usd,
    }


def as_table(by_evaluator: Mapping[str, Tally]) -> str:
    """A table as text, coloured only on a terminal that wants it."""
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("evaluator")
    for heading in ("scored", "mean", "95 % interval", "passed", "skipped", "failed", "cost"):
        table.add_column(heading, justify="right", overflow="fold")
    for name, tally in by_evaluator.items():
        table.add_row(name, *_cells(tally))
    console = Console()
    with console.capture() as captured:
        console.print(table)
    return captured.get()


def _cells(tally: Tally) -> list[str]:
    interval = tally.interval
    return [
        str(tally.scored),
        "–" if tally.mean is None else f"{tally.mean:.3f}",
        "–" if interval is None else f"{interval[0]:.3f} … {interval[1]:.3f}",
        "–" if tally.pass_share is None else f"{tally.pass_share:.1%}",
        str(tally.skipped),
        ", ".join(f"{count} {type_}" for type_, count in tally.failed.items()) or "0",
        "–" if tally.cost_usd is None else f"{tally.cost_usd:.4f} USD",
    ]
