"""`evalstream score` without a configuration file, and with one that has no monitors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from collector.cli import app
from collector.commands.score.configuration import with_a_monitor, without_file
from collector.config.loading import check
from collector.errors import ConfigError


def test_kinds_and_criteria_make_evaluators() -> None:
    config = without_file(
        ["g_eval", "exact_match"], "Is it right?", {"OPENAI_MODEL": "m", "OPENAI_BASE_URL": "http://x/v1"}
    )
    assert (config.settings.judges["main"].model, config.settings.judges["main"].base_url) == ("m", "http://x/v1")
    made: Any = config.evaluators["g_eval"].evaluator
    assert (made.criteria, made.evaluation_params) == ("Is it right?", ("input", "actual_output"))
    assert with_a_monitor(config).settings.monitors["--evaluator"].evaluators == ["g_eval", "exact_match"]


@pytest.mark.parametrize(
    ("kinds", "problem"),
    [
        ([], "no such file; write one with evalstream init"),
        (["g_evil"], "did you mean 'g_eval'?"),
        (["g_eval"], "criteria"),
    ],
)
def test_what_is_missing_is_said(kinds: list[str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem.replace("?", r"\?")):
        without_file(kinds, None, {})


def test_monitors_of_a_file_stay() -> None:
    values = {"evaluators": {"a": {"kind": "exact_match"}, "b": {"kind": "latency", "target": 1, "limit": 2}}}
    assert list(with_a_monitor(check(dict(values), "x", complete=False)).settings.monitors) == ["--evaluator"]
    whole = check(values | {"monitors": {"mine": {"evaluators": ["a"]}}}, "x")
    assert with_a_monitor(whole) is whole
    assert with_a_monitor(whole, ["a"]) is whole


def test_an_evaluator_that_no_monitor_uses_yet_can_be_tried() -> None:
    """The pages say to score a new evaluator before a monitor gets it, and score refused it."""
    values = {"a": {"kind": "exact_match"}, "b": {"kind": "refusal"}, "c": {"kind": "refusal"}}
    whole = check({"evaluators": values, "monitors": {"mine": {"evaluators": ["a"]}}}, "x")
    monitors = with_a_monitor(whole, ["a", "b", "d"]).settings.monitors
    assert [use.name for monitor in monitors.values() for use in monitor.uses] == ["a", "b"]


def test_a_table_is_scored_in_a_folder_without_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cases.csv").write_text("question,answer,expected\nFrance?,Paris,Paris\nItaly?,Milan,Rome\n")
    done = CliRunner().invoke(app, ["score", "cases.csv", "--evaluator", "exact_match", "--json"])
    assert (done.exit_code, json.loads(done.stdout)["exact_match"]["mean"]) == (0, 0.5)


def test_labels_of_a_file_need_no_monitors_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evalstream.yaml").write_text("log: {kind: memory}\nevaluators: {same: {kind: exact_match}}\n")
    rows = [{"human": number % 2 == 0, "score": float(number % 3 == 0)} for number in range(60)]
    (tmp_path / "labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = CliRunner().invoke(app, ["calibrate", "labels.jsonl", "--evaluator", "same"])
    assert done.exit_code == 0, done.output
