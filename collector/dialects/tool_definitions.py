"""The tools that a model was offered: their definitions in a span's attributes, whatever library wrote them.

Libraries differ in names alone; the definitions are those of the models' interfaces. Names, descriptions and what types
of arguments a tool takes are read; texts and examples of the arguments are not: they are most of a definition, and
repeat with each turn.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, cast

import msgspec

from collector.dialects.decode import as_dict, as_list, decode, decode_json
from collector.dialects.parameter_schema import compact_schema
from evaluators.cases import Json, ToolDefinition

MOST_TOOLS = 128
"""Tools of a turn that are read."""

_LONGEST_NAME, _LONGEST_DESCRIPTION = 200, 500

_PLACES: Mapping[str, tuple[str, ...]] = {
    "gen_ai.tool.definitions": (),  # OpenTelemetry
    "gen_ai.request.tools": (),
    "ai.prompt.tools": (),  # Vercel
    "mlflow.chat.tools": (),
    "llm.request.tools": (),
    "haystack.agent.tools": (),
    "tools": (),
    "model_request_parameters": ("function_tools", "output_tools", "builtin_tools"),  # Pydantic AI
    "request_data": ("tools",),  # Logfire
    "llm.invocation_parameters": ("tools",),  # OpenInference
    "invocation_params": ("tools",),
    "gcp.vertex.agent.llm_request": ("config",),  # Google ADK
    "langfuse.observation.input": ("tools",),
    "haystack.component.input": ("tools",),
    "genkit:input": ("tools",),
    "traceloop.entity.input": ("tools",),  # SageMaker
    "gen_ai.prompt": ("tools",),  # LangSmith
}
"""The names of attributes, each with the fields of its document that list tools; none where it is a list itself."""
_INDEXED = ("llm.tools.", "llm.request.functions.")
"""Beginnings of names with a number: OpenInference, OpenLLMetry."""
_PARAMETERS = (
    "parameters", "inputSchema", "input_schema", "parameters_json_schema", "parametersJsonSchema", "args_schema",
    "arguments",
)  # fmt: skip
"""Names of the schema of the arguments, in the order of how common they are."""


def find_tool_definitions(spans: Iterable[Mapping[str, Any]]) -> tuple[ToolDefinition, ...]:
    """The tools that the attributes of some spans define, each name once."""
    unique: dict[str, ToolDefinition] = {}
    seen: set[tuple[str, str]] = set()
    for attributes in spans:
        names = "\n".join(attributes)
        is_indexed = _INDEXED[0] in names or _INDEXED[1] in names
        if not is_indexed and _PLACES.keys().isdisjoint(attributes):
            continue
        for definition in chain(_definitions(attributes, seen), _indexed(attributes) if is_indexed else ()):
            known = unique.get(definition.name)
            unique[definition.name] = definition if known is None else _completed(known, definition)
            if len(unique) >= MOST_TOOLS:
                return tuple(unique.values())
    return tuple(unique.values())


def _completed(known: ToolDefinition, other: ToolDefinition) -> ToolDefinition:
    """A definition with the additional fields of another definition of the same tool."""
    return ToolDefinition(
        name=known.name,
        description=known.description or other.description,
        parameters=other.parameters if known.parameters is None else known.parameters,
    )


def _definitions(attributes: Mapping[str, Any], seen: set[tuple[str, str]]) -> Iterator[ToolDefinition]:
    """The tools that one span defines as documents. A catalogue that several spans have is decoded once."""
    for name in [name for name in _PLACES if name in attributes]:
        value, keys = attributes[name], _PLACES[name]
        if keys and isinstance(value, str):
            quote = '"' if '"' in value else ""
            if not any(f"{quote}{key}{quote}" in value for key in keys):
                continue  # long inputs are not decoded for nothing
        if not _is_known(name, value, seen):
            for each in _lists_of(value, keys) if keys else (value,):
                yield from _of_text(each) if isinstance(each, str) and (keys or each[:1] == "[") else _of_list(each)


def _lists_of(value: Any, keys: Sequence[str]) -> list[Json]:
    """The lists of a document; as texts where they can be, as tools repeat and the messages beside them do not."""
    try:
        texts = _split(value)
    except (TypeError, ValueError, RecursionError):  # a mapping, or no JSON
        return [as_dict(decode(value)).get(key) for key in keys]
    return [bytes(texts[key]).decode() for key in keys if key in texts]


_split = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def _is_known(name: str, value: Json, seen: set[tuple[str, str]]) -> bool:
    if not isinstance(value, str):
        return False
    known = (name, value) in seen
    seen.add((name, value))
    return known


def _indexed(attributes: Mapping[str, Any]) -> Iterator[ToolDefinition]:
    parts: dict[tuple[str, str], dict[str, Json]] = {}
    for name in [name for name in attributes if name.startswith(_INDEXED)]:
        for prefix in _INDEXED:
            if name.startswith(prefix):
                number, _, rest = name.removeprefix(prefix).partition(".")
                if number.isdecimal() and len(number) <= 4:
                    parts.setdefault((prefix, number), {})[rest] = attributes[name]
    for _, fields in sorted(parts.items(), key=lambda item: (item[0][0], int(item[0][1]))):
        schema = next((fields[key] for key in ("tool.json_schema", "json_schema") if key in fields), None)
        if isinstance(schema, str) and schema.startswith("{"):
            yield from _of_text(schema)
        else:
            yield from _of_value(fields if schema is None else decode(schema))


def _of_text(text: str) -> Iterable[ToolDefinition]:
    """The tools that a text defines: the JSON of a list of tools, or of one tool."""
    return _of_repeated(text) if len(text) <= _LONGEST_REPEATED else _of_list(decode_json(text))


@lru_cache(64)
def _of_repeated(text: str) -> tuple[ToolDefinition, ...]:
    """The tools that a text defines, decoded once: an application offers the same tools again and again."""
    return tuple(_of_list(decode_json(text)))


_LONGEST_REPEATED = 32_768
"""Characters of a text whose tools are remembered."""


def _of_list(value: Json) -> Iterator[ToolDefinition]:
    for each in as_list(decode(value))[:MOST_TOOLS]:
        yield from _of_value(decode(each) if isinstance(each, str) else each)
    if isinstance(value, Mapping):
        yield from _of_value(value)


def _of_value(value: Json, depth: int = 0) -> Iterator[ToolDefinition]:
    if not isinstance(value, Mapping):
        return
    fields = cast("Mapping[str, Json]", value)
    name = fields.get("name")
    if isinstance(name, str) and name.strip():
        description = fields.get("description")
        text = description[:_LONGEST_DESCRIPTION] if isinstance(description, str) and description.strip() else None
        parameters = next((schema for key in _PARAMETERS if (schema := compact_schema(decode(fields.get(key))))), None)
        yield ToolDefinition(name=name[:_LONGEST_NAME], description=text, parameters=parameters)
        return
    if depth < 3:
        for key in ("function", "toolSpec", "tool", "json_schema", "function_declaration", "data"):
            yield from _of_value(fields.get(key), depth + 1)
        for key in ("function_declarations", "functionDeclarations", "tools"):
            for field in as_list(fields.get(key))[:MOST_TOOLS]:
                yield from _of_value(field, depth + 1)
