"""The plan in a terminal: no line is wider than it."""

from __future__ import annotations

from collector.cli import fitting

LINE = "alerts     all/helpful: pages within a day in nine of ten cases at 0.62 instead of 0.75, " + "and so on " * 30


def test_lines_fit_the_terminal() -> None:
    first, *others = fitting(LINE, 80).splitlines()
    assert len(others) >= 4
    assert max(map(len, (first, *others))) <= 80
    assert all(line.startswith(" " * 13) for line in others)
    assert fitting("           - helpful (g_eval)", 80) == "           - helpful (g_eval)"
    assert fitting("", 80) == ""
