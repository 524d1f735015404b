"""The configuration's schema, as editors and helm read it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from collector.commands.schema import configuration_schema

DEPLOY = Path(__file__).parents[3] / "deploy"
FILES = [
    *sorted((DEPLOY / "examples").glob("*.yaml")),
    *sorted((DEPLOY / "compose").glob("*ka*.yaml")),
    DEPLOY / "compose" / "evalstream.yaml",
]
schema = cache(configuration_schema)
BASE = yaml.safe_load((DEPLOY / "compose" / "evalstream.yaml").read_text())


def mistakes(values: Any) -> list[str]:
    return [error.json_path for error in jsonschema.Draft7Validator(schema()).iter_errors(values)]


def test_it_is_a_schema_at_the_top_where_editors_look() -> None:
    jsonschema.Draft7Validator.check_schema(schema())
    assert schema()["$schema"] == "http://json-schema.org/draft-07/schema#"
    assert {"judges", "evaluators", "monitors"} <= set(schema()["properties"])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_our_own_files_are_right_by_it(path: Path) -> None:
    assert mistakes(yaml.safe_load(path.read_text())) == []


@pytest.mark.parametrize(
    ("section", "where"),
    [
        ({"evaluators": {"x": {"kind": "g_evla"}}}, "$.evaluators.x.kind"),
        ({"evaluators": {"x": {"kind": "regex", "pattern": "a", "patterm": "x"}}}, "$.evaluators.x"),
        ({"evaluators": {"x": {}}}, "$.evaluators.x"),
        ({"export": {"promehteus": {}}}, "$.export"),
        ({"export": {"prometheus": {"prot": 1}}}, "$.export.prometheus"),
        ({"page": {"prot": 1}}, "$.page"),
        ({"monitor": {}}, "$"),
        ({"store_text": "maybe"}, "$.store_text"),
    ],
    ids=["kind", "key of a kind", "no kind", "exporter", "key of an exporter", "key", "section", "no bool"],
)
def test_mistakes_are_shown_where_they_are(section: dict[str, Any], where: str) -> None:
    assert mistakes(BASE | section) == [where]


@pytest.mark.parametrize(
    "section",
    [
        {"evaluators": {"x": {"kind": "package.module:Class", "anything": 1}}},
        {"plugins": "./mine", "evaluators": {"x": {"kind": "mine"}}, "export": {"pager": {"url": "x"}}},
        {"page": {"port": "${env:PORT}", "show_text": "${env:SHOW:-true}"}},
        {"log": {"kind": "${env:KIND}", "retention": "3d"}},
        {"monitors": {"a": {"sample": "0.2", "evaluators": ["x"]}}},
    ],
    ids=["class", "plug-ins", "environment", "choice", "number as text"],
)
def test_what_check_takes_is_right(section: dict[str, Any]) -> None:
    assert mistakes(BASE | section) == []
