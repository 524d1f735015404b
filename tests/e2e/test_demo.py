"""`evalstream demo` as a newcomer runs it, but shorter."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from service import free_port

README = Path(__file__).parents[2] / "README.md"


def command(*arguments: str) -> list[str]:
    ports = ["--port", str(free_port()), "--metrics-port", str(free_port()), "--page-port", "0"]
    return [sys.executable, "-m", "collector.cli", "demo", *ports, *arguments]


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}


@pytest.mark.slow
def test_scores_come_at_once_and_fall_when_the_answers_get_worse() -> None:
    done = subprocess.run(
        command("--duration", "16", "--worse-after", "6"),
        env=environment(), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    first = re.search(r"The first score was there ([\d.]+) s after the start", done.stdout)
    assert first is not None
    assert float(first[1]) < 10
    for name in ("answers_question", "grounded"):
        means = re.search(
            rf"{name}: \d+ scored, 0 skipped, 0 failed; mean ([\d.]+) before, ([\d.]+) after", done.stdout
        )
        assert means is not None
        assert float(means[1]) > 0.75
        assert float(means[2]) < float(means[1]) - 0.2
    assert "no model" in done.stdout


@pytest.mark.long
def test_ctrl_c_ends_it_with_a_summary() -> None:
    with subprocess.Popen(
        command(), env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as demo:
        assert demo.stdout is not None
        assert "judge:" in demo.stdout.readline()
        assert "Ctrl-C ends it" in demo.stdout.readline()
        assert any(re.search(r" s  [1-9]\d* turns", line) for line in demo.stdout), "there are turns to sum up"
        demo.send_signal(signal.SIGINT)
        out, err = demo.communicate(timeout=60)
    assert (demo.returncode, err) == (0, "")
    assert "turns of" in out
    title = re.search(r"Next: README, '([^']+)'", out)
    assert title is not None
    assert f"\n## {title[1]}\n" in README.read_text()
