"""The form of a reply as JSON Schema, as judges with structured output want it."""

from collections.abc import Callable, Iterator, Mapping, Set as AbstractSet
from functools import cache, lru_cache, partial
from typing import Any, cast

import orjson
from pydantic import BaseModel

from evaluators.asking.prompt_isolation import ANSWER_KEY
from evaluators.cases import Json

_UNDERSTOOD = frozenset(
    {
        *("$defs", "$ref", "additionalProperties", "anyOf", "const", "description", "enum", "items"),
        *("maximum", "minimum", "properties", "required", "type"),
    }
)
"""The keywords that every strict structured output understands; the form's other rules are checked afterwards."""


@cache
def schema_of(reply: type[BaseModel]) -> dict[str, Json]:
    """The form in its own field order: every field is required, and no other is allowed. Computed once per form."""
    return cast("dict[str, Json]", _reduced(reply.model_json_schema()))


@cache
def schema_with_key(reply: type[BaseModel]) -> dict[str, Json]:
    """The form with a place for a question's key before its fields.

    The place takes any text, not only this question's key: else each question would need its own schema, which servers
    compile again, and a grammar would write the key even if the judge did not know it.
    """
    schema = schema_of(reply)
    assert ANSWER_KEY not in schema["properties"], f"{ANSWER_KEY} is the question's, not a field of {reply.__name__}"
    properties = {ANSWER_KEY: {"type": "string"}, **schema["properties"]}
    return {**schema, "properties": properties, "required": list(properties)}


LONGEST_ANSWER = 1000
"""The assumed length limit of an answer, in tokens, for bounding its texts if no limit is configured."""

_CHARACTERS_PER_TOKEN = 2  # a token has about 4, so the texts take half of the answer
_SHORTEST_TEXT = 24
_MOST_ITEMS = 30


@lru_cache(maxsize=1000)
def bounded_schema(
    reply: type[BaseModel], *, keyed: bool, alone: bool = False, max_tokens: int | None = None
) -> dict[str, Json]:
    """The form with bounds: a list has as many entries as required, and texts fit into an answer of `max_tokens`.

    Without `max_tokens` there are no bounds. With `alone` the form has no reasons. With `keyed` it has a place for the
    question's key.
    """
    schema = _reduced(reply.model_json_schema(), _UNDERSTOOD | ({"minItems", "maxItems"} if max_tokens else set[str]()))
    schema = rewritten(schema, _without_reasons) if alone else schema
    if keyed:
        properties = {ANSWER_KEY: {"type": "string"}, **schema["properties"]}
        schema = {**schema, "properties": properties, "required": list(properties)}
    if max_tokens is not None:
        entries = [node["minItems"] for node in nodes_of(schema) if "minItems" in node]
        longest = max(_SHORTEST_TEXT, max_tokens * _CHARACTERS_PER_TOKEN // max([1, *entries]))
        schema = rewritten(schema, partial(_bounded, longest=longest))
    return cast("dict[str, Json]", schema)


def has_reasons(reply: type[BaseModel]) -> bool:
    """Whether a form has reasons that a verdict can do without."""
    return any(is_reason(name) for node in nodes_of(schema_of(reply)) for name in node.get("properties", ()))


def is_reason(name: str) -> bool:
    """Whether a field says why, and is not the verdict itself."""
    return name in {"reason", "evidence"} or name.endswith("_reason")


def with_empty_reasons(value: Mapping[str, Any], reply: type[BaseModel]) -> dict[str, Any]:
    """A value of a form with an empty reason wherever one is missing."""
    schema = schema_of(reply)
    return cast("dict[str, Any]", _completed(value, schema, cast("Mapping[str, Any]", schema.get("$defs", {}))))


def _completed(value: Any, schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Any:
    if "$ref" in schema:
        return _completed(value, definitions[schema["$ref"].rpartition("/")[2]], definitions)
    if isinstance(value, list) and "items" in schema:
        return [_completed(item, schema["items"], definitions) for item in cast("list[Any]", value)]
    if not isinstance(value, dict) or "properties" not in schema:
        return cast("Any", value)
    own = cast("dict[str, Any]", value)
    forms: Mapping[str, Any] = schema["properties"]
    known = {name: _completed(field_value, forms.get(name, {}), definitions) for name, field_value in own.items()}
    missing: dict[str, Any] = {
        name: [] if form.get("type") == "array" else ""
        for name, form in schema["properties"].items()
        if name not in own and is_reason(name)
    }
    return {**missing, **known}


def nodes_of(schema: Any) -> Iterator[dict[str, Any]]:
    """Every object inside a schema, itself included."""
    if isinstance(schema, dict):
        node = cast("dict[str, Any]", schema)
        yield node
        for child in node.values():
            yield from nodes_of(child)
    elif isinstance(schema, list):
        for child in cast("list[Any]", schema):
            yield from nodes_of(child)


def rewritten(schema: Any, rewrite: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """A copy of a schema with every object inside it rewritten, itself included; the innermost come first."""
    if isinstance(schema, list):
        return [rewritten(child, rewrite) for child in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    return rewrite({key: rewritten(value, rewrite) for key, value in cast("dict[str, Any]", schema).items()})


def _without_reasons(node: dict[str, Any]) -> dict[str, Any]:
    if "properties" in node:
        node["properties"] = {name: form for name, form in node["properties"].items() if not is_reason(name)}
        node["required"] = list(node["properties"])
    return node


def _bounded(node: dict[str, Any], longest: int) -> dict[str, Any]:
    if node.get("type") == "string" and "enum" not in node and "const" not in node:
        node["maxLength"] = longest
    if node.get("type") == "array":
        node.setdefault("maxItems", _MOST_ITEMS)
    return node


@cache
def schema_text(reply: type[BaseModel]) -> str:
    """The schema as one line of JSON: the identity of the form."""
    return orjson.dumps(schema_of(reply)).decode()


def _reduced(node: Any, understood: AbstractSet[str] = _UNDERSTOOD) -> Any:
    if isinstance(node, list):
        return [_reduced(item, understood) for item in cast("list[Any]", node)]
    if not isinstance(node, dict):
        return node
    keywords = {key: value for key, value in cast("dict[str, Any]", node).items() if key in understood}
    result: dict[str, Any] = {}
    for key, value in keywords.items():
        if key in {"properties", "$defs"}:
            result[key] = {name: _reduced(child, understood) for name, child in value.items()}
        else:
            result[key] = _reduced(value, understood) if key in {"items", "anyOf"} else value
    if "properties" in result:
        result["required"] = list(result["properties"])
        result["additionalProperties"] = False
    return result
