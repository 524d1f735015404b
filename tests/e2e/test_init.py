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


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["--sample", "1", "--base-url", "example.org"],
            "judges.main.base_url: does not have the right form; write base_url: The endpoint, like https",
        ),
        (["-c", "nowhere/evalstream.yaml"], "nowhere/evalstream.yaml: cannot be written (No such file or directory)"),
    ],
)
def test_what_cannot_be_is_not_written(options: list[str], said: str, tmp_path: Path) -> None:
    done = evalstream("init", *options, folder=tmp_path, answers="\n" * 6)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_share_that_is_none(tmp_path: Path) -> None:
    done = evalstream("init", folder=tmp_path, answers="\n\n\n\nlots\n\n")
    assert done.returncode == 2
    assert "sample: 'lots' is no share; write a number above 0 up to 1" in done.stderr
