"""JSON Schema keywords whose time grows no faster than the judged value; they replace the ones in `jsonschema`."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, cast

from evaluators.cases import Json
from evaluators.texts.hashable_json import to_hashable
from evaluators.texts.linear_regex import check_pattern, matches

_VALUES = frozenset({"const", "default", "enum", "examples"})
"""Keywords whose values are no schemas."""


def linear(validator: Any) -> Any:
    """A class of `jsonschema` with patterns in linear time and unique items found by their hashes."""
    extend: Any = import_module("jsonschema.validators").extend  # untyped
    ours = {
        "additionalProperties": _additional_properties,
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "uniqueItems": _unique_items,
    }
    return extend(validator, {name: keyword for name, keyword in ours.items() if name in validator.VALIDATORS})


def check_patterns(schema: Json) -> None:
    """Raise a ValueError that names the first pattern that cannot be searched in linear time, and why."""
    for keyword, value in _keywords(schema):
        for pattern in {"pattern": [value], "patternProperties": value}.get(keyword, ()):
            if isinstance(pattern, str):
                try:
                    check_pattern(pattern)
                except ValueError as error:
                    raise ValueError(f"json_schema: {keyword} {pattern!r}: {error}") from None


def mentions_unevaluated(schema: Json) -> bool:
    """Whether a keyword depends on other keywords' results, which takes time that grows with the value's square."""
    return any(keyword.startswith("unevaluated") for keyword, _ in _keywords(schema))


def _keywords(schema: Json) -> Iterator[tuple[str, Any]]:
    """Every key of every object in a schema, with its value; names of properties too, which are no keywords."""
    if isinstance(schema, Mapping):
        for key, value in cast("Mapping[str, Any]", schema).items():
            yield key, value
            if key not in _VALUES:
                yield from _keywords(value)
    elif isinstance(schema, list):
        for child in cast("list[Any]", schema):
            yield from _keywords(child)


def _pattern(validator: Any, pattern: str, value: Any, _schema: Any) -> Iterator[Any]:
    if validator.is_type(value, "string") and not matches(pattern, value):
        yield _error("does not match the pattern")


def _pattern_properties(validator: Any, patterns: Mapping[str, Any], value: Any, _schema: Any) -> Iterator[Any]:
    if not validator.is_type(value, "object"):
        return
    for pattern, subschema in patterns.items():
        for name, member in value.items():
            if matches(pattern, name):
                yield from validator.descend(member, subschema, path=name, schema_path=pattern)


def _additional_properties(validator: Any, allowed: Any, value: Any, schema: Any) -> Iterator[Any]:
    if not validator.is_type(value, "object"):
        return
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    extras = [name for name in value if name not in known and not any(matches(pattern, name) for pattern in patterns)]
    if validator.is_type(allowed, "object"):
        for name in extras:
            yield from validator.descend(value[name], allowed, path=name)
    elif not allowed and extras:
        yield _error("has properties that are not allowed")


def _unique_items(validator: Any, unique: Any, value: Any, _schema: Any) -> Iterator[Any]:
    if unique and validator.is_type(value, "array"):
        items = [to_hashable(item) for item in value]
        if len(set(items)) < len(items):
            yield _error("has equal items")


def _error(message: str) -> Any:
    from jsonschema.exceptions import ValidationError

    return ValidationError(message)
