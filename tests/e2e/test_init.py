"""`evalstream init` as one types it; what it makes of which answers is in tests/unit/test_init.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import evalstream


def test_enter_at_every_question_gives_a_configuration_that_is_right(tmp_path: Path) -> None:
    done = evalstream("init", folder=tmp_path, answers="\n" * 6)
    assert done.returncode == 0
    assert done.stdout.startswith("evalstream.yaml: valid")
    assert done.stderr.endswith("Next: evalstream run -c evalstream.yaml\n")
    assert evalstream("check", folder=tmp_path).returncode == 0


def test_after_a_source_in_kafka_comes_check_as_init_does_not_ask_the_broker(tmp_path: Path) -> None:
    """`run` was next, and was refused by a broker that `init` had not asked."""
    done = evalstream("init", "--traces", "kafka://localhost:9/spans", folder=tmp_path, answers="\n" * 6)
    assert done.returncode == 0
    assert done.stderr.endswith(
        "Next: evalstream check -c evalstream.yaml (asks Kafka), then evalstream run -c evalstream.yaml\n"
    )


def test_a_file_that_is_there_is_kept(tmp_path: Path) -> None:
    (tmp_path / "evalstream.yaml").write_text("mine")
    done = evalstream("init", folder=tmp_path, answers="\n" * 6)
    assert done.returncode == 2
    assert "already exists" in done.stderr
    assert (tmp_path / "evalstream.yaml").read_text() == "mine"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["--sample", "1", "--base-url", "example.org"],
            "judges.main.base_url: has the wrong form; needed: the endpoint, like https",
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
