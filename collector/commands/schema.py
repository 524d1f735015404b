"""JSON Schemas of the configuration and of every record, as `evalstream schema` prints them."""

from __future__ import annotations

from typing import Any

import orjson

from collector import plugins
from collector.config.settings import Settings
from collector.records.json import json_schemas


def schemas() -> str:
    """One JSON object: `configuration` and the records by name."""
    document = {"configuration": configuration_schema(), **json_schemas()}
    return orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() + "\n"


def configuration_schema() -> dict[str, Any]:
    """The schema of the configuration file, with the keys of every evaluator and exporter that is installed."""
    schema = Settings.model_json_schema()
    schema["properties"]["evaluators"]["additionalProperties"] = {
        "oneOf": [*map(_evaluator, _kinds()), *filter(None, map(_by_scope, _kinds()))]
    }
    exporters = {name: plugins.load(plugins.EXPORTERS, name) for name in plugins.names(plugins.EXPORTERS)}
    schema["properties"]["export"]["properties"] = {
        name: _inlined(exporter.Settings.model_json_schema()) for name, exporter in exporters.items()
    }
    return schema


def _kinds() -> list[str]:
    return plugins.names(plugins.EVALUATORS)


def _evaluator(kind: str) -> dict[str, Any]:
    evaluator = plugins.evaluator_class(kind)
    schema = _inlined(evaluator.model_json_schema())
    properties = {"kind": {"const": kind}, "scope": {"const": evaluator.scope}, **schema["properties"]}
    del properties["name"]  # the key under `evaluators` is the name
    if evaluator.needs_judge:
        properties["judge"] = {"type": "string", "description": "The name of one of `judges` or `juries`."}
    required = ["kind", *(name for name in schema.get("required", []) if name != "name")]
    return schema | {"properties": properties, "required": required}


def _by_scope(kind: str) -> dict[str, Any] | None:
    """A kind of conversations under the name of the one of turns, where there is one."""
    of_turns = kind.removeprefix(plugins.CONVERSATIONAL)
    if of_turns == kind or of_turns not in _kinds():
        return None
    schema = _evaluator(kind)
    properties = {**schema["properties"], "kind": {"const": of_turns}}
    return schema | {"properties": properties, "required": [*schema["required"], "scope"]}


def _inlined(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with its own definitions put in where they are used, so that it can stand inside another."""
    definitions = schema.pop("$defs", {})

    def put_in(value: Any) -> Any:
        if isinstance(value, dict):
            reference: Any = value.get("$ref")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            if isinstance(reference, str):
                return put_in(definitions[reference.rpartition("/")[2]])
            return {key: put_in(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
        if isinstance(value, list):
            return [put_in(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
        return value

    return put_in(schema)
