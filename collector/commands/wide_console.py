"""The console for tables: as wide as the terminal, and wide enough for a log where there is none."""

from __future__ import annotations

import sys

from rich.console import Console

_WITHOUT_TERMINAL = 120
"""Columns; at 80 the names of evaluators and failures are cut in the logs of continuous integration."""


def wide_console() -> Console:
    """A console for what a command prints."""
    return Console(width=None if sys.stdout.isatty() else _WITHOUT_TERMINAL)
