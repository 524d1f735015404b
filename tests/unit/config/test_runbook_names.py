"""What runbooks name can be written or seen: keys of the configuration, metrics, labels and reasons."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from collector.commands.schema import configuration_schema
from collector.telemetry.series import all_series

ROOT = Path(__file__).parents[3]
OTHERS = {"retention.ms", "retention.bytes", "service.name", "evalstream.sampling.probability"}
"""Kafka's settings, and attributes of spans."""


def keys(schema: Any) -> set[str]:
    """The names of all properties."""
    if isinstance(schema, list):
        return set().union(*map(keys, schema))
    if not isinstance(schema, dict):
        return set()
    return set(schema.get("properties", ())).union(*map(keys, schema.values()))


def test_runbooks_name_what_exists() -> None:
    known = keys(configuration_schema()) | {series.name for series in all_series()}
    for part in ("collector", "evaluators"):  # labels and reasons
        for path in (ROOT / part).rglob("*.py"):
            known |= set(re.findall(r'"(\w+)"', path.read_text(encoding="utf-8")))
    wrong: set[str] = set()
    for page in (ROOT / "deploy/runbooks").glob("*.md"):
        for name in re.findall(r"`([a-z_.<>]*[_.][a-z_.<>]*)`", page.read_text(encoding="utf-8")):
            parts = set(name.split(".")) - {"<name>", "<prefix>"}
            wrong |= {f"{page.stem}: {name}"} if name not in OTHERS and not parts <= known else set()
    assert not wrong


BEGIN_AT_0 = {
    "evalstream_evaluations_total",
    "evalstream_estimator_w_total",
    "evalstream_estimator_wy_total",
    "evalstream_judge_cost_usd_total",
}
"""Counters whose usual label values are created at 0."""


def test_runbooks_take_increases_only_of_counters_that_begin_at_0() -> None:
    """`increase()` does not see what a series begins with: a query showed 3 of 23 refused requests."""
    for page in (ROOT / "deploy/runbooks").glob("*.md"):
        used = set(re.findall(r"(?:increase|rate)\((\w+)", page.read_text(encoding="utf-8")))
        assert used <= BEGIN_AT_0, page.stem
