"""The schema of a tool's arguments, reduced to what they may be: no texts, no references, bounded in size."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from collector.dialects.decode import as_list
from evaluators.cases import Json

_MOST_PARTS = 200
"""Schemas within a schema that are read; of a larger one nothing is."""
_DEEPEST = 8
_LONGEST_VALUE = 100
_MOST_VALUES = 50
_TYPES = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
_LIMITS = (
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    *("minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties"),
)


class _SchemaTooLarge(Exception):
    pass


@dataclass(slots=True)
class _SchemaReader:
    root: Mapping[str, Json]
    parts: int = 0

    def read(self, value: Json, depth: int = 0) -> dict[str, Json]:
        """A schema without what says nothing of values; references are replaced by what they refer to."""
        self.parts += 1
        if self.parts > _MOST_PARTS:
            raise _SchemaTooLarge
        if not isinstance(value, Mapping) or depth > _DEEPEST:
            return {}
        fields = cast("Mapping[str, Json]", value)
        if isinstance(fields.get("$ref"), str):
            return self.read(self._referred(fields["$ref"]), depth + 1)
        schema: dict[str, Json] = {}
        if types := _types(fields.get("type"), nullable=fields.get("nullable") is True):
            schema["type"] = types
        if values := _values(fields):
            schema["enum"] = values
        if isinstance(fields.get("properties"), Mapping):
            properties = cast("Mapping[str, Json]", fields["properties"])
            schema["properties"] = {
                name[:_LONGEST_VALUE]: self.read(each, depth + 1) for name, each in properties.items()
            }
        if isinstance(fields.get("required"), list):
            schema["required"] = [name for name in fields["required"] if isinstance(name, str)][:_MOST_PARTS]
        if fields.get("additionalProperties") is True or isinstance(fields.get("additionalProperties"), Mapping):
            schema["additionalProperties"] = True
        if isinstance(fields.get("items"), Mapping):
            schema["items"] = self.read(fields["items"], depth + 1)
        for name in ("anyOf", "oneOf", "any_of"):
            if isinstance(fields.get(name), list):
                schema["anyOf"] = [self.read(field, depth + 1) for field in fields[name]]
        schema |= {name: fields[name] for name in _LIMITS if isinstance(fields.get(name), bool | int | float)}
        if isinstance(fields.get("pattern"), str) and len(fields["pattern"]) <= _LONGEST_VALUE:
            schema["pattern"] = fields["pattern"]
        if isinstance(fields.get("allOf"), list):
            parts = [self.read(part, depth + 1) for part in fields["allOf"]]
            schema |= parts[0] if len(parts) == 1 else {"allOf": parts} if parts else {}
        return schema

    def _referred(self, reference: str) -> Json:
        for name in ("$defs", "definitions"):
            definitions, prefix = self.root.get(name), f"#/{name}/"
            if isinstance(definitions, Mapping) and reference.startswith(prefix):
                return cast("Mapping[str, Json]", definitions).get(reference.removeprefix(prefix))
        return None


def compact_schema(value: Json) -> Json:
    """The schema of an object of arguments, reduced; None if it is none, or too large."""
    if not isinstance(value, Mapping):
        return None
    root = cast("Mapping[str, Json]", value)
    inner = root.get("json")  # Bedrock
    root = cast("Mapping[str, Json]", inner) if isinstance(inner, Mapping) else root
    if not isinstance(root.get("properties"), Mapping):
        return None
    try:
        return _SchemaReader(root).read(root)
    except _SchemaTooLarge:
        return None


def _types(value: Json, *, nullable: bool) -> Json:
    """The names of types in lower case, as Google writes them in capitals; None if any is no type of JSON."""
    plain = [name.lower() for name in ([value] if isinstance(value, str) else as_list(value)) if isinstance(name, str)]
    if not plain or not _TYPES.issuperset(plain):
        return None
    plain += ["null"] if nullable else []
    return plain[0] if len(plain) == 1 else list(plain)


def _values(fields: Mapping[str, Json]) -> list[Json]:
    """The values that are accepted, if these are few and short."""
    values: Json = fields.get("enum", [fields["const"]] if "const" in fields else None)
    listed = cast("list[Json]", values) if isinstance(values, list) else []
    plain = [each for each in listed if each is None or isinstance(each, bool | int | float | str)]
    short = [each for each in plain if not isinstance(each, str) or len(each) <= _LONGEST_VALUE]
    return short if len(short) == len(listed) <= _MOST_VALUES else []
