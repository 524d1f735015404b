from __future__ import annotations

import time

from prometheus_client import generate_latest

from collector.alerting.rules.generate import rules_hash
from collector.config.loading import check
from collector.config.section_hashes import section_hashes
from collector.service.gauges import show_build, show_configuration
from collector.telemetry.registry import Telemetry

CONFIG = check(
    {
        "evaluators": {"exact": {"kind": "exact_match", "threshold": 0.77}},
        "monitors": {"chatbot": {"evaluators": ["exact"]}},
    },
    "test.yaml",
)


def test_a_process_shows_its_stages_and_the_rules_of_its_configuration():
    telemetry, before = Telemetry(), time.time()
    show_build(telemetry, CONFIG, ["assemble", "evaluate"])
    lines = generate_latest(telemetry.registry).decode().splitlines()
    assert {line for line in lines if line.startswith("evalstream_stage_up{")} == {
        'evalstream_stage_up{stage="assemble"} 1.0',
        'evalstream_stage_up{stage="evaluate"} 1.0',
    }
    assert f'evalstream_rules_info{{hash="{rules_hash(CONFIG)}"}} 1.0' in lines
    [start] = (line for line in lines if line.startswith("evalstream_start_timestamp_seconds "))
    assert before <= float(start.split()[1]) <= time.time()


def test_another_configuration_is_shown_instead_of_the_one_of_before():
    """However often it changes: `evalstream check` reads the sections, and a number of values must not hide them."""
    telemetry, running = Telemetry(label_values=5), CONFIG
    show_build(telemetry, CONFIG, ["evaluate"])
    for number in range(20):
        exact = {"kind": "exact_match", "threshold": number / 100}
        monitors = {"chatbot" if number < 19 else "shop": {"evaluators": ["exact"]}}
        following = check({"evaluators": {"exact": exact}, "monitors": monitors}, "test.yaml")
        show_configuration(telemetry, following, running)
        running = following
    lines = generate_latest(telemetry.registry).decode().splitlines()
    shown = {line for line in lines if line.startswith("evalstream_config_section_info{")}
    assert shown == {
        f'evalstream_config_section_info{{hash="{hashed}",section="{section}"}} 1.0'
        for section, hashed in section_hashes(running).items()
    }
    assert [line for line in lines if line.startswith("evalstream_rules_info{")] == [
        f'evalstream_rules_info{{hash="{rules_hash(running)}"}} 1.0'
    ]
    assert len([line for line in lines if line.startswith("evalstream_config_info{")]) == 1
