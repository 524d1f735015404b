"""OTLP requests as lines of OTLP JSON, a trace in each."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import orjson
from google.protobuf.json_format import MessageToDict

from collector.commands.fetch.source import Document, objects
from collector.otlp.decode import read_request, request_from_protobuf, split_by_trace

_IDS = ("traceId", "spanId", "parentSpanId")


def trace_lines(request: bytes) -> Iterator[tuple[str, bytes]]:
    """The traces in a request, in either encoding: their ids in hex, and a line for each, without its end.

    Raises:
        BadInput: it is no OTLP request.
    """
    for trace_id, piece in split_by_trace(read_request(request, "traces")).pieces:
        document = MessageToDict(request_from_protobuf(piece, "traces"), use_integers_for_enums=True)
        yield trace_id, orjson.dumps(_with_hex_ids(document))


def _with_hex_ids(document: Any) -> Document:
    """Ids are hex in OTLP JSON, where protobuf's own mapping has base64."""
    for resource in objects(document.get("resourceSpans")):
        for scope in objects(resource.get("scopeSpans")):
            for span in objects(scope.get("spans")):
                for item in (span, *objects(span.get("links"))):
                    item.update({name: base64.b64decode(item[name]).hex() for name in _IDS if name in item})
    return document
