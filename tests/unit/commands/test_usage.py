"""Mistakes in a command line: one sentence with the remedy, and status 2."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from collector.cli import app, main

MISTAKES = (
    ("score t.jsonl --max-usd $5", "--max-usd: must be a number like 0.05, without % or $; evalstream score -h explains it"),
    ("score t.jsonl --max-usd -1", "--max-usd: must be at least 0; evalstream score -h explains it"),
    ("plan sampling --error 5%", "--error: must be a number like 0.05, without % or $; evalstream plan sampling -h"),
    ("run --workers two", "--workers: must be a whole number; evalstream run -h explains it"),
    ("run --workers 0", "--workers: must be at least 1; evalstream run -h explains it"),
    ("run --port 8080", "unknown option --port; evalstream run -h explains it"),
    ("rules --out x", "unknown option --out; did you mean --output or --format?"),
    ("rejudge --what everything", "--what: must be one of 'failed', 'unscored', 'all', and not 'everything'; evalstream"),
    ("check evalstream.yaml", "evalstream.yaml: too many words; name a configuration with -c"),
    ("diagnose --from 7 days", "days: too many words; leave it out, or quote a value of several words"),
    ("check --config", "--config needs a value; evalstream -h explains it"),
    ("check --verbose=true", "--verbose takes no value; write the option alone, or leave it out"),
    ("dataset -o x --diverse=false", "--diverse takes no value; write the option alone, or leave it out"),
    ("check -c -", "-: cannot be read (it is no file); name the file with -c, or write one with evalstream init"),
    ("-c evalstream.yaml check", "unknown option -c; options stand after the command, as in evalstream check -c FILE"),
    ("serve", "unknown command 'serve'; write run"),
    ("validate", "unknown command 'validate'; write check"),
    ("retry -c e.yaml", "unknown command 'retry'; write rejudge --what failed"),
    ("cases --help", "unknown command 'cases'; write dataset"),
    ("compare evaluator", "unknown command 'evaluator'; did you mean 'evaluators'?"),
    ("plan samplin", "unknown command 'samplin'; did you mean 'sampling'?"),
    ("log move", "unknown command 'move'; choose from copy"),
    ("calibrat", "unknown command 'calibrat'; did you mean 'calibrate'?"),
    ("score", "PATHS is missing; evalstream score -h explains it"),
    ("fetch langfuse", "--output or -o is missing; evalstream fetch -h explains it"),
    ("gate", "--version is missing; evalstream gate -h explains it"),
)  # fmt: skip


@pytest.mark.parametrize(("command", "expected"), MISTAKES)
def test_one_sentence_and_status_2(
    command: str, expected: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["evalstream", *command.split()])
    with pytest.raises(SystemExit) as ended:
        main()
    (sentence,) = capsys.readouterr().err.splitlines()
    assert ended.value.code == 2
    assert sentence.startswith(f"evalstream: {expected}")


def test_a_group_without_its_command_prints_its_help(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["evalstream", "plan"])
    with pytest.raises(SystemExit):
        main()
    assert "Propose targets" in "".join(capsys.readouterr())


def test_a_preview_refuses_a_golden_set_that_the_service_refuses(tmp_path: Path) -> None:
    """It said `valid` and `in force seconds after the file is saved`."""
    (tmp_path / "golden.jsonl").write_text('{"input": "a", "actual_output": "b", "scores": {"short": 1.0}}\n')
    (tmp_path / "old.yaml").write_text(
        "evaluators: {short: {kind: length, maximum: 9}}\nmonitors: {all: {evaluators: [short]}}\n"
    )
    (tmp_path / "new.yaml").write_text(
        (tmp_path / "old.yaml").read_text() + f"golden: {{path: {tmp_path / 'golden.jsonl'}}}\n"
    )
    made = CliRunner().invoke(app, ["check", "-c", str(tmp_path / "new.yaml"), "--against", str(tmp_path / "old.yaml")])
    assert "golden.jsonl, line 1: turn_id is missing" in str(made.exception)
