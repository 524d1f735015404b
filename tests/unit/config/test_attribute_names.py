"""Names of attributes in a configuration: what would see nothing is refused."""

from __future__ import annotations

from typing import Any

import pytest

from collector.commands.check.check import report
from collector.config.attribute_names import refuse_unknown_attributes
from collector.config.configured import Config
from collector.config.loading import check
from collector.errors import ConfigError


def config(monitor: dict[str, Any] | None = None, **changes: Any) -> Config:
    values = {
        "assemble": {"attributes": {"tier": ["app.tier"], "chat.status": []}},
        "judges": {"main": {"model": "m"}},
        "evaluators": {"refusal": {"kind": "refusal"}},
        "monitors": {"all": {"evaluators": ["refusal"], **(monitor or {})}},
    }
    return check(values | changes, "my.yaml")


def mistake(monitor: dict[str, Any] | None = None, **changes: Any) -> str:
    with pytest.raises(ConfigError) as raised:
        refuse_unknown_attributes(config(monitor, **changes))
    (line,) = str(raised.value).splitlines()
    return line


@pytest.mark.parametrize(
    "monitor",
    [
        {"match": {"service": "shop", "model": "m", "tenant": "acme", "language": "de", "user_id": "ann"}},
        {"match": {"attributes.tier": "gold", "attributes.environment": "prod", "attributes.language": "de"}},
        {"match": {"attributes.span_name": "chat", "attributes.evalstream.tenant": "acme", "attributes.prompt": "p"}},
        {"boost": {"matching": [{"field": "attributes.tier", "values": ["gold"]}]}},
        {"end_markers": {"attributes": {"chat.status": "closed"}}},
    ],
)
def test_what_turns_have_is_accepted(monitor: dict[str, Any]) -> None:
    refuse_unknown_attributes(config(monitor))


@pytest.mark.parametrize(
    "monitor",
    [
        {"match": {"attributes.teir": "gold"}},
        {"boost": {"matching": [{"field": "attributes.teir", "values": ["gold"]}]}},
        {"end_markers": {"attributes": {"teir": "gold"}}},
    ],
)
def test_what_no_turn_has_is_refused_everywhere(monitor: dict[str, Any]) -> None:
    line = mistake(monitor)
    assert line.startswith("my.yaml: monitors.all.")
    assert "no turn has the attribute 'teir'; did you mean 'tier'?" in line
    assert line.endswith("declared under assemble.attributes")


def test_segments_and_evaluators_are_looked_at() -> None:
    assert "export.prometheus.segment_by: no turn has the attribute 'teir'" in mistake(
        export={"prometheus": {"segment_by": {"teir": 3, "language": 2, "closed_by": ["idle"]}}}
    )
    pairwise = {"kind": "pairwise_dimensions", "other_output_attribute": "shadow.output"}
    made = {"evaluators": {"pair": pairwise}, "monitors": {"all": {"evaluators": ["pair"]}}}
    assert mistake(**made).startswith("my.yaml: evaluators.pair: no turn has the attribute 'shadow.output'")
    refuse_unknown_attributes(config(**made, assemble={"attributes": ["shadow.output"]}))


def test_fields_that_do_not_exist() -> None:
    assert mistake({"match": {"servce": "shop"}}) == (
        "my.yaml: monitors.all.match: 'servce' is no field that can be matched; did you mean 'service'?"
    )
    assert mistake({"match": {"environment": "prod"}}).endswith("write attributes.environment")
    assert mistake({"match": {"attributes.model": "m"}}).endswith("model is a field, not an attribute; write model")


def test_ready_made_turns_may_have_any_attribute() -> None:
    kafka = [{"bootstrap_servers": ["localhost:9092"], "turns": ["turns"]}]
    refuse_unknown_attributes(config({"match": {"attributes.plan": "gold"}}, receive={"kafka": kafka}))
    assert "segment_by" in mistake(receive={"kafka": kafka}, export={"prometheus": {"segment_by": "plan"}})


@pytest.mark.parametrize("name", ["model", "turns", "closed_by", "evalstream.tenant", "span_name"])
def test_names_with_a_meaning_cannot_be_declared(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} has a meaning of its own"):
        config(assemble={"attributes": [name]})


def test_the_plan_names_attributes_and_counts_segments() -> None:
    lines = "\n".join(report(config(export={"prometheus": {"segment_by": {"tier": ["gold", "free"], "language": 5}}})))
    assert "attribute tier from app.tier, nearest to the model's span" in lines
    assert "at most 18 segments at a time for each evaluator" in lines
