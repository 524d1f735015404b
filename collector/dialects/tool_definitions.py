"""The tools that a model was offered: their definitions in a span's attributes, whatever library wrote them.

Libraries differ in names alone; the definitions are those of the models' interfaces. Names, descriptions and what types
of arguments a tool takes are read; texts and examples of the arguments are not: they are most of a definition, and
repeat with each turn.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, cast

from collector.dialects.decode import as_dict, as_list, decode
from collector.dialects.parameter_schema import compact_schema
from evaluators.cases import Json, ToolDefinition

MOST_TOOLS = 128
"""Tools of a turn that are read."""

_LONGEST_NAME, _LONGEST_DESCRIPTION = 200, 500

_LISTS = (
    "gen_ai.tool.definitions",  # OpenTelemetry
    "gen_ai.request.tools",
    "ai.prompt.tools",  # Vercel
    "mlflow.chat.tools",
    "llm.request.tools",
    "haystack.agent.tools",
    "tools",
)
_WITH_LISTS = (
    ("model_request_parameters", ("function_tools", "output_tools", "builtin_tools")),  # Pydantic AI
    ("request_data", ("tools",)),  # Logfire
    ("llm.invocation_parameters", ("tools",)),  # OpenInference
    ("invocation_params", ("tools",)),
    ("gcp.vertex.agent.llm_request", ("config",)),  # Google ADK
    ("langfuse.observation.input", ("tools",)),
    ("haystack.component.input", ("tools",)),
    ("genkit:input", ("tools",)),
    ("traceloop.entity.input", ("tools",)),  # SageMaker
    ("gen_ai.prompt", ("tools",)),  # LangSmith
)
_NAMES = frozenset((*_LISTS, *(name for name, _ in _WITH_LISTS)))
_INDEXED = ("llm.tools.", "llm.request.functions.")
"""Beginnings of names with a number: OpenInference, OpenLLMetry."""
_PARAMETERS = (
    "parameters", "inputSchema", "input_schema", "parameters_json_schema", "parametersJsonSchema", "args_schema",
    "arguments",
)  # fmt: skip
"""Names of the schema of the arguments, in the order of how common they are."""
_WRAPPERS = ("function", "toolSpec", "tool", "json_schema", "function_declaration", "data")


def find_tool_definitions(spans: Iterable[Mapping[str, Any]]) -> tuple[ToolDefinition, ...]:
    """The tools that the attributes of some spans define, each name once."""
    unique: dict[str, ToolDefinition] = {}
    seen: set[tuple[str, str]] = set()
    for attributes in spans:
        names = "\n".join(attributes)
        if _INDEXED[0] not in names and _INDEXED[1] not in names and _NAMES.isdisjoint(attributes):
            continue
        for definition in _definitions(attributes, seen):
            known = unique.get(definition.name)
            unique[definition.name] = definition if known is None else _completed(known, definition)
            if len(unique) >= MOST_TOOLS:
                return tuple(unique.values())
    return tuple(unique.values())


def _completed(known: ToolDefinition, other: ToolDefinition) -> ToolDefinition:
    """A definition with what another one of the same tool says beyond it."""
    return ToolDefinition(
        name=known.name,
        description=known.description or other.description,
        parameters=other.parameters if known.parameters is None else known.parameters,
    )


def _definitions(attributes: Mapping[str, Any], seen: set[tuple[str, str]]) -> Iterator[ToolDefinition]:
    """The tools that one span defines. A catalogue that an earlier span has, too, is decoded once."""
    for name in _LISTS:
        if name in attributes and not _is_known(name, attributes[name], seen):
            value = attributes[name]
            yield from _of_text(value) if isinstance(value, str) and value.startswith("[") else _of_list(value)
    for name, keys in _WITH_LISTS:
        value = attributes.get(name)
        if isinstance(value, str) and '"' in value and not any(f'"{key}"' in value for key in keys):
            continue  # long inputs are not decoded for nothing
        if value is not None and not _is_known(name, value, seen):
            value = as_dict(decode(value))
            for key in keys:
                yield from _of_list(value.get(key))
    yield from _indexed(attributes)


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


def _of_text(text: str) -> tuple[ToolDefinition, ...]:
    """The tools that a text defines, the JSON of a list or of one tool."""
    return _of_repeated(text) if len(text) <= _LONGEST_REPEATED else _of_decoded(decode(text))


@lru_cache(64)
def _of_repeated(text: str) -> tuple[ToolDefinition, ...]:
    """The tools that a text defines, decoded once: an application offers the same tools again and again."""
    return _of_decoded(decode(text))


def _of_decoded(value: Json) -> tuple[ToolDefinition, ...]:
    return tuple(_of_value(value) if isinstance(value, Mapping) else _of_list(value))


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
        for key in _WRAPPERS:
            yield from _of_value(fields.get(key), depth + 1)
        for key in ("function_declarations", "functionDeclarations", "tools"):
            for field in as_list(fields.get(key))[:MOST_TOOLS]:
                yield from _of_value(field, depth + 1)
