"""Jaeger: the traces of each service, by stretches of time.

Source: `proto/api_v3/query_service.proto` and its HTTP gateway, `GET /api/v3/traces`. It answers in OTLP JSON, inside
an envelope, and with 404 and a message where nothing is found. There are no pages, so a stretch that is full is
searched again by halves.
"""

from collections.abc import AsyncGenerator, Sequence
from datetime import UTC, datetime, timedelta

import orjson

from collector.commands.fetch.api_reader import ApiReader, Document
from collector.commands.fetch.source import Source, Wanted, halves, object_at, objects, stretches
from evaluators.wire.outside_json import UnboundedJson, outside_or_none, read_outside

_MOST = 200
"""Traces that one search may find before its stretch is cut in two. Each is whole in the answer."""
_WIDEST = timedelta(hours=1)
_NARROWEST = timedelta(milliseconds=1)
_PATH = "/api/v3/traces"


async def read(api: ApiReader, wanted: Wanted) -> AsyncGenerator[bytes, None]:
    """The traces of the services, each whole, also what of it lies outside the time."""
    services = wanted.services or services_in(api.document(await api.get("/api/v3/services")))
    for stretch in stretches(wanted.since, wanted.until, _WIDEST):
        for service in services:
            open_stretches = [stretch]
            while open_stretches:
                begin, end = open_stretches.pop(0)
                answer = await api.get(_PATH, search_query(service, wanted.query, begin, end), none=says_none)
                resources = [each for text in documents_in(answer) for each in spans_in(api.document(text))]
                if len(trace_ids(resources)) >= _MOST:
                    if narrower := halves(begin, end, _NARROWEST):
                        open_stretches = [*narrower, *open_stretches]
                        continue
                    api.left(f"of the millisecond from {begin.isoformat()} only the first {_MOST} traces of {service}")
                yield orjson.dumps({"resourceSpans": resources})


def services_in(answer: Document) -> list[str]:
    """The names of the services, but for Jaeger's own."""
    names = answer.get("services")
    known = [str(name) for name in names] if isinstance(names, list) else []  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]
    return sorted(each for each in known if each not in {"jaeger", "jaeger-all-in-one", "jaeger-query"})


def search_query(service: str, operation: str | None, begin: datetime, end: datetime) -> list[tuple[str, str]]:
    """The parameters of a search. Older versions know `num_traces` alone, newer ones prefer `search_depth`."""
    return [
        ("query.service_name", service),
        *([("query.operation_name", operation)] if operation else []),
        ("query.start_time_min", _rfc3339(begin)),
        ("query.start_time_max", _rfc3339(end)),
        ("query.search_depth", str(_MOST)),
        ("query.num_traces", str(_MOST)),
    ]


def spans_in(answer: Document) -> list[Document]:
    """The spans in an answer, by resource, out of the envelope that Jaeger puts around them."""
    return objects((object_at(answer, "result") or answer).get("resourceSpans"))


def documents_in(answer: bytes) -> list[bytes]:
    """The documents of an answer: one, or as many as Jaeger streams, each in a line."""
    try:
        read_outside(answer)
    except UnboundedJson:
        return [answer]
    except ValueError:
        return [line for line in answer.splitlines() if line.strip()]
    return [answer]


def trace_ids(resources: Sequence[Document]) -> set[str]:
    """The ids of the traces that spans belong to."""
    scopes = [scope for resource in resources for scope in objects(resource.get("scopeSpans"))]
    return {str(span.get("traceId")) for scope in scopes for span in objects(scope.get("spans"))}


def says_none(answer: bytes) -> bool:
    """Whether a 404 means that Jaeger found nothing, and not that its API is elsewhere."""
    return "message" in object_at(outside_or_none(answer), "error")


def _rfc3339(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


SOURCE = Source(title="Jaeger", url="http://127.0.0.1:16686", read=read, takes=frozenset({"query", "service"}))
