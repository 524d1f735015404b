"""Summaries of scores, as a table for people and as JSON for programs."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import orjson
from rich import box
from rich.console import Console
from rich.table import Table

from collector.commands.score.summary import ScoreSummary


def below(summary: ScoreSummary, line: float, *, lower_is_better: bool = False) -> bool:
    """Whether the mean is worse than the line, or there is none. Where less is better, the line is turned round."""
    if summary.mean is None:
        return True
    return summary.mean > turned(line) if lower_is_better else summary.mean < line


def turned(line: float) -> float:
    """The line for evaluators whose best score is 0."""
    return round(1.0 - line, 9)


def as_json(by_evaluator: Mapping[str, ScoreSummary], lower: Collection[str] = ()) -> str:
    """One JSON object by evaluator; `lower` are those for which lower is better."""
    return (
        orjson.dumps({name: _plain(summary, name in lower) for name, summary in by_evaluator.items()}).decode() + "\n"
    )


def _plain(summary: ScoreSummary, lower_is_better: bool) -> dict[str, object]:
    return {
        "direction": "lower_is_better" if lower_is_better else "higher_is_better",
        "scored": summary.scored,
        "skipped": summary.skipped,
        "failed": dict(summary.failed),
        "mean": summary.mean,
        "interval": summary.interval,
        "pass_share": summary.pass_share,
        "tokens": summary.tokens,
        "cost_usd": summary.cost_usd,
        **({"labels": dict(summary.labels.most_common())} if summary.labels else {}),
    }


def as_table(by_evaluator: Mapping[str, ScoreSummary], lower: Collection[str] = ()) -> str:
    """A table as text, coloured only on a terminal; `lower` are the evaluators for which lower is better."""
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("evaluator")
    for heading in ("scored", "mean", "95 % interval", "passed", "skipped", "failed", "cost"):
        table.add_column(heading, justify="right", overflow="fold")
    for name, summary in by_evaluator.items():
        table.add_row(f"{name} (lower is better)" if name in lower else name, *_cells(summary))
    console = Console()
    with console.capture() as captured:
        console.print(table)
        for name, summary in by_evaluator.items():
            if summary.labels:
                console.print(f"{name}: {_labels(summary)}", markup=False, highlight=False)
    return captured.get()


def _labels(summary: ScoreSummary) -> str:
    total = summary.labels.total()
    return ", ".join(f"{label} {count} ({count / total:.0%})" for label, count in summary.labels.most_common())


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
