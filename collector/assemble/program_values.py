"""Named inputs and outputs of structured programs: DSPy's modules, forms (Instructor, generateObject), flows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from collector.assemble.model_calls import normalize_whitespace
from collector.assemble.turn_drafts import TurnDraft
from collector.dialects.decode import as_dict, decode
from collector.otlp.span import Attributes
from evaluators.cases import Json

_INPUTS = (
    "input.value", "traceloop.entity.input", "genkit:input", "mlflow.spanInputs", "langfuse.observation.input",
    "logfire.input", "gen_ai.prompt", "input",
)  # fmt: skip
_OUTPUTS = (
    "output.value", "traceloop.entity.output", "genkit:output", "mlflow.spanOutputs", "langfuse.observation.output",
    "logfire.output", "gen_ai.completion", "output",
)  # fmt: skip
_WRAPPERS = ("kwargs", "inputs", "input_args")
"""Keys under which a function's named arguments are."""
_MESSAGES = frozenset({"messages", "contents", "choices", "candidates", "generations", "role", "parts", "lc", "args"})
"""Keys of shapes that are no program's fields."""
_NOTHING: Mapping[str, Json] = MappingProxyType({})
_LONGEST_DOCUMENT = 100_000
_LONGEST_TEXT = 16_384
MOST_FIELDS = 32
"""Fields of a turn, inputs and outputs together."""


def find_program_fields(draft: TurnDraft, question: str | None, answer: str | None) -> dict[str, Json]:
    """Find `inputs.<name>` and `outputs.<name>` of a draft; {} where no part of it has names.

    The outputs are the answer itself where it is a form, else those of the enclosing span if one of them is the answer;
    the inputs are those of the enclosing span if one of them is the question, or if its outputs have names.
    """
    enclosing_span = draft.enclosing_span
    if not answer or (enclosing_span is None and answer[0] != "{"):
        return {}
    attributes: Attributes = enclosing_span.span.attributes if enclosing_span is not None else {}
    outputs = _parse_object(answer) or _having(_find_object(attributes, _OUTPUTS), answer)
    inputs = _find_object(attributes, _INPUTS)
    if not outputs:
        inputs = _having(inputs, question)
    pairs = (*_name("inputs", inputs), *_name("outputs", outputs))
    return dict(pairs[:MOST_FIELDS])


def _find_object(attributes: Attributes, names: Iterable[str]) -> Mapping[str, Json]:
    value = next((attributes[name] for name in names if name in attributes), None) if attributes else None
    if value is None:
        return _NOTHING
    fields = _parse_object(value) if isinstance(value, str) else as_dict(value)
    for wrapper in _WRAPPERS:
        inner = as_dict(fields.get(wrapper))
        if inner:
            fields = inner
    return fields if fields.keys().isdisjoint(_MESSAGES) else _NOTHING


def _parse_object(text: str) -> Mapping[str, Json]:
    """Parse JSON with names; what begins with messages is not even decoded, as states of chains are long."""
    if len(text) > _LONGEST_DOCUMENT or not text.startswith("{") or '"messages"' in text[:40]:
        return _NOTHING
    return as_dict(decode(text))


def _having(fields: Mapping[str, Json], text: str | None) -> Mapping[str, Json]:
    """The fields if one of them is this text, else none."""
    if not text or not fields:
        return _NOTHING
    wanted = normalize_whitespace(text)
    is_there = any(isinstance(field, str) and normalize_whitespace(field) == wanted for field in fields.values())
    return fields if is_there else _NOTHING


def _name(side: str, fields: Mapping[str, Json]) -> Iterable[tuple[str, Json]]:
    for name, value in fields.items():
        if name.isidentifier() and value is not None:
            yield f"{side}.{name}", value[:_LONGEST_TEXT] if isinstance(value, str) else value
