"""Phoenix: the spans of a project within the time, then whole the traces that they belong to.

Source: its OpenAPI schema, `GET /v1/projects/{project}/spans/otlpv1` with cursors; `trace_id` since version 13.9.
"""

from collections.abc import AsyncGenerator, Sequence
from urllib.parse import quote

import orjson

from collector.commands.fetch.api_reader import ApiReader, Document
from collector.commands.fetch.source import Cursor, Source, Wanted, object_at, objects
from collector.errors import ConfigError

_SPANS = 1000
"""Spans of a page, the most that it allows."""
_TRACES = 20
"""Traces that are read by one request."""


async def read(api: ApiReader, wanted: Wanted) -> AsyncGenerator[bytes, None]:
    """The traces that have a span in the time which the query fits, each whole."""
    seen: dict[str, None] = {}
    due: list[str] = []
    async for page in _pages(api, wanted, window_query(wanted)):
        if wanted.query:
            _check_filter(page, wanted.query)
        for trace_id in (str(row.get("trace_id")) for row in page if row.get("trace_id")):
            if trace_id not in seen:
                seen[trace_id] = None
                due.append(trace_id)
        while len(due) >= _TRACES:
            some, due = due[:_TRACES], due[_TRACES:]
            yield await _whole(api, wanted, some)
    if due:
        yield await _whole(api, wanted, due)


async def _whole(api: ApiReader, wanted: Wanted, trace_ids: Sequence[str]) -> bytes:
    spans: list[Document] = []
    async for page in _pages(api, wanted, [("trace_id", trace_id) for trace_id in trace_ids]):
        spans.extend(page)
        if any(row.get("trace_id") not in trace_ids for row in page):
            raise ConfigError("this Phoenix does not find traces by their ids; update it to 13.9 or newer")
    return orjson.dumps(otlp_request(spans))


async def _pages(
    api: ApiReader, wanted: Wanted, query: Sequence[tuple[str, str]]
) -> AsyncGenerator[list[Document], None]:
    path = f"/v1/projects/{quote(wanted.project or 'default', safe='')}/spans/otlpv1"
    place, cursor = Cursor(), list[tuple[str, str]]()
    while True:
        answer = api.document(await api.get(path, [*query, ("limit", str(_SPANS)), *cursor]))
        rows = objects(answer.get("data"))
        yield rows
        following = place.after(answer.get("next_cursor"), len(rows))
        if following is None:
            return
        cursor = [("cursor", following)]


def window_query(wanted: Wanted) -> list[tuple[str, str]]:
    """The parameters that find the spans within the time."""
    time = [("start_time", wanted.since.isoformat()), ("end_time", wanted.until.isoformat())]
    return [*time, *([("attribute", wanted.query)] if wanted.query else [])]


def otlp_request(spans: Sequence[Document]) -> Document:
    """Spans, which Phoenix gives without resource and scope, as an OTLP request."""
    return {"resourceSpans": [{"scopeSpans": [{"spans": [_span(span) for span in spans]}]}]}


def _span(span: Document) -> Document:
    """A span as OTLP has it: what Phoenix leaves empty is not there."""
    attributes = objects(span.get("attributes"))
    filled = [one for one in attributes if any(value is not None for value in object_at(one, "value").values())]
    return {**{name: value for name, value in span.items() if value is not None}, "attributes": filled}


def _check_filter(page: Sequence[Document], query: str) -> None:
    """Refuse a version that leaves out the filter: it would return traces that were not requested."""
    key = query.partition(":")[0]
    for span in page:
        if all(attribute.get("key") != key for attribute in objects(span.get("attributes"))):
            raise ConfigError("this Phoenix does not filter by attributes; update it, or leave out --query")


SOURCE = Source(title="Phoenix", url="http://127.0.0.1:6006", read=read, takes=frozenset({"query", "project"}))
