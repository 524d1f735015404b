"""The name that brokers know a process by covers its sources, too."""

import pytest
from configurations import checked

from collector.service.kafka_settings import settings_of_source

BROKERS = ["broker:9092"]
LOGS = {"kind": "kafka", "kafka": {"bootstrap_servers": BROKERS, "group_instance_id": "pod-0"}}


@pytest.mark.parametrize(
    ("log", "source", "expected"),
    [
        (LOGS, {}, "pod-0"),
        (LOGS, {"group_instance_id": "reader-0"}, "reader-0"),
        ({"kind": "memory"}, {}, None),
    ],
)
def test_a_source_takes_the_name_of_the_logs(
    log: dict[str, object], source: dict[str, str], expected: str | None
) -> None:
    config = checked(
        {"exact": {"kind": "exact_match"}},
        log=log,
        receive={"kafka": [{"bootstrap_servers": BROKERS, "traces": ["spans"]} | source]},
    )
    (settings,) = config.settings.receive.kafka
    assert settings_of_source(settings, config.settings.log).group_instance_id == expected
