"""The help of `evalstream`."""

from __future__ import annotations

import pytest
import typer.main
from typer.testing import CliRunner

from collector.cli import COMMANDS, USUAL_WAYS, app
from collector.commands.usage import HABITS


def test_every_command_is_under_one_heading() -> None:
    listed = [name for names in COMMANDS.values() for name in names]
    assert sorted(listed) == sorted(typer.main.get_group(app).commands)


def test_no_summary_is_cut_off_in_80_columns() -> None:
    text = CliRunner().invoke(app, ["--help"], terminal_width=80).output
    assert all(heading in text for heading in COMMANDS)
    assert "..." not in text.partition("\n")[2], "the first line is the usage"


def test_there_are_at_most_24_commands_and_each_heading_names_the_usual_way() -> None:
    assert sum(map(len, COMMANDS.values())) <= 24
    assert set(USUAL_WAYS) <= set(COMMANDS)
    names = {word.strip(",.:") for way in USUAL_WAYS.values() for word in way.split()}
    assert {"score", "compare", "rejudge", "calibrate", "diagnose"} <= names


@pytest.mark.parametrize("present", sorted(set(HABITS.values())))
def test_what_is_written_instead_of_another_name_is_a_command(present: str) -> None:
    words = [word for word in present.split()[:2] if not word.startswith("-")]
    assert CliRunner().invoke(app, [*words, "--help"]).exit_code == 0
