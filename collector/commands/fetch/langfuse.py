"""Langfuse: the observations of each trace that has one within the time, as the spans that its SDKs would have sent.

Source: its OpenAPI and its server, `GET /api/public/v2/observations` with cursors, which an installation of one's own
has from version 4 on. The ids of what came over OpenTelemetry are OpenTelemetry's; others become ids of the right
length by a hash, the same each time.
"""

import hashlib
from collections.abc import AsyncGenerator, Sequence
from datetime import datetime
from typing import Any

import orjson

from collector.commands.fetch.api_reader import ApiReader, Document
from collector.commands.fetch.source import Cursor, Source, Wanted, object_at, objects
from collector.errors import ConfigError

_PATH = "/api/public/v2/observations"
_FIELDS = "core,basic,io,metadata,model,usage,prompt,trace_context"
_PAGE = 1000
_CUT, _MOST_WHOLE = 200, 50
"""Characters after which a value of the metadata is cut unless its name is in `expandMetadata`, and names in one."""
_MOST_OBSERVATIONS = 100_000
_TRACE_ID, _SPAN_ID = 16, 8
"""Bytes."""


async def read(api: ApiReader, wanted: Wanted) -> AsyncGenerator[bytes, None]:
    """The traces, each whole, also what of it lies outside the time."""
    time = [("fromStartTime", wanted.since.isoformat()), ("toStartTime", wanted.until.isoformat())]
    window = [*time, *([("name", wanted.query)] if wanted.query else []), ("fields", "core"), ("limit", str(_PAGE))]
    seen: set[str] = set()
    place = Cursor()
    first = await api.get(_PATH, window, none=lambda _body: True)
    if not first:
        raise ConfigError("this Langfuse has no second version of its API for observations; update it to 4 or newer")
    page = api.document(first)
    while True:
        new = [candidate for candidate in trace_ids(page) if candidate not in seen]
        seen.update(new)
        for trace_id in new:
            yield orjson.dumps(otlp_request(await _observations(api, trace_id)))
        cursor = place.after(object_at(page, "meta").get("cursor"), len(new))
        if cursor is None:
            return
        page = api.document(await api.get(_PATH, [*window, ("cursor", cursor)]))


async def _observations(api: ApiReader, trace_id: str) -> list[Document]:
    """Those of a trace, read again where values of their metadata were cut."""
    query = [("traceId", trace_id), ("fields", _FIELDS), ("limit", str(_PAGE))]
    observations = await _all_pages(api, query)
    cut = cut_names(observations)
    whole = [each for each in cut if "," not in each][:_MOST_WHOLE]
    if len(whole) < len(cut):
        api.left(f"all but the first {_CUT} characters of {len(cut) - len(whole)} values of the metadata of {trace_id}")
    return await _all_pages(api, [*query, ("expandMetadata", ",".join(whole))]) if whole else observations


async def _all_pages(api: ApiReader, query: Sequence[tuple[str, str]]) -> list[Document]:
    observations: list[Document] = []
    place, cursor = Cursor(), list[tuple[str, str]]()
    while len(observations) < _MOST_OBSERVATIONS:
        page = api.document(await api.get(_PATH, [*query, *cursor]))
        rows = objects(page.get("data"))
        observations.extend(rows)
        following = place.after(object_at(page, "meta").get("cursor"), len(rows))
        if following is None:
            return observations
        cursor = [("cursor", following)]
    api.left(f"all but the first {len(observations):,} observations of a trace")
    return observations


def trace_ids(page: Document) -> list[str]:
    """The ids of the traces that a page of observations belongs to, each once."""
    return list(dict.fromkeys(str(row["traceId"]) for row in objects(page.get("data")) if row.get("traceId")))


def cut_names(observations: Sequence[Document]) -> list[str]:
    """The names of the metadata whose value may be cut in one of the observations."""
    metadata = [object_at(observation, "metadata") for observation in observations]
    return sorted({name for each in metadata for name, value in each.items() if len(_text(value) or "") >= _CUT})


