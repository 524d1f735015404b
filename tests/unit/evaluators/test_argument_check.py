"""Arguments of tool calls beside `jsonschema` itself, and schemas that would take for ever."""

from __future__ import annotations

import random
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from evaluators.turn.argument_schema import find_problems

POINT = {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}
DEFINITIONS = {"Point": POINT, "Node": {"properties": {"next": {"$ref": "#/$defs/Node"}}}}
CAT = {"properties": {"kind": {"const": "cat"}, "lives": {"type": "integer"}}, "required": ["kind", "lives"]}
DOG = {"properties": {"kind": {"const": "dog"}}, "required": ["kind"]}


@pytest.mark.parametrize(
    ("schema", "right", "wrong", "problem"),
    [
        ({"$ref": "#/$defs/Point"}, {"x": 1}, {"x": "1"}, "a.x should be number, not string"),
        ({"$ref": "#/$defs/Point"}, {"x": 1}, {"x": 1, "y": 2}, "a.y is not a parameter"),
        ({"items": {"$ref": "#/$defs/Point"}}, [{"x": 1}], [{"x": 1}, {}], "a[1].x is missing"),
        ({"$ref": "#/$defs/Node"}, {"next": {"next": {}}}, {"next": {"far": 1}}, "a.next.far is not a parameter"),
        ({"allOf": [{"$ref": "#/$defs/Point"}]}, {"x": 1}, {}, "a.x is missing"),
        ({"oneOf": [CAT, DOG]}, {"kind": "dog"}, {"kind": "cat"}, "a is none of what is allowed"),
        ({"const": 1}, 1, True, "a is none of the values that are allowed"),
        ({"minimum": 3}, 3, 2, "a does not fit minimum 3"),
        ({"pattern": "^[A-Z]+$"}, "AB", "ab", "a does not fit pattern"),
        ({"minItems": 1}, [1], [], "a does not fit minItems 1"),
        ({"type": "array", "uniqueItems": True}, [1, True], [1, 1.0], "a does not fit uniqueItems True"),
        ({"type": "any", "required": True}, 1, None, None),
        ({"pattern": "(?=x)"}, "y", "z", None),
    ],
)
def test_each_keyword_that_frameworks_write(schema: Any, right: Any, wrong: Any, problem: str | None) -> None:
    whole = {"type": "object", "properties": {"a": schema}, "required": ["a"], "$defs": DEFINITIONS}
    assert find_problems({"a": right}, whole, 5) == []
    assert find_problems({"a": wrong}, whole, 5) == ([problem] if problem else [])


def doubling(name: str) -> dict[str, Any]:
    return {f"D{n}": {name: [{"$ref": f"#/$defs/D{n + 1}"}] * 2} for n in range(40)} | {"D40": {"type": "string"}}


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"b": {"$ref": "#/$defs/D0"}}, "$defs": doubling("anyOf")},
        {"properties": {"c": {"$ref": "#/$defs/D0"}}, "$defs": doubling("allOf")},
        {"properties": {"a": {}}, "allOf": [{"$ref": "#"}]},
        {"properties": {"a": {"$ref": "https://example.org/schema"}}},
        {"properties": {"a": {"minimum": "three"}}},
        {"properties": ["a"]},
    ],
)
def test_a_schema_that_cannot_be_compared_is_none(schema: Any) -> None:
    assert find_problems({"a": 1, "b": 1, "c": "x"}, schema | {"additionalProperties": True}, 5) is None


class Schemas:
    """Random schemas and values."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def value(self, depth: int = 0) -> Any:
        pick = self.random.choice
        kind = self.random.randrange(8 if depth < 3 else 6)
        if kind == 6:
            return [self.value(depth + 1) for _ in range(self.random.randrange(4))]
        if kind == 7:
            return {pick("abcd"): self.value(depth + 1) for _ in range(self.random.randrange(4))}
        return pick([None, True, False, -2, 0, 1, 2, 5, 0.5, 2.0, 4.5, "a", "ab", "x1", ""])

    def schema(self, depth: int = 0) -> Any:
        pick, small = self.random.choice, self.random.randrange(4)
        if depth > 3:
            return pick([{}, {"type": "string"}, {"type": "integer"}])
        match self.random.randrange(12):
            case 0:
                return {"type": pick(["string", "integer", "number", "boolean", "null", "array", ["string", "null"]])}
            case 1:
                return {"const": self.value(2)}
            case 2:
                return {"enum": [self.value(2), self.value(2)]}
            case 3:
                return {"type": "integer", "minimum": small}
            case 4:
                return {"maximum": small, "exclusiveMinimum": -2, "multipleOf": 2}
            case 5:
                return {"pattern": pick(["^a", "b$", "[0-9]"]), "minLength": 1}
            case 6:
                return {"type": "array", "items": self.schema(depth + 1), "minItems": small, "uniqueItems": True}
            case 7:
                return {pick(["anyOf", "oneOf", "allOf"]): [self.schema(depth + 1), self.schema(depth + 1)]}
            case 8:
                return {"$ref": "#/$defs/Q"}
            case 9:
                return {"not": self.schema(depth + 1)}
            case _:
                return self.object(depth)

    def object(self, depth: int) -> dict[str, Any]:
        names = self.random.sample("abcd", self.random.randrange(1, 4))
        return {
            "type": "object",
            "properties": {name: self.schema(depth + 1) for name in names},
            "required": names,
            "additionalProperties": self.random.choice([True, False]),
        }


@pytest.mark.long
def test_two_thousand_random_schemas_agree_with_jsonschema() -> None:
    schemas = Schemas(44)
    fits = 0
    for _ in range(2000):
        schema = schemas.object(0) | {"$defs": {"Q": schemas.object(2)}}
        arguments = {name: schemas.value() for name in schemas.random.choice([schema["required"], list("ab")])}
        expected = Draft202012Validator(schema).is_valid(arguments)
        problems = find_problems(arguments, schema, 5)
        assert (problems == []) == expected, (schema, arguments, problems)
        fits += expected
    assert 100 < fits < 1900
