"""`evalstream init`, by options and by answers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml


def evalstream(*arguments: str, folder: Path, answers: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "collector.cli", *arguments]
    return subprocess.run(command, cwd=folder, input=answers, capture_output=True, text=True, timeout=60, check=False)


def test_enter_five_times_gives_a_configuration_that_is_right(tmp_path: Path) -> None:
    done = evalstream("init", folder=tmp_path, answers="\n" * 6)
    assert done.returncode == 0
    assert done.stdout.startswith("evalstream.yaml is right.")
    assert done.stderr.endswith("Next: evalstream run -c evalstream.yaml\n")
    assert evalstream("check", folder=tmp_path).returncode == 0


def test_options_answer_instead(tmp_path: Path) -> None:
    done = evalstream(
        "init", "--traces", "kafka://broker:9092/otlp_spans", "--judge", "it's: a {model}", "--base-url", "http://j/v1",
        "--good", "Is it: 'good' # or not?", "--sample", "0.25", "--scores", "http://collector:4318", folder=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0
    written = yaml.safe_load((tmp_path / "evalstream.yaml").read_text())
    assert written["judges"]["main"]["model"] == "it's: a {model}"
    assert written["evaluators"]["good_answer"]["criteria"] == "Is it: 'good' # or not?"
    assert written["monitors"]["everything"]["sample"] == 0.25
    assert written["receive"]["kafka"] == [{"bootstrap_servers": ["broker:9092"], "traces": ["otlp_spans"]}]
    assert written["export"]["otlp"] == {"endpoint": "http://collector:4318"}


def test_a_file_that_is_there_is_kept(tmp_path: Path) -> None:
    (tmp_path / "evalstream.yaml").write_text("mine")
    done = evalstream("init", folder=tmp_path, answers="\n" * 6)
    assert done.returncode == 2
    assert "is there already" in done.stderr
    assert (tmp_path / "evalstream.yaml").read_text() == "mine"


@pytest.mark.parametrize("traces", ["ftp", "kafka://broker", "kafka://broker:9092/"])
def test_a_place_that_is_none(traces: str, tmp_path: Path) -> None:
    done = evalstream("init", "--traces", traces, folder=tmp_path, answers="\n" * 6)
    assert done.returncode == 2
    assert "write http, or kafka://host:port/topic" in done.stderr
    assert not (tmp_path / "evalstream.yaml").exists()
