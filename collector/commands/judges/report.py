"""The figures of judges as a table with a conclusion, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

import orjson
from rich import box
from rich.console import Console
from rich.table import Table

from collector.commands.judges.bench import Bench, Figure, JudgeFigures
from collector.wording import listed, plural

_CHOICES = {"best": "best", "enough": "enough", "open": "open", "worse": "worse", "silent": "too few"}


def as_json(result: Bench, cases: int) -> str:
    """One JSON object."""
    return orjson.dumps({"cases": cases, **asdict(result)}).decode() + "\n"


def as_text(result: Bench, cases: int) -> str:
    """A row for each judge, and what follows."""
    console = Console()
    with console.capture() as captured:
        console.print(_table(result, cases))
        for line in _conclusions(result):
            console.print(line, highlight=False)
    return captured.get()


def _table(result: Bench, cases: int) -> Table:
    table = Table(
        title=f"{result.evaluator}: {plural(cases, 'labelled case')}", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    table.add_column("judge", overflow="fold", min_width=12)
    for name in ("scored", "agreement", "behind", "again", "USD/1k", "s"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for figures in result.figures:
        table.add_row(
            figures.judge,
            f"{figures.scored}/{figures.cases}",
            _figure(figures.agreement),
            _behind(figures.behind),
            "–" if figures.repeatability is None else f"{figures.repeatability.value:.2f}",
            "–" if figures.cost_usd is None else f"{1000 * figures.cost_usd.value:.3g}",
            "–" if figures.seconds is None else f"{figures.seconds:.2f}",
            _CHOICES[figures.choice],
        )
    return table


def _figure(figure: Figure | None) -> str:
    if figure is None:
        return "–"
    if figure.interval is None:
        return f"{figure.value:.2f}"
    lowest, highest = figure.interval
    return f"{figure.value:.2f} ({lowest:.2f}…{highest:.2f})"


def _behind(figure: Figure | None) -> str:
    """With its upper end alone, which is what the margin is compared with."""
    if figure is None or figure.interval is None:
        return _figure(figure)
    return f"{figure.value:.2f} (≤{max(0.0, figure.interval[1]):.2f})"


def _conclusions(result: Bench) -> Iterator[str]:
    for figures in result.figures:
        if figures.failures:
            reasons = (f"{count} {reason}" for reason, count in sorted(figures.failures.items()))
            yield f"{figures.judge}: no score in some attempts: {', '.join(reasons)}"
    if result.take is None:
        return
    chosen = next(figures for figures in result.figures if figures.judge == result.take)
    yield f"Take {chosen.judge}: {_why(chosen, result)}"
    undecided = [figures.judge for figures in result.figures if figures.choice == "open"]
    if undecided:
        yield f"These cases do not decide about {listed(undecided)}: label more, or allow a larger --margin."


def _why(chosen: JudgeFigures, result: Bench) -> str:
    best = next(figures for figures in result.figures if figures.choice == "best")
    if chosen is best:
        return "it agrees with people best, and no cheaper one is proven to be enough."
    behind = chosen.behind.interval[1] if chosen.behind is not None and chosen.behind.interval is not None else 0.0
    price = ""
    if chosen.cost_usd is not None and best.cost_usd is not None and best.cost_usd.value:
        price = f", at {chosen.cost_usd.value / best.cost_usd.value:.0%} of its price"
    at_most = f"at most {max(0.0, behind):.3f} behind {best.judge} (95 %; allowed {result.margin:g})"
    return f"it is {at_most}{price}."
