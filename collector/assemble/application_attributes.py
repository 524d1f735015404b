"""The application's own attributes: values of declared names, from wherever the application wrote them.

The nearest place to the model's span wins: the span itself, its ancestors one by one, the resource. At one place the
keys of a name are tried in order, each as an attribute, then in metadata (`metadata.tier`, or `tier` in the JSON of
`metadata`), among tags (`tier:gold`), and in baggage that was written down. `feature_flag.<key>` is the variant of a
flag, from the events that OpenFeature's hooks add to the span in which the flag was evaluated.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, cast
from urllib.parse import unquote

from collector.dialects.decode import as_dict, decode_json
from collector.otlp.span import Attributes, Span
from collector.records.attributes import plain_value
from evaluators.cases import Json

_METADATA = (
    "metadata", "langfuse.trace.metadata", "langfuse.observation.metadata", "traceloop.association.properties",
    "langsmith.metadata", "ai.telemetry.metadata", "ai.settings.context", "mastra.metadata",
    "metadata.requester_metadata", "braintrust.metadata", "baggage",
)  # fmt: skip
"""Attributes with a request's metadata: as JSON, or with one attribute below for each key."""
_TAGS = ("tag.tags", "langfuse.trace.tags", "langsmith.span.tags", "braintrust.tags", "tags")
"""Attributes with tags: a list, a list's JSON, or a text with commas."""
_BAGGAGE = ("baggage", "http.request.header.baggage")
"""Attributes with W3C baggage as in its header: `tier=gold,region=eu`."""

_LONGEST_LIST = 65_536
"""The most characters of tags or baggage that are read."""


_FLAG, _FLAG_KEY = "feature_flag.", "feature_flag.key"
_VARIANTS = ("feature_flag.result.variant", "feature_flag.variant", "feature_flag.result.value")
"""The result of a flag's evaluation: its present name, the earlier one, and the value where the variant has no name."""


class AttributeValue(NamedTuple):
    """A value, the attribute that it was under, and the span with it: its id, or "" for the resource."""

    value: Json
    key: str
    span_id: str


Values = Mapping[str, AttributeValue]
NO_VALUES: Values = {}


class ApplicationAttributes:
    """Finds the values of declared names; `declared` maps each to its keys, best first."""

    def __init__(self, declared: Mapping[str, Sequence[str]] | None = None) -> None:
        self._declared = {name: tuple(keys) for name, keys in (declared or {}).items()}
        keys = {key for each in self._declared.values() for key in each}
        self._direct = {key: (key, *(f"{carrier}.{key}" for carrier in _METADATA)) for key in keys}
        wanted = {place for places in self._direct.values() for place in places}
        self._has_flags = any(key.startswith(_FLAG) for key in keys)
        flags = (_FLAG_KEY, "feature_flag.evaluation", "feature_flag") if self._has_flags else ()
        self.names = frozenset(wanted.union(_METADATA, _TAGS, _BAGGAGE, flags) if keys else ())
        """The attributes and events that may hold a value under one of the names."""

    def find_in(self, span: Span) -> Values:
        """The values that a span has, with the variants of the flags that were evaluated in it."""
        flags: dict[str, Json] = {}
        for holder in (span.attributes, *(event.attributes for event in span.events)) if self._has_flags else ():
            if (key := holder.get(_FLAG_KEY)) is not None:
                flags[f"{_FLAG}{key}"] = next((holder[name] for name in _VARIANTS if name in holder), None)
        return self.find({**flags, **span.attributes} if flags else span.attributes, span.span_id)

    def find(self, attributes: Attributes, span_id: str = "") -> Values:
        """The values that one span or resource has."""
        if not attributes or self.names.isdisjoint(attributes):
            return NO_VALUES
        values: dict[str, AttributeValue] = {}
        metadata = _Metadata(attributes)
        for name, keys in self._declared.items():
            for key in keys:
                value, source = self._value(key, attributes, metadata)
                if value is not None:
                    values[name] = AttributeValue(value, source, span_id)
                    break
        return values

    def _value(self, key: str, attributes: Attributes, metadata: "_Metadata") -> tuple[Json, str]:
        for place in self._direct[key]:
            value = plain_value(attributes[place]) if place in attributes else None
            if value is not None:
                return value, place
        return metadata.value(key)


