"""The form of a reply as JSON Schema, as judges with structured output want it."""

from __future__ import annotations

from functools import cache
from typing import Any, cast

import orjson
from pydantic import BaseModel

from evaluators.cases import Json
from evaluators.prompt_isolation import ANSWER_KEY

_UNDERSTOOD = frozenset(
    {
        *("$defs", "$ref", "additionalProperties", "anyOf", "const", "description", "enum", "items"),
        *("maximum", "minimum", "properties", "required", "type"),
    }
)
"""The keywords that strict structured output understands everywhere; what else a form demands is checked after."""


@cache
def schema_of(reply: type[BaseModel]) -> dict[str, Json]:
    """The form in its own field order, every field required, no others allowed. Computed once per form."""
    return cast("dict[str, Json]", _reduced(reply.model_json_schema()))


@cache
def schema_with_key(reply: type[BaseModel]) -> dict[str, Json]:
    """The form with a place for a question's key before its fields.

    The place is any text, not this question's key: else each question had a schema of its own, which servers compile
    again, and a grammar would write the key whether the judge did or not.
    """
    schema = schema_of(reply)
    assert ANSWER_KEY not in schema["properties"], f"{ANSWER_KEY} is the question's, not a field of {reply.__name__}"
    properties = {ANSWER_KEY: {"type": "string"}, **schema["properties"]}
    return {**schema, "properties": properties, "required": list(properties)}


@cache
def schema_text(reply: type[BaseModel]) -> str:
    """The same as one line of JSON: the identity of the form."""
    return orjson.dumps(schema_of(reply)).decode()


def _reduced(node: Any) -> Any:
    if isinstance(node, list):
        return [_reduced(item) for item in cast("list[Any]", node)]
    if not isinstance(node, dict):
        return node
    keywords = {key: value for key, value in cast("dict[str, Any]", node).items() if key in _UNDERSTOOD}
    result: dict[str, Any] = {}
    for key, value in keywords.items():
        if key in {"properties", "$defs"}:
            result[key] = {name: _reduced(each) for name, each in value.items()}
        elif key in {"items", "anyOf"}:
            result[key] = _reduced(value)
        else:
            result[key] = value
    if "properties" in result:
        result["required"] = list(result["properties"])
        result["additionalProperties"] = False
    return result
