"""The line at a stop says what brokers keep for a named process."""

from __future__ import annotations

from typing import Any

import pytest

from collector.config.loading import check
from collector.service.app import unread_note

KAFKA = {"bootstrap_servers": ["b:9092"]}


@pytest.mark.parametrize(
    ("log", "source", "said"),
    [
        ({}, {}, ""),
        ({"group_instance_id": "a"}, {}, "; brokers keep its partitions for 45 s, unread, for its group_instance_id"),
        ({"group_instance_id": "a", "session_timeout": 10}, {}, "10 s"),
        ({}, {"group_instance_id": "a"}, "45 s"),
    ],
)
def test_what_is_kept_is_said(log: dict[str, Any], source: dict[str, Any], said: str) -> None:
    values = {
        "log": {"kind": "kafka", "kafka": {**KAFKA, **log}},
        "receive": {"kafka": [{**KAFKA, "traces": ["spans"], **source}]},
        "evaluators": {"r": {"kind": "refusal"}},
        "monitors": {"m": {"evaluators": ["r"]}},
    }
    text = unread_note(check(values, "c.yaml"))
    assert said in text
    assert bool(text) == bool(said)
