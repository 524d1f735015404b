"""Custom dialects: the places of question and answer in the spans of a library that evalstream does not know."""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Annotated

from pydantic import Field, field_validator

from collector.dialects.configured import ConfiguredKind, DialectMapping, Places, SpanMatch, make_dialect
from collector.dialects.dialect import Dialect
from collector.dialects.places import parse_place
from collector.section import Section

PlaceText = Annotated[str, Field(min_length=1, max_length=1000)]


PlaceList = PlaceText | list[PlaceText]

_PLACES = ("input", "output", "system", "tools", "conversation", "user", "model")
"""Keys of a dialect that name places."""


class MatchSettings(Section):
    """The spans that a dialect reads; all given conditions must hold."""

    scope: str = Field(default="", max_length=300)
    """How the instrumentation scope's name begins."""
    span: str = Field(default="", max_length=300)
    """The span's name; with * at its end, how the name begins."""
    attributes: dict[str, str] = Field(default_factory=dict[str, str], max_length=16)
    """Attributes that the span has, with their values as text; '*' for any value."""

    def _mistakes(self) -> Iterator[str]:
        if not (self.scope or self.span or self.attributes):
            yield "matches every span; write a scope, a span or attributes"


class DialectSettings(Section):
    """A custom dialect. Places: an attribute, `attribute{path.in[0].json}`, `attribute.[-1].name`,
    `event:NAME:attribute`, `log:NAME:body`, each perhaps with ` =~ PATTERN`; a list means the first that has a value.
    """

    match: MatchSettings
    kind: ConfiguredKind = "model"
    """The kind of the spans: model, one call of a model; agent, what a user talks to, around model calls; tool;
    retrieval."""
    input: PlaceList = Field(default_factory=list[str])
    """The user's question, or all messages of the request in any usual shape. The arguments of a tool, the query of a
    retrieval."""
    output: PlaceList = Field(default_factory=list[str])
    """The answer. The result of a tool, the documents of a retrieval."""
    system: PlaceList = Field(default_factory=list[str])
    """The system prompt."""
    tools: PlaceList = Field(default_factory=list[str])
    """The tools that were called: a list with name, arguments and perhaps result. The name of a tool."""
    conversation: PlaceList = Field(default_factory=list[str])
    """The conversation's id."""
    user: PlaceList = Field(default_factory=list[str])
    """The user's id."""
    model: PlaceList = Field(default_factory=list[str])
    """The model's name."""

    @field_validator(*_PLACES)
    @classmethod
    def _places(cls, value: PlaceList) -> PlaceList:
        for place in value if isinstance(value, list) else [value]:
            parse_place(place)
        return value

    def _mistakes(self) -> Iterator[str]:
        if not (self.input or self.output):
            yield "reads nothing; write input, output or both"


NO_DIALECTS: Mapping[str, DialectSettings] = MappingProxyType({})


def build_dialects(dialects: Mapping[str, DialectSettings]) -> Iterable[Dialect]:
    """The dialects of a configuration."""
    return [make_dialect(_map(name, settings)) for name, settings in dialects.items()]


def _map(name: str, settings: DialectSettings) -> DialectMapping:
    places = {key: _parse(getattr(settings, key)) for key in _PLACES}
    return DialectMapping(name=name, kind=settings.kind, match=SpanMatch(**settings.match.model_dump()), **places)


def _parse(places: PlaceList) -> Places:
    return tuple(map(parse_place, places if isinstance(places, list) else [places]))
