"""Keys with an old name: read as before, with a warning."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from collector.commands.schema import configuration_schema
from collector.config.loading import check
from collector.config.renamed_keys import REMOVED, RENAMED, with_current_names
from collector.errors import ConfigError
from collector.service.plan_builder import evaluator_version_in

OLD = """
judges: {main: {model: m, cache: 5, usd_per_million_input_tokens: 1, usd_per_million_output_tokens: 1}}
evaluators:
  helpful: {kind: g_eval, criteria: Helpful, evaluation_params: [input, actual_output], threshold: 0.5}
monitors:
  all:
    evaluators: [helpful]
    idle: 1m
    lateness: 2m
    end: {tools: [bye]}
    boost: {having: [{field: service, values: [a]}]}
    budget: {usd_per_day: 1, hard_cap: 1.5}
    alerts: {burns: []}
assemble: {quiet: 3s, linger: 4s, link: {services: ["*"], window: 5s}}
evaluate:
  {waiting: 1, waiting_bytes: 2000000, grace: 6s, open_conversations: 7, open_bytes: 3000000, carry_records: 8,
   carry_after: 9s, budget: {hard_cap: 1.4}}
alerts: {warn: 3, page: 5, min_n: 31, judge_shift: 0.03, unscored_share: 0.04, no_traffic: 2d, usd_per_hour: 3,
         watcher: {memory: 2d}}
golden: {path: g.jsonl, every: 1h}
export: {prometheus: {conversations: 11, conversation_memory: 12s}, otlp: {endpoint: "http://h:4318", batch: 13}}
page: {hosts: [a], text: false, evaluations: 14, text_bytes: 2048, keep: 15s}
"""


OLD_RECEIVE = """
judges: {main: {model: m}}
evaluators: {helpful: {kind: g_eval, criteria: Helpful, evaluation_params: [input, actual_output]}}
monitors: {all: {evaluators: [helpful]}}
"""


def test_an_old_file_means_the_same_as_a_new_one() -> None:
    old: dict[str, Any] = yaml.safe_load(OLD)
    new, warnings = with_current_names(old)
    assert old == yaml.safe_load(OLD), "what is given is not changed"
    before, after = check(old, "a.yaml"), check(new, "a.yaml")
    assert len(warnings) == len(RENAMED) == len(before.warnings), "every old name is in the file"
    assert (before.settings, before.exporters) == (after.settings, after.exporters)
    assert evaluator_version_in(before, "helpful") == evaluator_version_in(after, "helpful")
    assert after.warnings == ()
    assert before.settings.monitors["all"].idle_timeout == 60.0
    assert before.settings.evaluate.budget.hard_cap_factor == 1.4


def test_a_removed_key_is_left_out_and_the_warning_says_why() -> None:
    for value in (True, False, "no"):
        config = check(yaml.safe_load(OLD_RECEIVE) | {"receive": {"shared_records": value}}, "a.yaml")
        assert config.warnings == (
            "receive.shared_records has no effect any more, because traces always share records; remove it",
        )
    assert len(REMOVED) == 1, "each is tested above"


def test_the_warning_names_both() -> None:
    _, warnings = with_current_names({"judges": {"main": {"cache": 5}}})
    assert warnings == ("judges.main.cache is now called judges.main.cache_size; rename it",)


def test_old_and_new_at_once() -> None:
    with pytest.raises(ConfigError, match=r"^a\.yaml: evaluate\.waiting: is now called max_waiting, which is set"):
        check({"evaluate": {"waiting": 1, "max_waiting": 2}}, "a.yaml")


@pytest.mark.parametrize("values", [{"evaluate": None}, {"judges": ["main"]}, {"monitors": {"all": 3}}, {"page": "x"}])
def test_what_is_no_section_is_left_to_validation(values: dict[str, Any]) -> None:
    assert with_current_names(values) == (values, ())


def test_the_schema_has_the_new_names_alone() -> None:
    schema = configuration_schema()
    for path, new in RENAMED.items():
        *parents, old = path.split(".")
        node: Any = schema
        for part in parents:
            node = resolved(node, schema)
            node = node["additionalProperties"] if part == "*" else node["properties"][part]
        properties = resolved(node, schema)["properties"]
        assert new in properties, path
        assert old not in properties, path


def resolved(node: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    node = next((each for each in node.get("anyOf", []) if "$ref" in each), node)
    return root["$defs"][node["$ref"].rpartition("/")[2]] if "$ref" in node else node
