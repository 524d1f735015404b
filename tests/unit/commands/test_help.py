"""The help of `evalstream`."""

from __future__ import annotations

import typer.main
from typer.testing import CliRunner

from collector.cli import COMMANDS, app


def test_every_command_is_under_one_heading() -> None:
    listed = [name for names in COMMANDS.values() for name in names]
    assert sorted(listed) == sorted(typer.main.get_group(app).commands)


def test_no_summary_is_cut_off_in_80_columns() -> None:
    text = CliRunner().invoke(app, ["--help"], terminal_width=80).output
    assert all(heading in text for heading in COMMANDS)
    assert "..." not in text.partition("\n")[2], "the first line is the usage"
