"""Places in a trace, as a configuration writes them: attributes, JSON inside them, events, and bodies of log records.

acme.question                           an attribute
acme.request{messages[-1].content}      JSON inside it; a number counts from 0, -1 is the last
acme.prompts.[-1].text                  attributes with an index in their names
event:acme.answer:text                  an attribute of a span's event of this name
log:acme.Chat:body{answer}              the body, or an attribute, of a log record of this event name or logger
log:acme.Chat:body =~ said: (.*)        a part of a text: the pattern's group `value`, or its first group
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

from collector.dialects.attributes import group_indexed
from collector.dialects.decode import as_dict, as_list, parse_document
from collector.otlp.span import LogRecord, Span
from evaluators.cases import Incomplete, Json

_MAX_STEPS = 16
MAX_SEARCHED = 1 << 20
"""Characters of a text that a pattern searches; the rest is left out."""


class Located(NamedTuple):
    """A value at a place. `is_inner` is whether it was inside a document or text; `incomplete` why it is not whole."""

    value: Json
    is_inner: bool = False
    incomplete: Incomplete | None = None


NOWHERE = Located(None)


class TracePlace(NamedTuple):
    """A place in a span or its log records; `text` is how the configuration writes it.

    `source` is "", `event` or `log`, and `name` the event's or record's. `number` is the one in the attribute's name,
    between `key` and `rest`. `path` leads into JSON. `search` finds a part of the text there, None where it has none.
    """

    text: str
    source: str
    name: str
    key: str
    number: int | None = None
    rest: str = ""
    path: tuple[str | int, ...] = ()
    search: Callable[[str], str | None] | None = None

    def find(self, span: Span, records: Sequence[LogRecord]) -> Located:
        """Find the value; NOWHERE if there is none."""
        for value in self._values(span, records):
            located = self._inside(value)
            if located.value is not None or located.incomplete:
                return located
        return NOWHERE

    def _values(self, span: Span, records: Sequence[LogRecord]) -> Iterator[Json]:
        """The values of the attribute or body, the newest first where several events or records have one."""
        if self.source == "event":
            yield from (self._of(event.attributes) for event in reversed(span.events) if event.name == self.name)
        elif self.source == "log":
            for record in reversed(records):
                if record.kind == self.name:
                    yield record.body if self.key == "body" else self._of(record.attributes)
        else:
            yield self._of(span.attributes)

    def _of(self, attributes: Mapping[str, Json]) -> Json:
        if self.number is None:
            return attributes.get(self.key)
        groups = group_indexed(attributes, self.key)
        return groups[self.number].get(self.rest) if -len(groups) <= self.number < len(groups) else None

    def _inside(self, value: Json) -> Located:
        incomplete: Incomplete | None = None
        for step in self.path:
            if isinstance(value, str):
                document = parse_document(value)
                value = document.value if document is not None else None
                incomplete = incomplete or ("truncated" if document is not None and not document.whole else None)
            value = _step(value, step)
        if self.search is not None:
            value = self.search(value) if isinstance(value, str) else None
        if value is None and incomplete is None:
            return NOWHERE
        return Located(value, bool(self.path) or self.search is not None, incomplete)


def _step(value: Json, step: str | int) -> Json:
    if isinstance(step, str):
        return as_dict(value).get(step)
    items = as_list(value)
    return items[step] if -len(items) <= step < len(items) else None


def parse_place(text: str) -> TracePlace:
    """Parse a place.

    Raises:
        ValueError: it is none; says what to write.
    """
    where, separator, pattern = text.partition(" =~ ")
    place = _parse(where.strip())
    return place._replace(text=text, search=_compile(pattern)) if separator else place


def _parse(text: str) -> TracePlace:
    source, name, rest = "", "", text
    if text.startswith(("event:", "log:")):
        source, _, rest = text.partition(":")
        name, separator, rest = rest.rpartition(":") if "{" not in rest else _split_name(rest)
        if not (name and separator):
            or_body = ", or log:NAME:body" if source == "log" else ""
            raise ValueError(f"{text!r} names no attribute; write {source}:NAME:ATTRIBUTE{or_body}")
    key, brace, path = rest.partition("{")
    if brace and not path.endswith("}"):
        raise ValueError(f"{text!r} has a path without its closing brace; write {key}{{…}}")
    if not key:
        raise ValueError(f"{text!r} names no attribute; write an attribute's name, event:NAME:… or log:NAME:…")
    steps = _parse_path(path[:-1], text) if brace else ()
    start, bracket, indexed = key.partition(".[")
    if not bracket:
        return TracePlace(text, source, name, key, path=steps)
    number, closing, after = indexed.partition("]")
    if not (closing and _is_number(number)) or (after and after[0] != "."):
        raise ValueError(f"{text!r} has no index in its brackets; write {start}.[-1].NAME, or 0 for the first")
    return TracePlace(text, source, name, f"{start}.", int(number), after[1:], steps)


def _split_name(rest: str) -> tuple[str, str, str]:
    """Split a name from the attribute before a path in braces, which may have colons of its own."""
    head, brace, path = rest.partition("{")
    name, separator, key = head.rpartition(":")
    return name, separator, key + brace + path


def _is_number(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) <= 6


def _parse_path(path: str, text: str) -> tuple[str | int, ...]:
    """Parse `messages[-1].content` into its steps."""
    steps: list[str | int] = []
    for part in path.split("."):
        name, *numbers = part.split("[")
        if name:
            steps.append(name)
        for number in numbers:
            if not (number.endswith("]") and _is_number(number[:-1])):
                raise ValueError(f"{text!r} has a bracket without a number; write [0] for the first, [-1] for the last")
            steps.append(int(number[:-1]))
        if not (name or numbers):
            raise ValueError(f"{text!r} has an empty step in its braces; write names with dots between them")
    if len(steps) > _MAX_STEPS:
        raise ValueError(f"{text!r} has more than {_MAX_STEPS} steps")
    return tuple(steps)


def _compile(pattern: str) -> Callable[[str], str | None]:
    """A search for a pattern's group `value`, else its first group, else the whole match; in linear time.

    Raises:
        ValueError: it is no regular expression for RE2.
    """
    re2: Any = import_module("re2")  # untyped
    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        raise ValueError(f"{pattern!r} is no regular expression that RE2 can search: {error}") from None
    group = compiled.groupindex.get("value", min(compiled.groups, 1))

    def search(text: str) -> str | None:
        match = compiled.search(text[:MAX_SEARCHED].encode("utf-8", "replace").decode())
        part = match.group(group) if match else None
        return part if isinstance(part, str) else None

    return search
