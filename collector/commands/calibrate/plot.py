"""Scatter plot of agreement: a point for each label, the judge's score across, the person's up."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from random import Random

from collector.calibration.labels import HumanLabel

_SIZE, _EDGE = 360, 48


def plot_svg(labels: Sequence[HumanLabel], threshold: float, title: str) -> str:
    """An SVG document. Points are shifted a little, reproducibly, so that equal ones do not hide each other."""
    chance = Random(0)
    points = "".join(
        f'<circle cx="{_x(label.judge + chance.uniform(-0.01, 0.01)):.1f}" '
        f'cy="{_y(label.human + chance.uniform(-0.01, 0.01)):.1f}" r="3" fill="#2563eb" fill-opacity="0.5"/>'
        for label in labels
    )
    marks = "".join(
        f'<text x="{_x(level)}" y="{_y(0) + 18}" text-anchor="middle">{level:g}</text>'
        f'<text x="{_x(0) - 8}" y="{_y(level) + 4}" text-anchor="end">{level:g}</text>'
        for level in (0, 0.25, 0.5, 0.75, 1)
    )
    whole = _SIZE + 2 * _EDGE
    left, right, bottom, top = _x(0), _x(1), _y(0), _y(1)
    line = _x(threshold)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {whole} {whole}" '
        'font-family="sans-serif" font-size="12">'
        f'<rect width="{whole}" height="{whole}" fill="white"/>'
        f'<text x="{whole / 2}" y="24" text-anchor="middle" font-size="14">{escape(title)}</text>'
        f'<rect x="{left}" y="{top}" width="{_SIZE}" height="{_SIZE}" fill="none" stroke="#999"/>'
        f'<line x1="{left}" y1="{bottom}" x2="{right}" y2="{top}" stroke="#ccc"/>'
        f'<line x1="{line}" y1="{bottom}" x2="{line}" y2="{top}" stroke="#dc2626" stroke-dasharray="4"/>'
        f"{marks}{points}"
        f'<text x="{whole / 2}" y="{whole - 8}" text-anchor="middle">judge (dashed: threshold)</text>'
        f'<text x="14" y="{whole / 2}" transform="rotate(-90 14 {whole / 2})" text-anchor="middle">people</text>'
        "</svg>\n"
    )


def _x(value: float) -> float:
    return _EDGE + value * _SIZE


def _y(value: float) -> float:
    return _EDGE + (1 - value) * _SIZE
