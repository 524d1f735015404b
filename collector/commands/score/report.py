"""Summaries of scores, as a table for people and as JSON for programs."""

from __future__ import annotations

from collections.abc import Mapping

import orjson
from rich import box
from rich.console import Console
from rich.table import Table

from collector.commands.score.summary import ScoreSummary


def below(summary: ScoreSummary, line: float) -> bool:
    """Whether the mean is below the line, or there is none."""
    return summary.mean is None or summary.mean < line


def as_json(by_evaluator: Mapping[str, ScoreSummary]) -> str:
    """One JSON object by evaluator."""
    return orjson.dumps({name: _plain(summary) for name, summary in by_evaluator.items()}).decode() + "\n"


def _plain(summary: ScoreSummary) -> dict[str, object]:
    return {
        "scored": summary.scored,
        "skipped": summary.skipped,
        "failed": dict(summary.failed),
        "mean": summary.mean,
        "interval": summary.interval,
        "pass_share": summary.pass_share,
        "tokens": summary.tokens,
        "cost_usd": summary.cost_usd,
    }


def as_table(by_evaluator: Mapping[str, ScoreSummary]) -> str:
    """A table as text, coloured only on a terminal."""
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("evaluator")
    for heading in ("scored", "mean", "95 % interval", "passed", "skipped", "failed", "cost"):
        table.add_column(heading, justify="right", overflow="fold")
    for name, summary in by_evaluator.items():
        table.add_row(name, *_cells(summary))
    console = Console()
    with console.capture() as captured:
        console.print(table)
    return captured.get()


def _cells(summary: ScoreSummary) -> list[str]:
    interval = summary.interval
    return [
        str(summary.scored),
        "–" if summary.mean is None else f"{summary.mean:.3f}",
        "–" if interval is None else f"{interval[0]:.3f} … {interval[1]:.3f}",
        "–" if summary.pass_share is None else f"{summary.pass_share:.1%}",
        str(summary.skipped),
        ", ".join(f"{count} {type_}" for type_, count in summary.failed.items()) or "0",
        "–" if summary.cost_usd is None else f"{summary.cost_usd:.4f} USD",
    ]
