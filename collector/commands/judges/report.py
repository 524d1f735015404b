"""The figures of judges as a table with a conclusion, and as JSON.

Agreement of judges over their price, as a picture.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from html import escape

import orjson
from rich import box
from rich.table import Table

from collector.commands.judges.bench import Bench, Figure, JudgeFigures
from collector.commands.wide_console import wide_console
from collector.wording import listed, plural

_CHOICES = {"best": "best", "enough": "enough", "open": "open", "worse": "worse", "silent": "too few"}


def as_json(result: Bench, cases: int) -> str:
    """One JSON object."""
    return orjson.dumps({"cases": cases, **asdict(result)}).decode() + "\n"


def as_text(result: Bench, cases: int) -> str:
    """A row for each judge, and what follows."""
    console = wide_console()
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


_WIDTH, _HEIGHT, _EDGE = 460, 320, 60
_COLOURS = {"best": "#16a34a", "enough": "#16a34a", "open": "#ca8a04", "worse": "#dc2626", "silent": "#9ca3af"}


def bench_svg(result: Bench) -> str:
    """An SVG document: a point with its 95 % interval for each judge. Over time, where prices are unknown."""
    plotted = [figures for figures in result.figures if figures.agreement is not None]
    priced = bool(plotted) and all(figures.cost_usd is not None and figures.cost_usd.value > 0 for figures in plotted)
    across = _place([_amount(figures, priced=priced) for figures in plotted])
    lowest = min((_low(figures) for figures in plotted), default=0.0)
    floor = max(0.0, math.floor(lowest * 10) / 10)

    def up(value: float) -> float:
        return _EDGE + (1.0 - (value - floor) / max(1e-9, 1.0 - floor)) * _HEIGHT

    marks = "".join(_mark(figures, across(_amount(figures, priced=priced)), up) for figures in plotted)
    levels = "".join(
        f'<text x="{_EDGE - 8}" y="{up(floor + (1 - floor) * part) + 4:.1f}" text-anchor="end">'
        f"{floor + (1 - floor) * part:.2f}</text>"
        for part in (0, 0.25, 0.5, 0.75, 1)
    )
    amounts = sorted({_amount(figures, priced=priced) for figures in plotted})
    ends = "".join(
        f'<text x="{across(each):.1f}" y="{_EDGE + _HEIGHT + 18}" text-anchor="middle">{each:.3g}</text>'
        for each in dict.fromkeys((*amounts[:1], *amounts[-1:]))
    )
    unit = "USD for 1,000 evaluations" if priced else "seconds for an evaluation"
    width, height = _WIDTH + 2 * _EDGE, _HEIGHT + 2 * _EDGE
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="12">'
        f'<rect width="{width}" height="{height}" fill="white"/>'
        f'<text x="{width / 2}" y="28" text-anchor="middle" font-size="14">'
        f"{escape(result.evaluator)}: agreement with people, 95 % intervals</text>"
        f'<rect x="{_EDGE}" y="{_EDGE}" width="{_WIDTH}" height="{_HEIGHT}" fill="none" stroke="#999"/>'
        f"{levels}{ends}{marks}"
        f'<text x="{width / 2}" y="{height - 14}" text-anchor="middle">{unit} (logarithmic)</text></svg>\n'
    )


def _amount(figures: JudgeFigures, *, priced: bool) -> float:
    if priced and figures.cost_usd is not None:
        return 1000 * figures.cost_usd.value
    return max(figures.seconds or 0.0, 1e-3)


def _low(judge: JudgeFigures) -> float:
    if judge.agreement is None:
        return 0.0
    return judge.agreement.interval[0] if judge.agreement.interval else judge.agreement.value


def _place(amounts: Sequence[float]) -> Callable[[float], float]:
    """The position of an amount across the picture, on a logarithmic scale."""
    logs = [math.log10(amount) for amount in amounts] or [0.0]
    first, span = min(logs), max(logs) - min(logs)
    return lambda amount: _EDGE + _WIDTH * (0.1 + 0.8 * ((math.log10(amount) - first) / span if span else 0.5))


def _mark(judge_figures: JudgeFigures, x: float, up: Callable[[float], float]) -> str:
    if judge_figures.agreement is None:
        return ""
    colour = _COLOURS[judge_figures.choice]
    low, high = judge_figures.agreement.interval or (judge_figures.agreement.value, judge_figures.agreement.value)
    y = up(judge_figures.agreement.value)
    return (
        f'<line x1="{x:.1f}" y1="{up(low):.1f}" x2="{x:.1f}" y2="{up(high):.1f}" stroke="{colour}"/>'
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>'
        f'<text x="{x + 8:.1f}" y="{y - 6:.1f}">{escape(judge_figures.judge)}</text>'
    )
