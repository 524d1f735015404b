"""Tempo: a TraceQL search of stretches of time, then each trace by its id.

Source: Tempo's HTTP API, `GET /api/search` and `GET /api/traces/<id>`, which answers in protobuf if asked to. A search
gives the first so many that it finds and has no pages, so a stretch that is full is searched again by halves.
"""

import math
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta

import orjson

from collector.commands.fetch.api_reader import ApiReader, Document
from collector.commands.fetch.source import Source, Wanted, halves, object_at, objects, stretches
from evaluators.wire.outside_json import outside_or_none

_MOST = 500
"""Traces that one search may find before its stretch is cut in two."""
_WIDEST = timedelta(hours=6)
_SECOND = timedelta(seconds=1)
_PROTOBUF = "application/protobuf"


async def read(api: ApiReader, wanted: Wanted) -> AsyncGenerator[bytes, None]:
    """The traces of the search, each whole, also what of it lies outside the time."""
    seen: set[str] = set()
    since = datetime.fromtimestamp(math.floor(wanted.since.timestamp()), UTC)
    for stretch in stretches(since, datetime.fromtimestamp(math.ceil(wanted.until.timestamp()), UTC), _WIDEST):
        open_stretches = [stretch]
        while open_stretches:
            begin, end = open_stretches.pop(0)
            matches = trace_ids_of(api.document(await api.get("/api/search", search_query(wanted.query, begin, end))))
            if narrower := halves(begin, end, _SECOND) if len(matches) >= _MOST else []:
                open_stretches = [*narrower, *open_stretches]
                continue
            if len(matches) >= _MOST:
                api.left(f"of the second from {begin.isoformat()} only the first {_MOST} traces that Tempo found")
            for trace_id in (match for match in matches if match not in seen):
                seen.add(trace_id)
                answer = await api.get(f"/api/traces/{trace_id}", accept=_PROTOBUF, none=lambda _body: True)
                if answer:
                    yield otlp_request(answer)
                else:
                    api.left(f"trace {trace_id}, which the search found and Tempo no longer has")


def search_query(query: str | None, begin: datetime, end: datetime) -> list[tuple[str, str]]:
    """The parameters of a search."""
    return [
        ("q", query or "{}"),
        ("start", str(int(begin.timestamp()))),
        ("end", str(int(end.timestamp()))),
        ("limit", str(_MOST)),
        ("spss", "1"),
    ]


def trace_ids_of(answer: Document) -> list[str]:
    """The ids of the traces in a search's answer, the newest first, as Tempo writes them: without leading zeros."""
    traces = objects(answer.get("traces"))
    traces.sort(key=lambda each: str(each.get("startTimeUnixNano", "")).zfill(20), reverse=True)
    return [
        trace["traceID"] for trace in traces if isinstance(trace.get("traceID"), str) and trace["traceID"].isalnum()
    ]


def otlp_request(answer: bytes) -> bytes:
    """A trace as an OTLP request: as it is in protobuf; in JSON, where Tempo and proxies have two envelopes."""
    if answer.lstrip()[:1] != b"{":
        return answer
    if (document := outside_or_none(answer)) is None:  # protobuf that begins with a line feed and a length of 123
        return answer
    trace = object_at(document, "trace") or document
    return orjson.dumps({"resourceSpans": trace.get("resourceSpans") or trace.get("batches") or []})


SOURCE = Source(title="Tempo", url="http://127.0.0.1:3200", read=read, takes=frozenset({"query"}))
