"""JSON Schemas of the configuration and of every record, as `evalstream check --schema configuration` prints them."""

from typing import Any, cast

from collector import plugins
from collector.config.configured import AuditSettings
from collector.config.settings import Settings
from collector.errors import ConfigError
from collector.records.json import indented_json, json_schemas
from collector.wording import unknown
from evaluators.answers.schemas import rewritten

CONFIGURATION = "configuration"
DRAFT = "http://json-schema.org/draft-07/schema#"
"""The draft that both editors and helm know."""
_ENVIRONMENT = r"\$\{env:"
"""A value that `${env:NAME}` is a part of: its value is not known here."""
_NUMBER = r"^-?[0-9.]+$"
"""A number as text, which is read as one: `helm --set` makes texts of fractions."""


def schema_text(name: str = CONFIGURATION) -> str:
    """A schema as JSON: of the configuration, or of a record: turn, conversation, evaluation, label.

    Raises:
        ConfigError: there is none of this name.
    """
    records = json_schemas()
    if name != CONFIGURATION and name not in records:
        raise ConfigError(unknown("schema", name, [CONFIGURATION, *records]))
    schema = configuration_schema() if name == CONFIGURATION else records[name]
    return indented_json(schema) + "\n"


def configuration_schema() -> dict[str, Any]:
    """The schema of the configuration file, with the keys of every evaluator and exporter that is installed.

    Names that are not installed are allowed where the file names a folder of `plugins`.
    """
    schema = Settings.model_json_schema()
    kinds = plugins.names(plugins.EVALUATORS)
    exporters = plugins.names(plugins.EXPORTERS)
    schema["properties"]["evaluators"]["additionalProperties"] = {
        "type": "object",
        "required": ["kind"],
        "properties": {"kind": {"description": "How to score.", "anyOf": [{"enum": kinds}, {"type": "string"}]}},
        "allOf": [_if_kind(kind) for kind in kinds],
    }
    schema["properties"]["export"]["properties"] = {
        name: _inlined(plugins.load(plugins.EXPORTERS, name).Settings.model_json_schema()) for name in exporters
    }
    known_kind = {"anyOf": [{"enum": kinds}, {"type": "string", "pattern": r"^[\w.]+:\w+$"}]}
    installed_alone = {
        "properties": {
            "evaluators": {"additionalProperties": {"properties": {"kind": known_kind}}},
            "export": {"propertyNames": {"enum": exporters}},
        }
    }
    return {
        "$schema": DRAFT,
        **cast("dict[str, Any]", rewritten(schema, _or_environment)),
        "title": "evalstream.yaml",
        "if": {"not": {"required": ["plugins"]}},
        "then": installed_alone,
    }


def _if_kind(kind: str) -> dict[str, Any]:
    """The keys of a kind; of two kinds with one name, those of its scope."""
    keys, of_conversations = _evaluator(kind), f"{plugins.CONVERSATIONAL}{kind}"
    if of_conversations in plugins.names(plugins.EVALUATORS):
        named = _evaluator(of_conversations)
        named = named | {"properties": {**named["properties"], "kind": {"const": kind}}}
        is_of_them = {"properties": {"scope": {"const": "conversation"}}, "required": ["scope"]}
        keys = {"if": is_of_them, "then": named, "else": keys}
    return {"if": {"properties": {"kind": {"const": kind}}, "required": ["kind"]}, "then": keys}


def _or_environment(node: dict[str, Any]) -> dict[str, Any]:
    """The schema, with `${env:NAME}` allowed where it asks for more than any text."""
    if "prefixItems" in node:  # as the draft calls it
        node["items"] = node.pop("prefixItems")
    is_number = node.get("type") in ("integer", "number", "boolean")
    if not (is_number or (node.get("type") == "string" and not {"pattern", "enum", "format"}.isdisjoint(node))):
        return node
    outside = {name: node.pop(name) for name in ("title", "description", "default") if name in node}
    as_text = f"{_ENVIRONMENT}|{_NUMBER}" if node.get("type") in ("integer", "number") else _ENVIRONMENT
    return {"anyOf": [node, {"type": "string", "pattern": as_text}], **outside}


_JUDGE = {
    "description": "The name of one of `judges`, `juries` or `cascades`, or two of `judges`: one that writes, one that "
    "decides.",
    "anyOf": [
        {"type": "string"},
        {
            "type": "object",
            "properties": {"extract": {"type": "string"}, "decide": {"type": "string"}},
            "required": ["extract", "decide"],
            "additionalProperties": False,
        },
    ],
}


def _evaluator(kind: str) -> dict[str, Any]:
    evaluator = plugins.evaluator_class(kind)
    schema = _inlined(evaluator.model_json_schema())
    properties = {"kind": {"const": kind}, "scope": {"const": evaluator.scope}, **schema["properties"]}
    del properties["name"]  # the key under `evaluators` is the name
    if evaluator.needs_judge:
        properties["judge"] = _JUDGE
    if not evaluator.model_fields.get("labels"):
        properties["audit"] = _inlined(AuditSettings.model_json_schema())
    required = ["kind", *(name for name in schema.get("required", []) if name != "name")]
    return schema | {"properties": properties, "required": required}


def _inlined(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with its own definitions put in where they are used, so that it can stand inside another."""
    definitions = schema.pop("$defs", {})

    def put_in(value: Any) -> Any:
        if isinstance(value, dict):
            reference: Any = value.get("$ref")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            if isinstance(reference, str):
                return put_in(definitions[reference.rpartition("/")[2]])
            return {key: put_in(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
        return [put_in(item) for item in value] if isinstance(value, list) else value  # pyright: ignore[reportUnknownVariableType]

    return put_in(schema)
