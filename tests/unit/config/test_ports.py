"""Two listeners of a process cannot have one port."""

from __future__ import annotations

from typing import Any

import pytest

from collector.config.loading import check
from collector.errors import ConfigError


def config(**changes: Any) -> dict[str, Any]:
    return {
        "evaluators": {"refusal": {"kind": "refusal"}},
        "monitors": {"all": {"evaluators": ["refusal"]}},
        **changes,
    }


@pytest.mark.parametrize(
    ("changes", "mistakes"),
    [
        ({"page": {"port": 9464}}, ["page.port: 9464 is the port of export.prometheus, too; choose another one"]),
        (
            {"receive": {"otlp_http": {"port": 4317}, "otlp_grpc": {}}},
            ["receive.otlp_grpc.port: 4317 is the port of receive.otlp_http, too; choose another one"],
        ),
        (
            {"page": {"port": 7000, "host": "0.0.0.0", "insecure": True}, "export": {"prometheus": {"port": 7000}}},
            ["page.port: 7000 is the port of export.prometheus, too; choose another one"],
        ),
        (
            {"receive": {"otlp_http": {"port": 1}}, "page": {"port": 1}, "export": {"prometheus": {"port": 1}}},
            [
                "export.prometheus.port: 1 is the port of receive.otlp_http, too; choose another one",
                "page.port: 1 is the port of receive.otlp_http, too; choose another one",
            ],
        ),
    ],
    ids=["page and metrics", "http and grpc", "every address", "three"],
)
def test_one_port_for_two_is_refused(changes: dict[str, Any], mistakes: list[str]) -> None:
    with pytest.raises(ConfigError) as raised:
        check(config(**changes), "my.yaml")
    assert str(raised.value).splitlines() == [f"my.yaml: {each}" for each in mistakes]


@pytest.mark.parametrize(
    "changes",
    [
        {"page": {"port": 0}, "export": {"prometheus": {"port": 0}}},
        {"page": {"port": 9464, "host": "127.0.0.2"}},
        {"page": {"port": 8321}},
    ],
    ids=["any free one", "other addresses", "other ports"],
)
def test_ports_that_do_not_meet(changes: dict[str, Any]) -> None:
    check(config(**changes), "my.yaml")
