"""The console for tables: as wide as the terminal, or, without a terminal, wide enough for a log."""

import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.segment import Segment

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
