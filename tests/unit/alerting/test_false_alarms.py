"""False alarms of the drop detector behind samplers, through the exporter's and the watcher's own code.

`tests/bench/drop_detection.py` measures it over many streams; the table is in deploy/docs/alerts.md.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from streams import MEAN

sys.path.append(str(Path(__file__).parents[2] / "bench"))  # after others: some names are in both

from drop_detection import DAY, SAMPLERS, alerts, conversations, delay, notifications

EVIDENCE = ("evidence, exact (watcher)", "evidence, from sums (rules)")


def pages(sampler: str, days: int, runs: int, seed: int) -> float:
    """Notifications of both detectors while the mean is 0.80."""
    rng = np.random.default_rng(seed)
    found = alerts(conversations(rng, runs, 100 / 60, np.full(days * DAY, MEAN), SAMPLERS[sampler]))
    return float(sum(notifications(found[name]).sum() for name in EVIDENCE))


def test_one_in_a_hundred_sampled_before_pages_nobody_for_a_day() -> None:
    """Bets for weights of 1 paged once an hour."""
    assert pages("1 %", days=1, runs=1, seed=3) == 0


def test_and_a_fall_behind_it_is_found() -> None:
    path = np.full(DAY, MEAN)
    path[DAY // 2 :] = 0.2
    found = alerts(conversations(np.random.default_rng(4), 1, 100 / 60, path, SAMPLERS["1 %"]))
    assert all(delay(found[name], DAY // 2) < 4.0 for name in EVIDENCE)


@pytest.mark.nightly
@pytest.mark.parametrize("sampler", list(SAMPLERS))
def test_a_month_in_control_is_quiet_behind_every_sampler(sampler: str) -> None:
    """Four streams of a month; 0.33 are allowed for each of both detectors, so 2.6 in all."""
    assert pages(sampler, days=30, runs=4, seed=11) <= 2
