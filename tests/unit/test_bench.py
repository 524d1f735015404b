"""The benchmarks still run. What they measure is looked at by `make bench`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

RUN = Path(__file__).parents[1] / "bench" / "run.py"


@pytest.mark.slow
def test_the_benchmarks_run() -> None:
    done = subprocess.run([sys.executable, RUN, "--smoke"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for measured in (
        "judge path: g_eval with logprobs",
        "ingest: spans that are no model calls",
        "growth: turns judged, 16x",
    ):
        assert measured in done.stdout
