"""The console for tables: as wide as the terminal, or, without a terminal, wide enough for a log."""

import sys
from collections.abc import Iterable
from typing import Any

from rich import box
from rich.console import Console
from rich.segment import Segment
from rich.table import Column, Table

from collector.telemetry.plain import printable

_WITHOUT_TERMINAL = 120
"""Columns; at 80 the names of evaluators and failures are cut in the logs of continuous integration."""


class _PlainConsole(Console):
    """A console on which no text moves the cursor, colours what follows, or turns the direction of writing."""

    def render(self, renderable: Any, options: Any = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


def wide_console() -> Console:
    """A console for what a command prints. Its texts are no markup."""
    width = None if sys.stdout.isatty() else _WITHOUT_TERMINAL
    return _PlainConsole(width=width, markup=False, emoji=False, highlight=False)


def figures_table(first: str, names: Iterable[str], *, whole: bool = False, **options: Any) -> Table:
    """A table with a column of texts, and columns of figures. In a narrow terminal, these stay `whole`, or fold."""
    figures = (Column(name, justify="right", overflow="fold", no_wrap=whole) for name in names)
    return Table(Column(first, overflow="fold"), *figures, box=box.SIMPLE_HEAD, **options)


def report_text(parts: Iterable[Table | str]) -> str:
    """Tables and sentences as text, coloured only on a terminal, where sentences are wrapped."""
    console = wide_console()
    with console.capture() as captured:
        for part in parts:
            console.print(part, soft_wrap=isinstance(part, str) and not console.is_terminal)
    return captured.get()
