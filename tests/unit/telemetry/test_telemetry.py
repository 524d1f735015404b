from __future__ import annotations

import re
import subprocess
from pathlib import Path

from prometheus_client import generate_latest
from promtool import tool

from collector.telemetry import series as telemetry
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import DROPS, EVALUATIONS, LABEL_OVERFLOW, OTHER, SCORE, TOTAL_BUDGET_SPENT

ROOT = Path(__file__).parents[3]


def test_every_series_is_fed_somewhere():
    """By its own name, or by that of the tuple it is in; that rules and dashboards read it does not count."""
    sources = "".join(path.read_text() for path in (ROOT / "collector").rglob("*.py"))
    fed = set(
        re.findall(r"\b(?:counter|gauge|histogram|replace|_count)\(\s*(?:series\.|metrics\.)?([A-Z0-9_]+)\b", sources)
    )
    fed |= {
        name for chosen in re.findall(r"return (series\..+)", sources) for name in re.findall(r"[A-Z0-9_]{4,}", chosen)
    }
    fed |= {
        name
        for listed in re.findall(r"(?:for series, counts in|^_GAUGES =) (.+)", sources, re.MULTILINE)
        for name in re.findall(r"[A-Z_]{4,}", listed)
    }
    names = {name for name, value in vars(telemetry).items() if isinstance(value, telemetry.Series)}
    in_tuples = (
        *telemetry.ESTIMATOR_SUMS,
        *telemetry.EVIDENCE_SUMS,
        *telemetry.FEEDBACK_SUMS,
        *telemetry.CORRECTED_SUMS,
    )
    assert names - fed == {name for name, value in vars(telemetry).items() if value in in_tuples}


def test_names_follow_the_conventions():
    for each in telemetry.all_series():
        assert each.name.startswith("evalstream_") or each is SCORE
        assert each.name.endswith("_total") == (each.kind == "counter")
        assert bool(each.buckets) == (each.kind == "histogram")
        assert each.help.endswith(".")


def test_promtool_finds_nothing_to_complain_about():
    full = Telemetry()
    for each in telemetry.all_series():
        full._child(each, tuple("x" for _ in each.labels))
    result = subprocess.run(
        [tool("promtool"), "check", "metrics"], check=False, input=generate_latest(full.registry), capture_output=True
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_two_processes_worth_of_telemetry_do_not_meet():
    one, two = Telemetry(), Telemetry()
    one.drop("receive", "test")
    assert b'reason="test"' in generate_latest(one.registry)
    assert b'reason="test"' not in generate_latest(two.registry)
    assert b"_created" not in generate_latest(one.registry)


def test_label_values_are_capped_and_the_rest_is_counted():
    capped = Telemetry(label_values=3)
    for number in range(5_000):
        capped.drop("receive", f"reason-{number}")
    assert generate_latest(capped.registry).count(b"evalstream_drops_total{") == 4
    assert capped.counter(DROPS, "receive", OTHER)._value.get() == 4_997
    assert capped.counter(LABEL_OVERFLOW, "reason")._value.get() > 4_900
    assert len(capped._children) < 20


def test_reserved_values_have_a_place_whatever_comes_first():
    capped = Telemetry(label_values=2)
    capped.reserve("evaluator", "ours", "also ours", "and this")
    labels = ("v", "m", "all", "scored", "")
    capped.counter(EVALUATIONS, "intruder", *labels).inc()
    capped.counter(EVALUATIONS, "ours", *labels).inc()
    text = generate_latest(capped.registry).decode()
    assert 'evaluator="ours"' in text
    assert "intruder" not in text


def test_a_series_without_labels_is_removed_like_others() -> None:
    """The library removes series with labels alone, and a new configuration may end what such a one says."""
    telemetry = Telemetry()
    telemetry.gauge(TOTAL_BUDGET_SPENT).set_function(lambda: 0.5)
    assert telemetry.registry.get_sample_value(TOTAL_BUDGET_SPENT.name) == 0.5
    telemetry.remove(TOTAL_BUDGET_SPENT)
    telemetry.remove(TOTAL_BUDGET_SPENT)
    assert telemetry.registry.get_sample_value(TOTAL_BUDGET_SPENT.name) == 0.0
    telemetry.gauge(TOTAL_BUDGET_SPENT).set_function(lambda: 0.25)
    assert telemetry.registry.get_sample_value(TOTAL_BUDGET_SPENT.name) == 0.25
