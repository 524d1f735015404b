"""Values that would see nothing of the traffic: refused for a service, not for files that are scored."""

from __future__ import annotations

from typing import Any

import pytest

from collector.config.configured import Config
from collector.config.loading import check
from collector.errors import ConfigError

EXACT = {"kind": "exact_match"}


def config(monitor: dict[str, Any] | None = None, **changes: Any) -> Config:
    values = {
        "judges": {"main": {"model": "m"}},
        "evaluators": {"refusal": {"kind": "refusal"}, "exact": EXACT},
        "monitors": {"all": {"evaluators": ["refusal"], **(monitor or {})}},
    }
    return check(values | changes, "my.yaml", serves=True)


def mistakes(monitor: dict[str, Any] | None = None, **changes: Any) -> list[str]:
    with pytest.raises(ConfigError) as raised:
        config(monitor, **changes)
    return str(raised.value).splitlines()


@pytest.mark.parametrize(
    ("match", "mistake"),
    [
        (
            {"dialect": "openinferenc"},
            "monitors.all.match: unknown dialect 'openinferenc'; did you mean 'openinference'?",
        ),
        ({"tenant": ["acme"]}, "monitors.all.match: unknown tenant 'acme'; none is defined"),
    ],
    ids=["dialect", "tenant"],
)
def test_values_that_no_turn_has(match: dict[str, Any], mistake: str) -> None:
    [line] = mistakes({"match": match})
    assert line.startswith(f"my.yaml: {mistake}")
    [field] = match
    values = match[field] if isinstance(match[field], list) else [match[field]]
    [line] = mistakes({"boost": {"matching": [{"field": field, "values": values}]}})
    assert "monitors.all.boost.matching" in line


def test_values_that_turns_have() -> None:
    tenants = {"otlp_http": {"auth": {"tenants": [{"name": "acme", "token": "0123456789abcdef"}]}}}
    match = {"dialect": ["openinference", "otel_genai"], "tenant": "acme", "incomplete": "redacted", "service": "any"}
    config({"match": match}, receive=tenants)
