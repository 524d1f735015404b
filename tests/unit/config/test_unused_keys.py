"""Keys that are valid and have no effect: `check` says so."""

from __future__ import annotations

from typing import Any

import pytest

from collector.commands.check.check import report
from collector.config.configured import Config
from collector.config.loading import check
from collector.config.unused_keys import unused_notes
from collector.errors import ConfigError

PRICED = {"model": "m", "usd_per_million_input_tokens": 1.0, "usd_per_million_output_tokens": 1.0}
ASKS = {"kind": "g_eval", "criteria": "?", "evaluation_params": ["input"], "judge": "main"}


def config(monitor: dict[str, Any] | None = None, **changes: Any) -> Config:
    values = {
        "judges": {"main": PRICED},
        "evaluators": {"good": ASKS},
        "monitors": {"all": {"evaluators": ["good"], **(monitor or {})}},
    }
    return check(values | changes, "my.yaml")


WITH_FALLBACK = {"main": {**PRICED, "fallback": "small"}, "small": PRICED}


@pytest.mark.parametrize(
    ("monitor", "changes", "note"),
    [
        ({}, {"judges": WITH_FALLBACK}, "judges.main.fallback: small never takes over, as there is no budget"),
        ({}, {"judges": {"main": PRICED, "other": PRICED}}, "no evaluator asks the judge other"),
        (
            {"match": {"tenant": "a"}},
            {"receive": {"kafka": [{"bootstrap_servers": ["b:9092"], "traces": ["t"]}]}},
            "monitors.all.match.tenant: what Kafka brings has no tenant; match service instead",
        ),
        (
            {},
            {"judges": {"main": {**PRICED, "sees": ["image"]}}},
            "judges.main.sees shows nothing: no picture is stored",
        ),
        ({}, {"judges": {"main": {**PRICED, "media": {"max_count": 1}}}}, "judges.main.media does nothing without"),
        (
            {},
            {"receive": {}},
            "receive names no source, so nothing is received; write otlp_http: {}, or remove receive",
        ),
        (
            {},
            {"juries": {"both": {"judges": ["main", "other"]}}, "judges": {"main": PRICED, "other": PRICED}},
            "no evaluator uses the jury both",
        ),
        ({}, {"evaluators": {"good": ASKS, "no": {"kind": "refusal"}}}, "no monitor uses the evaluator no, so it"),
        ({"budget": {"usd_per_hour": 1, "fallback_at": 0.5}}, {}, "monitors.all.budget.fallback_at does nothing"),
        (
            {"budget": {"hard_cap_factor": 2}},
            {},
            "monitors.all.budget: hard_cap_factor do nothing without usd_per_hour",
        ),
        ({"boost": {"error": 3}}, {}, "monitors.all.boost does nothing: everything is judged already (sample: 1)"),
        ({"sample": 0.1, "boost": {"slow_after": 3}}, {}, "monitors.all.boost.slow_after does nothing"),
        ({"standard_error": 0.01}, {}, "monitors.all.standard_error does nothing without sample: auto"),
        ({"end_markers": {"tools": ["bye"]}}, {}, "monitors.all.end_markers does nothing"),
        ({"alerts": {"enabled": False, "targets": {"good": 0.5}}}, {}, "monitors.all.alerts: targets do nothing"),
        ({}, {"alerts": {"by_segment": True}}, "alerts.by_segment does nothing without export.prometheus.segment_by"),
        (
            {},
            {"log": {"kind": "kafka", "partitions": 8, "kafka": {"bootstrap_servers": ["a:9092"]}}},
            "log.partitions does nothing where log.kind is kafka; use log.kafka.partitions",
        ),
        (
            {},
            {"store_text": False, "log": {"kind": "kafka", "kafka": {"bootstrap_servers": ["a:9092"]}}},
            "store_text: false deletes no text from topics",
        ),
        ({}, {"log": {"kind": "memory", "retention": "3d"}}, "log.retention does nothing where log.kind is memory"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_does_nothing_is_noted(monitor: dict[str, Any], changes: dict[str, Any], note: str) -> None:
    made = config(monitor, **changes)
    assert any(each.startswith(note) for each in unused_notes(made)), list(unused_notes(made))
    assert any(line.startswith(f"note       {note}") for line in report(made))


@pytest.mark.parametrize(
    ("monitor", "changes"),
    [
        ({}, {}),
        ({"budget": {"usd_per_hour": 1, "fallback_at": 0.5}}, {"judges": WITH_FALLBACK}),
        ({"sample": 0.5, "boost": {"slow": 2, "slow_after": 3}}, {}),
        ({"budget": {"usd_per_hour": 1}, "boost": {"error": 3}}, {}),
        ({}, {"alerts": {"by_segment": True}, "export": {"prometheus": {"segment_by": "language"}}}),
        ({}, {"log": {"retention": "3d", "path": "x.db"}}),
    ],
)
def test_what_works_is_not(monitor: dict[str, Any], changes: dict[str, Any]) -> None:
    assert list(unused_notes(config(monitor, **changes))) == []


@pytest.mark.parametrize(
    ("monitor", "changes", "mistake"),
    [
        ({"evaluators": ["good", "good"]}, {}, "monitors.all.evaluators: good is listed twice; keep one of them"),
        (
            {},
            {"log": {"kafka": {"bootstrap_servers": ["b:9092"]}}},
            "log.kafka: is not used, as log.kind is sqlite; write kind: kafka, or remove it",
        ),
    ],
    ids=["twice", "kafka without its kind"],
)
def test_what_cannot_be_meant_is_refused(monitor: dict[str, Any], changes: dict[str, Any], mistake: str) -> None:
    with pytest.raises(ConfigError) as raised:
        config(monitor, **changes)
    assert str(raised.value).startswith(f"my.yaml: {mistake}")
