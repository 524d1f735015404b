"""MLflow 3: the traces of an experiment, searched by pages, then each with its spans.

Source: `mlflow/protos/service.proto`, `POST /api/3.0/mlflow/traces/search` and `GET /api/3.0/mlflow/traces/get`, which
has the spans in protobuf's JSON. Session and user are in the metadata of the trace, so they are put on its spans.
"""

from collections.abc import AsyncGenerator
from datetime import datetime
from typing import Any

import orjson

from collector.commands.fetch.api_reader import ApiReader, Document
from collector.commands.fetch.source import Cursor, Source, Wanted, object_at, objects
from collector.errors import ConfigError

_PAGE = 100
_TRACES = "/api/3.0/mlflow/traces"
_BY_NAME = "/api/2.0/mlflow/experiments/get-by-name"
_OF_TRACE = {"mlflow.trace.session": "session.id", "mlflow.trace.user": "user.id"}


async def read(api: ApiReader, wanted: Wanted) -> AsyncGenerator[bytes, None]:
    """The traces that began within the time, each whole."""
    experiment = await _experiment(api, wanted.project or "0")
    token: str | None = None
    place = Cursor()
    while True:
        page = api.document(await api.post(f"{_TRACES}/search", search_body(wanted, experiment, token)))
        rows = objects(page.get("traces"))
        for info in rows:
            trace_id = str(info.get("trace_id"))
            # versions without the path take its last part for the id of a trace: that 404 is not about this trace
            answer = await api.get(f"{_TRACES}/get", [("trace_id", trace_id)], none=lambda body: b"'get'" not in body)
            trace = object_at(api.document(answer), "trace")
            if objects(trace.get("spans")):
                yield orjson.dumps(otlp_request(trace, info))
            else:
                api.left(f"trace {trace_id}, whose spans MLflow does not have in its database")
        token = place.after(page.get("next_page_token"), len(rows))
        if token is None:
            return


async def _experiment(api: ApiReader, project: str) -> str:
    """The id of an experiment, which may be named by it or by its name."""
    if project.isdecimal():
        return project
    answer = await api.get(
        _BY_NAME, [("experiment_name", project)], none=lambda body: b"RESOURCE_DOES_NOT_EXIST" in body
    )
    known = object_at(api.document(answer), "experiment").get("experiment_id")
    if not known:
        raise ConfigError(f"--project: MLflow has no experiment {project!r}; give its name or its id")
    return str(known)


def search_body(wanted: Wanted, experiment: str, token: str | None) -> Document:
    """The body of a search, the newest first."""
    conditions = [
        f"attributes.timestamp_ms >= {_milliseconds(wanted.since)}",
        f"attributes.timestamp_ms < {_milliseconds(wanted.until)}",
        *([wanted.query] if wanted.query else []),
    ]
    body: Document = {
        "locations": [{"type": "MLFLOW_EXPERIMENT", "mlflow_experiment": {"experiment_id": experiment}}],
        "filter": " AND ".join(conditions),
        "max_results": _PAGE,
        "order_by": ["timestamp_ms DESC"],
    }
    return {**body, "page_token": token} if token else body


def otlp_request(trace: Document, info: Document) -> Document:
    """A trace as an OTLP request, with what only its metadata has on each span."""
    metadata = object_at(info, "trace_metadata")
    extra = [
        {"key": key, "value": {"stringValue": metadata[name]}} for name, key in _OF_TRACE.items() if metadata.get(name)
    ]
    spans = [_span(span, extra) for span in objects(trace.get("spans"))]
    return {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}


def _span(span: Document, extra: list[Any]) -> Document:
    attributes = objects(span.get("attributes"))
    known = {attribute.get("key") for attribute in attributes}
    return {**span, "attributes": [*attributes, *(each for each in extra if each["key"] not in known)]}


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


SOURCE = Source(title="MLflow", url="http://127.0.0.1:5000", read=read, takes=frozenset({"query", "project"}))
