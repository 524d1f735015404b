"""Whether the arguments of a tool call are those that its definition asks for: names and types, in linear time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

from evaluators.cases import Json

_DEEPEST = 20
_MOST_ITEMS = 1000
"""Items of a list that are looked at."""


def find_problems(arguments: Json, schema: Mapping[str, Json], path: str = "", depth: int = 0) -> Iterator[str]:
    """Returns the faults of a value, one clause for each and without the value itself; nothing if it fits.

    Understands the types, `properties`, `required`, `additionalProperties`, `items`, `enum` and `anyOf` of JSON Schema.
    A property that is not listed is wrong unless `additionalProperties` permits any, as tools refuse it.
    """
    if depth > _DEEPEST:
        return
    where = path or "the object of arguments"
    if options := _list(schema.get("anyOf")):
        if not any(_fits(arguments, option, path, depth + 1) for option in options[:50]):
            yield f"{where} is none of what is allowed"
        return
    types = schema.get("type")
    names = [types] if isinstance(types, str) else _list(types)
    if names and not any(_is_of(arguments, name) for name in names):
        yield f"{where} should be {' or '.join(map(str, names))}, not {_type_of(arguments)}"
        return
    values = _list(schema.get("enum"))
    if values and not any(_equal(arguments, value) for value in values):
        yield f"{where} is none of the values that are allowed"
    if isinstance(arguments, Mapping):
        yield from _properties(cast("Mapping[str, Json]", arguments), schema, path, depth)
    elif isinstance(arguments, list) and isinstance(schema.get("items"), Mapping):
        for at, argument in enumerate(cast("list[Json]", arguments)[:_MOST_ITEMS]):
            yield from find_problems(argument, schema["items"], f"{path}[{at}]", depth + 1)


def _properties(values: Mapping[str, Json], schema: Mapping[str, Json], path: str, depth: int) -> Iterator[str]:
    properties: Json = schema.get("properties")
    known = cast("Mapping[str, Json]", properties) if isinstance(properties, Mapping) else None
    required = [name for name in _list(schema.get("required")) if isinstance(name, str)]
    for name in required:
        if name not in values:
            yield f"{_join(path, name)} is missing"
    if known is None:
        return
    for name, value in values.items():
        if name in known:
            if isinstance(known[name], Mapping) and not (value is None and name not in required):
                yield from find_problems(value, known[name], _join(path, name), depth + 1)
        elif schema.get("additionalProperties") is not True:
            yield f"{_join(path, name[:100])} is not a parameter"


def _list(value: Json) -> list[Json]:
    return cast("list[Json]", value) if isinstance(value, list) else []


def _fits(value: Json, schema: Json, path: str, depth: int) -> bool:
    if not isinstance(schema, Mapping):
        return True
    return next(find_problems(value, cast("Mapping[str, Json]", schema), path, depth), None) is None


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _type_of(value: Json) -> str:
    for name in ("null", "boolean", "integer", "number", "string", "array"):
        if _is_of(value, name):
            return name
    return "object"


def _is_of(value: Json, name: Json) -> bool:
    """Whether a value is of a type of JSON; 3.0 is a whole number, too."""
    match name:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return not isinstance(value, bool) and (
                isinstance(value, int) or (isinstance(value, float) and value.is_integer())
            )
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "string":
            return isinstance(value, str)
        case "array":
            return isinstance(value, list | tuple)
        case _:
            return isinstance(value, Mapping)


def _equal(value: Json, other: Json) -> bool:
    return value == other and isinstance(value, bool) == isinstance(other, bool)
