"""The alert on feedback: a day that is worse than the week before, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from promtool import configured, run, series

from collector.alerting.rules.feedback import LOST, WORSE, feedback_group
from collector.alerting.rules.generate import rules_of
from collector.alerting.rules.model import Timing

LABELS = {"feedback": "thumbs", "source": "user", "monitor": "chatbot"}
HOURS = 8 * 24 + 30
CHANGE = 8 * 24
"""From this hour on the good share is another one."""


def counters(before: float, after: float, *, an_hour: int = 10) -> list[dict[str, str]]:
    """Thumbs of so many conversations an hour, one each, of which a share is good."""
    good, number = [0.0], [0.0]
    for hour in range(HOURS):
        good.append(good[-1] + an_hour * (before if hour < CHANGE else after))
        number.append(number[-1] + an_hour)
    sums = {"w": number, "wy": good, "w2": number, "w2y": good, "w2y2": good}
    return [series(f"evalstream_feedback_{name}_total", each, **LABELS) for name, each in sums.items()]


def fires(alert: str, hour: int, times: int) -> dict[str, Any]:
    expected = [{"labels": '{monitor="chatbot"}', "value": 1}] * times
    return {
        "expr": f'count by (monitor) (ALERTS{{alertname="{alert}",alertstate="firing"}})',
        "eval_time": f"{hour}m",
        "exp_samples": expected,
    }


@pytest.mark.parametrize(("after", "worse"), [(0.9, 0), (0.84, 0), (0.6, 1), (1.0, 0)])
def test_a_day_that_is_surely_worse_than_the_week_before_alerts(after: float, worse: int, tmp_path: Path) -> None:
    """An hour is a minute here, as series of eight days by the minute take promtool long."""
    config = configured()
    group = replace(feedback_group(config.settings.alerts, Timing(speed=60.0)), interval=60.0)
    rules = replace(rules_of(config), groups=(group,))
    run(
        tmp_path,
        configured(),
        [{"inputs": counters(0.9, after), "values": [fires(WORSE, HOURS - 2, worse)]}],
        made=rules,
    )


def test_what_is_crowded_out_alerts_and_what_matches_nothing_does_not(tmp_path: Path) -> None:
    grown = [0.0] * 5 + [float(number) for number in range(20)]
    lost = [series("evalstream_feedback_total", grown, outcome="unmatched")]
    seen = {"expr": f'count(ALERTS{{alertname="{LOST}"}})', "eval_time": "20m"}
    run(tmp_path, configured(), [
        {"inputs": lost, "values": [{**seen, "exp_samples": []}]},
        {"inputs": [series("evalstream_feedback_total", grown, outcome="crowded_out")],
         "values": [{**seen, "exp_samples": [{"labels": "{}", "value": 1}]}]},
    ])  # fmt: skip
