"""Agreement of judges over their price, as a picture."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape

from collector.commands.judges.bench import Bench, JudgeFigures

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