def otlp_request(observations: Sequence[Document]) -> Document:
    """Observations of a trace as an OTLP request."""
    scope = {"scope": {"name": "langfuse-sdk"}, "spans": [_span(observation) for observation in observations]}
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [scope]}]}


def _span(observation: Document) -> Document:
    parent = observation.get("parentObservationId")
    is_error = observation.get("level") == "ERROR"
    start = _nanoseconds(observation.get("startTime"))
    span = {
        "traceId": hex_id(str(observation.get("traceId")), _TRACE_ID),
        "spanId": hex_id(str(observation.get("id")), _SPAN_ID),
        "parentSpanId": hex_id(str(parent), _SPAN_ID) if parent else None,
        "name": str(observation.get("name") or ""),
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(_nanoseconds(observation.get("endTime")) or start),
        "status": {"code": 2, "message": str(observation.get("statusMessage") or "")} if is_error else None,
        "attributes": [{"key": name, "value": _value(value)} for name, value in _attributes(observation).items()],
    }
    return {name: value for name, value in span.items() if value is not None}


def _attributes(observation: Document) -> dict[str, Any]:
    """The attributes that its SDKs write. A root may have a parent that is no observation of the application."""
    parent = observation.get("parentObservationId") is not None
    attributes: dict[str, Any] = {
        "langfuse.observation.type": str(observation.get("type") or "span").lower(),
        "langfuse.observation.input": _text(observation.get("input")),
        "langfuse.observation.output": _text(observation.get("output")),
        "langfuse.observation.level": observation.get("level"),
        "langfuse.observation.status_message": observation.get("statusMessage"),
        "langfuse.observation.model.name": observation.get("model") or observation.get("providedModelName"),
        "langfuse.observation.model.parameters": _text(observation.get("modelParameters") or None),
        "langfuse.internal.is_app_root": (parent and observation.get("isRootObservation")) or None,
        "langfuse.observation.usage_details": _text(observation.get("usageDetails") or None),
        "langfuse.observation.prompt.name": observation.get("promptName"),
        "langfuse.observation.prompt.version": observation.get("promptVersion"),
        "langfuse.trace.name": observation.get("traceName"),
        "langfuse.trace.tags": observation.get("tags") or None,
        "langfuse.environment": observation.get("environment"),
        "langfuse.release": observation.get("release"),
        "langfuse.version": observation.get("version"),
        "session.id": observation.get("sessionId"),
        "user.id": observation.get("userId"),
    }
    for name, value in object_at(observation, "metadata").items():
        attributes[f"langfuse.observation.metadata.{name}"] = value if isinstance(value, int | float) else _text(value)
    return {name: value for name, value in attributes.items() if value is not None}


def _value(value: Any) -> Document:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case list():
            return {"arrayValue": {"values": [_value(each) for each in value]}}  # pyright: ignore[reportUnknownVariableType]
        case _:
            return {"stringValue": str(value)}


def _text(value: object) -> str | None:
    return value if value is None or isinstance(value, str) else orjson.dumps(value).decode()


def hex_id(name: str, size: int) -> str:
    """An id of `size` bytes in hex: the name itself if it is one, or a UUID of as many; a hash of other names."""
    bare = name.replace("-", "").lower()
    if len(bare) == 2 * size and all(character in "0123456789abcdef" for character in bare):
        return bare
    return hashlib.blake2b(name.encode(), digest_size=size).hexdigest()


def _nanoseconds(moment: object) -> int:
    """A time of the API since the epoch; 0 without one."""
    try:
        return max(0, round(datetime.fromisoformat(str(moment)).timestamp() * 1e6) * 1000)
    except (ValueError, OverflowError, OSError):  # the last two are of years that no system counts
        return 0


SOURCE = Source(title="Langfuse", url="https://cloud.langfuse.com", read=read, takes=frozenset({"query"}))
