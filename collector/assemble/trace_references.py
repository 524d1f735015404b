"""References that came with a trace: the expected answer, the ideal context and the expected tools of a turn.

Programs that run experiments write them on the span of the case, around the model's. The nearest span wins, then the
resource; there the keys of a field are tried in order.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from collector.assemble.losses import Losses
from collector.assemble.speech import KEYS as SPEECH_KEYS
from collector.dialects.attributes import is_masked
from collector.dialects.decode import decode, decode_json, is_unfinished
from collector.errors import BadInput
from collector.otlp.span import Attributes, Span
from collector.records.foreign_shapes import tool_call_fields
from evaluators.cases import Json, ToolCall

USUAL_KEYS: Mapping[str, tuple[str, ...]] = {
    "expected_output": (
        "confident.span.expected_output",
        "confident.trace.expected_output",
        "langfuse.experiment.item.expected_output",
        "braintrust.expected",
        "braintrust.expected_json",
        "ai.observability.record_root.ground_truth_output",
        "expected_output",
    ),
    "context": ("confident.span.context", "confident.trace.context"),
    "expected_tools": ("confident.span.expected_tools", "confident.trace.expected_tools"),
}
"""The attributes of DeepEval, Langfuse, Braintrust, TruLens and Pydantic Evals, by the field of a turn."""
_LONGEST = 100_000
"""Characters of a reference; a longer one is left out, not cut."""

References = Mapping[str, Any]


class TraceReferences:
    """Finds references by the attributes' names: the configured names, before the usual ones."""

    def __init__(self, configured: Mapping[Any, Sequence[str]] | None = None) -> None:
        own = configured or {}
        self._keys = {name: (*own.get(name, ()), *usual) for name, usual in USUAL_KEYS.items()}
        self.names = frozenset(key for keys in self._keys.values() for key in keys)
        self.names_beside = self.names | SPEECH_KEYS
        """With the attributes of turns by voice: only a trace with one of these names is searched for them."""

    def find(self, spans: Iterable[Span], losses: Losses) -> References:
        """The references of the nearest of these spans that has each, nearest first, then of their resource."""
        result: dict[str, Any] = {}
        resource: Attributes = {}
        for span in spans:
            resource = resource or span.resource
            if not self.names.isdisjoint(span.attributes):
                result = {**self._read(span.attributes, span, losses), **result}
        return {**self._read(resource, None, losses), **result} if not self.names.isdisjoint(resource) else result

    def _read(self, attributes: Attributes, span: Span | None, losses: Losses) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for name, keys in self._keys.items():
            values = (attributes[key] for key in keys if key in attributes and _is_whole(attributes[key], span, losses))
            read = next((read for value in values if (read := _READERS[name](value)) is not None), None)
            if read is not None:
                result[name] = read
        return result


def _is_whole(value: Json, span: Span | None, losses: Losses) -> bool:
    return not isinstance(value, str) or (
        len(value) <= _LONGEST
        and not is_masked(value)
        and not is_unfinished(value)
        and not (span is not None and losses.has_cut((value,), [span]))
    )


def _text(value: Json) -> str | None:
    """A text; one that is the JSON of a text is decoded, JSON of anything else stays as it was written."""
    if isinstance(value, str) and value[:1] == '"':
        decoded = decode_json(value)
        return decoded if isinstance(decoded, str) else value
    return value if isinstance(value, str) and value else None


def _passages(value: Json) -> tuple[str, ...] | None:
    items = decode(value)
    texts = cast("list[Json]", items) if isinstance(items, list) else [items]
    return tuple(text for text in texts if isinstance(text, str) and text) or None


def _tools(value: Json) -> tuple[ToolCall, ...] | None:
    items = decode(value)
    if not isinstance(items, list):
        return None
    try:
        calls = [tool_call_fields(decode(item), "expected_tools") for item in cast("list[Json]", items)]
        return tuple(ToolCall(**call) for call in calls)
    except (BadInput, TypeError):
        return None


_READERS: Mapping[str, Callable[[Json], Any]] = {
    "expected_output": _text,
    "context": _passages,
    "expected_tools": _tools,
}
