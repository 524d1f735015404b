"""Dialects of the configuration: an unknown library is read at configured places in its spans and log records."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from collector.dialects.attributes import find_error, find_redaction
from collector.dialects.call import Call, ChatMessage, as_messages
from collector.dialects.decode import as_dict, as_list, decode
from collector.dialects.dialect import Coverage, Dialect
from collector.dialects.free_form import Content
from collector.dialects.messages import parse_messages, parse_system_text, parse_tool_calls, split_system_prompt
from collector.dialects.parts import parse_arguments
from collector.dialects.passages import parse_passages
from collector.dialects.places import NOWHERE, Located, TracePlace
from collector.otlp.span import LogRecord, Span
from evaluators.cases import ToolCall
from evaluators.texts.exact_json import as_text

ConfiguredKind = Literal["model", "agent", "tool", "retrieval"]
Places = tuple[TracePlace, ...]
"""The first of several places that has a value counts."""
_RANK = 10
"""Before every built-in reader: whoever writes a mapping knows the application."""
_ANYTHING = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanMatch:
    """Selects the spans of a dialect: every condition given has to hold.

    `scope` begins the scope's name, `span` is the span's name (or its beginning, with `*` at the end), `attributes` are
    values by name (`*` for any).
    """

    scope: str = ""
    span: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict[str, str])

    def __call__(self, span: Span) -> bool:
        """Whether a span is an instance of it."""
        if not span.scope.startswith(self.scope):
            return False
        if self.span.endswith(_ANYTHING):
            if not span.name.startswith(self.span[:-1]):
                return False
        elif self.span and span.name != self.span:
            return False
        return all(
            name in span.attributes and value in (_ANYTHING, _as_plain(span.attributes[name]))
            for name, value in self.attributes.items()
        )


def _as_plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class DialectMapping:
    """The places of a configured dialect, by field; no places for a field that it leaves out.

    Of a tool's span `input` are the arguments and `output` the result, of a retrieval the query and the documents.
    """

    name: str
    kind: ConfiguredKind
    match: SpanMatch
    input: Places = ()
    output: Places = ()
    system: Places = ()
    tools: Places = ()
    conversation: Places = ()
    user: Places = ()
    model: Places = ()

    @property
    def places(self) -> Places:
        """All of its places."""
        return (*self.input, *self.output, *self.system, *self.tools, *self.conversation, *self.user, *self.model)


def make_dialect(mapping: DialectMapping) -> Dialect:
    """The dialect of a mapping."""

    def read(span: Span, records: Sequence[LogRecord]) -> Call | None:
        if not mapping.match(span):
            return None
        conversation = _find_text(mapping.conversation, span, records)
        user = _find_text(mapping.user, span, records)
        return _read(mapping, span, records)._replace(conversation_id=conversation, user_id=user)

    places = mapping.places
    names = frozenset(place.name for place in places if place.source == "log")
    keys = {place.key if place.number is None else f"{place.key}*" for place in places if not place.source}
    return Dialect(
        name=mapping.name,
        rank=_RANK,
        read=read,
        evidence=tuple(mapping.match.attributes) or (() if mapping.match.scope else tuple(sorted(keys))),
        scopes=(mapping.match.scope,) if mapping.match.scope else (),
        events=frozenset(place.name for place in places if place.source == "event"),
        records=names,
        own_records=names,
        coverage=Coverage(libraries="the configuration's own"),
    )


def _read(mapping: DialectMapping, span: Span, records: Sequence[LogRecord]) -> Call:
    question_value, input_place = _find(mapping.input, span, records)
    answer_value, output_place = _find(mapping.output, span, records)
    places = {"input": input_place, "output": output_place}
    sources = {name: place.text for name, place in places.items() if place is not None}
    if mapping.kind == "tool":
        name = _find_text(mapping.tools, span, records) or span.name
        tool = ToolCall(name=name, arguments=parse_arguments(question_value.value), result=decode(answer_value.value))
        return Call(kind="tool", tool=tool, sources=sources)
    if mapping.kind == "retrieval":
        query = question_value.value
        return Call(
            kind="retrieval",
            query=query if isinstance(query, str) else None,
            passages=parse_passages(answer_value.value),
            sources=sources,
        )
    question, reply = _parse(question_value, "user"), _parse(answer_value, "assistant")
    system, messages = split_system_prompt(question.messages or ())
    output = _with_tools(reply.messages, _find(mapping.tools, span, records)[0])
    return Call(
        kind=mapping.kind,
        system=parse_system_text(_find(mapping.system, span, records)[0].value) or system,
        input=as_messages(messages),
        output=output,
        input_incomplete=question.incomplete,
        output_incomplete=None if output else reply.incomplete,
        error=find_error(span, answered=output is not None),
        model=_find_text(mapping.model, span, records),
        sources=sources,
    )


def _find(places: Places, span: Span, records: Sequence[LogRecord]) -> tuple[Located, TracePlace | None]:
    """The first value, with its place."""
    for place in places:
        located = place.find(span, records)
        if located != NOWHERE:
            return located, place
    return NOWHERE, None


def _find_text(places: Places, span: Span, records: Sequence[LogRecord]) -> str | None:
    value = _find(places, span, records)[0].value
    if isinstance(value, str):
        return value or None
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _parse(located: Located, role: str) -> Content:
    """The messages at a place: those of a known shape, or a text, which stays as it is inside a document."""
    value = located.value
    if value is None:
        return Content(None, located.incomplete)
    if redaction := find_redaction(value):
        return Content(None, redaction)
    if located.is_inner and isinstance(value, str):
        return Content((ChatMessage(role, value),), located.incomplete)
    transcript = parse_messages(value, role)
    incomplete = located.incomplete or transcript.incomplete
    if not transcript.messages:
        return Content(None, incomplete or "no_content")
    return Content(transcript.messages, incomplete)


def _with_tools(messages: tuple[ChatMessage, ...] | None, located: Located) -> tuple[ChatMessage, ...] | None:
    """The answer with the tools that were called, and their results where the list has them."""
    items = [as_dict(each) for each in as_list(decode(located.value))]
    pairs = [(call, item.get("result")) for item in items for call in parse_tool_calls([item])]
    calls = tuple(call for call, _ in pairs)
    if not calls:
        return messages
    *before, last = messages or (ChatMessage("assistant"),)
    results = [
        ChatMessage("tool", as_text(result), tool_call_id=call.id, name=call.name, result=decode(result))
        for call, result in pairs
        if result is not None
    ]
    if not results:
        return (*before, last._replace(tool_calls=calls))
    return (*before, ChatMessage("assistant", tool_calls=calls), *results, last)
