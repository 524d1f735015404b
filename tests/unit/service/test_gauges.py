from __future__ import annotations

from prometheus_client import generate_latest

from collector.alerting.rules.generate import rules_hash
from collector.config.loading import check
from collector.service.gauges import show_build
from collector.telemetry.registry import Telemetry

CONFIG = check(
    {
        "evaluators": {"exact": {"kind": "exact_match", "threshold": 0.77}},
        "monitors": {"chatbot": {"evaluators": ["exact"]}},
    },
    "test.yaml",
)


def test_a_process_shows_its_stages_and_the_rules_of_its_configuration():
    telemetry = Telemetry()
    show_build(telemetry, CONFIG, ["assemble", "evaluate"])
    lines = generate_latest(telemetry.registry).decode().splitlines()
    assert {line for line in lines if line.startswith("evalstream_stage_up{")} == {
        'evalstream_stage_up{stage="assemble"} 1.0',
        'evalstream_stage_up{stage="evaluate"} 1.0',
    }
    assert f'evalstream_rules_info{{hash="{rules_hash(CONFIG)}"}} 1.0' in lines
