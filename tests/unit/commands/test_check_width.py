"""The plan in a terminal: no line is wider than it; elsewhere a line stays a line."""

from __future__ import annotations

import os
import sys

import pytest

from collector.cli import fitting

LINE = "alerts     all/helpful: pages within a day in nine of ten cases at 0.62 instead of 0.75, " + "and so on " * 30


def test_lines_fit_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((80, 24)))
    first, *others = fitting(LINE).splitlines()
    assert len(others) >= 4
    assert max(map(len, (first, *others))) <= 80
    assert all(line.startswith(" " * 13) for line in others)
    assert fitting("           - helpful (g_eval)") == "           - helpful (g_eval)"
    assert fitting("") == ""


def test_elsewhere_a_line_stays_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False, raising=False)
    assert fitting(LINE) == LINE