class InheritedAttributes:
    """The values of the spans of one trace; a span inherits the values of its ancestors."""

    def __init__(self, reader: ApplicationAttributes, spans: Mapping[str, Span]) -> None:
        self._reader = reader
        self._spans = spans
        self._values_by_source: dict[str, Values] = {}

    def of(self, span: Span, ancestors: Sequence[str], others: Sequence[Span] = ()) -> Values:
        """The values for the model's span, from it and `others` that describe the same call, then its ancestors."""
        if not self._reader:
            return NO_VALUES
        inherited = self._ancestor_values(ancestors)
        for each in (*reversed(others), span):
            inherited = _merge(self._reader.find_in(each), inherited)
        return _merge(inherited, self._resource_values(span))

    def _ancestor_values(self, ancestors: Sequence[str]) -> Values:
        """The values of ancestors, parent first; each span is read once, however many turns are below it."""
        unread: list[str] = []
        values = NO_VALUES
        for span_id in ancestors:
            if span_id in self._values_by_source:
                values = self._values_by_source[span_id]
                break
            unread.append(span_id)
        for span_id in reversed(unread):
            span = self._spans.get(span_id)
            own = self._reader.find_in(span) if span else NO_VALUES
            values = self._values_by_source[span_id] = _merge(own, values)
        return values

    def _resource_values(self, span: Span) -> Values:
        key = f"resource {id(span.resource)}"  # as spans of one resource share it; it lives as long as the trace
        if key not in self._values_by_source:
            self._values_by_source[key] = self._reader.find(span.resource)
        return self._values_by_source[key]


def _merge(nearer: Values, farther: Values) -> Values:
    return {**farther, **nearer} if nearer and farther else nearer or farther


class _Metadata:
    """The contents of one span's metadata, tags and baggage, read on first use."""

    def __init__(self, attributes: Attributes) -> None:
        self._attributes = attributes
        self._documents: dict[str, Mapping[str, Json]] = {}
        self._listed: dict[str, tuple[str, str]] | None = None

    def value(self, key: str) -> tuple[Json, str]:
        for carrier in _METADATA:
            raw = self._attributes.get(carrier)
            if isinstance(raw, dict) or (isinstance(raw, str) and key in raw):
                if carrier not in self._documents:
                    self._documents[carrier] = as_dict(decode_json(raw))
                value = plain_value(self._documents[carrier].get(key))
                if value is not None:
                    return value, f"{carrier}{{{key}}}"
        if self._listed is None:
            self._listed = dict(_listed(self._attributes))
        return self._listed.get(key, (None, ""))


def _listed(attributes: Attributes) -> Iterator[tuple[str, tuple[str, str]]]:
    """Names with values in baggage and tags; the last one of a name counts, so tags come after baggage."""
    for carrier in _BAGGAGE:
        for pair in _texts(attributes.get(carrier)):
            name, equals, value = pair.partition(";")[0].partition("=")
            if equals and value.strip():
                yield unquote(name.strip()), (unquote(value.strip()), carrier)
    for carrier in _TAGS:
        for tag in _texts(attributes.get(carrier)):
            name, value = _TAG.split(tag, 1) if _TAG.search(tag) else (tag, "true")
            if name.strip() and value.strip():
                yield name.strip(), (value.strip(), carrier)


_TAG = re.compile("[:=]")


def _texts(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        text = value[:_LONGEST_LIST]
        listed = decode_json(text) if text.lstrip()[:1] == "[" else None
        value = cast("list[Json]", listed) if isinstance(listed, list) else text.split(",")
    if isinstance(value, list):
        for each in cast("list[Json]", value)[:1000]:
            if isinstance(each, str):
                yield from each[:_LONGEST_LIST].split(",") if "," in each else (each,)
