"""The number of spans or log records in a request, counted before anything is decoded.

Decoding expands an empty span of two bytes to 350, so the limit on items must apply before it.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple, cast

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

_SMALLEST_ITEM = 2  # bytes: a tag and a length of 0
_OBJECTS_PER_ITEM = 25  # an attribute of OTLP/JSON takes two objects


def has_more_items_than(body: bytes, limit: int) -> bool:
    """Whether a protobuf request holds more than `limit` items, resources and scopes together.

    What cannot be read counts as nothing: decoding it fails on the same bytes.
    """
    if len(body) <= limit * _SMALLEST_ITEM:
        return False
    outline = _outline()
    try:
        resources = outline.request.FromString(body).members
        count = len(resources)
        for resource in resources if count <= limit else ():
            scopes = outline.holder.FromString(resource).members
            count += len(scopes)
            for scope in scopes if count <= limit else ():
                count += len(outline.holder.FromString(scope).members)
            if count > limit:
                break
    except DecodeError:
        return False
    return count > limit


def has_more_objects_than(body: bytes, items: int) -> bool:
    """Whether a JSON body holds more objects than so many items can: a bound that only a hostile body passes."""
    return body.count(b"{") > items * _OBJECTS_PER_ITEM


def items_in(document: object) -> int:
    """The number of items in an OTLP/JSON document, resources and scopes included; a lower bound if it is malformed."""
    count = 0
    for resource in _members(document, "resource_spans", "resourceSpans", "resource_logs", "resourceLogs"):
        count += 1
        for scope in _members(resource, "scope_spans", "scopeSpans", "scope_logs", "scopeLogs"):
            count += 1 + len(_members(scope, "spans", "log_records", "logRecords"))
    return count


def _members(holder: object, *keys: str) -> list[object]:
    """What an object holds under any of these keys: where two name one field, a sender may use both."""
    entries: list[object] = []
    if isinstance(holder, dict):
        for key in keys:
            value = cast("dict[str, object]", holder).get(key)
            if isinstance(value, list):
                entries += cast("list[object]", value)
    return entries


class _Outline(NamedTuple):
    """A request's messages as far as items, with every member left as bytes."""

    request: Any
    holder: Any


@cache
def _outline() -> _Outline:
    """Messages that the decoder itself reads: a walk of our own would have to agree with it on every hostile byte.

    Resources are field 1 of a request; scopes are field 2 of a resource, items field 2 of a scope.
    """
    file = FileDescriptorProto(name="evalstream/outline.proto", package="evalstream", syntax="proto3")
    for name, number in (("Request", 1), ("Holder", 2)):
        file.message_type.add(name=name).field.add(
            name="members",
            number=number,
            type=FieldDescriptorProto.TYPE_BYTES,
            label=FieldDescriptorProto.LABEL_REPEATED,
        )
    pool = DescriptorPool()
    pool.Add(file)  # pyright: ignore[reportUnknownMemberType]
    return _Outline(
        *(GetMessageClass(pool.FindMessageTypeByName(f"evalstream.{name}")) for name in ("Request", "Holder"))
    )
