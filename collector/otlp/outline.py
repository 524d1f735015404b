"""OTLP messages in outline: as they are, but with attributes and values left as their bytes.

To get at a span's attributes as messages takes several times as long as to get at their bytes, which tell most of what
is asked of them: whether they are known, and whether anything in them may have to be redacted. Items are counted from
the bytes, too, before anything is decoded: decoding expands an empty span of two bytes to 350.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
from opentelemetry.proto.common.v1 import common_pb2
from opentelemetry.proto.logs.v1 import logs_pb2
from opentelemetry.proto.resource.v1 import resource_pb2
from opentelemetry.proto.trace.v1 import trace_pb2

Outline: TypeAlias = Any
"""A request of OTLP, or a message in one, whose `attributes` are bytes, each those of a KeyValue, as is a `body`.

All other fields are those that OTLP's own message has.
"""

_FILES = (common_pb2, resource_pb2, trace_pb2, logs_pb2, trace_service_pb2, logs_service_pb2)
"""Each after those that it needs."""
_LEFT_AS_BYTES = frozenset(f".{kind.DESCRIPTOR.full_name}" for kind in (common_pb2.KeyValue, common_pb2.AnyValue))
_REQUESTS = {
    "traces": trace_service_pb2.ExportTraceServiceRequest.DESCRIPTOR.full_name,
    "logs": logs_service_pb2.ExportLogsServiceRequest.DESCRIPTOR.full_name,
}


def outline_of(encoded: bytes, signal: Literal["traces", "logs"]) -> Outline:
    """The outline of a request that was read as OTLP before: that has checked the bytes of attributes, too."""
    return _class_of(_REQUESTS[signal]).FromString(encoded)


def resource_attributes(encoded: bytes) -> Sequence[bytes]:
    """The attributes of a serialized resource, each the bytes of a KeyValue."""
    return _class_of(resource_pb2.Resource.DESCRIPTOR.full_name).FromString(encoded).attributes


def with_bytes_for_texts(name: str) -> Any:
    """The class of OTLP's message of this name which has the bytes of all its texts, whatever they are."""
    return _class_of(name, _take_texts_as_bytes)


def _take_texts_as_bytes(message: DescriptorProto) -> None:
    for field in message.field:
        if field.type == FieldDescriptorProto.TYPE_STRING:
            field.type = FieldDescriptorProto.TYPE_BYTES
    for inner in message.nested_type:
        _take_texts_as_bytes(inner)


@cache
def _class_of(name: str, change: Callable[[DescriptorProto], None] | None = None) -> Any:
    return GetMessageClass(_pool(change or _leave_as_bytes).FindMessageTypeByName(name))


@cache
def _pool(change: Callable[[DescriptorProto], None]) -> DescriptorPool:
    """OTLP's own descriptors, but for the fields that are changed."""
    pool = DescriptorPool()
    for module_type in _FILES:
        file = FileDescriptorProto()
        module_type.DESCRIPTOR.CopyToProto(file)
        for message in file.message_type:
            change(message)
        pool.Add(file)  # pyright: ignore[reportUnknownMemberType]
    return pool


def _leave_as_bytes(message: DescriptorProto) -> None:
    for field in message.field:
        if field.type_name in _LEFT_AS_BYTES:
            field.ClearField("type_name")
            field.type = FieldDescriptorProto.TYPE_BYTES
            if field.label == FieldDescriptorProto.LABEL_OPTIONAL:  # a body that is empty is not one that is missing
                field.proto3_optional = True
                field.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{field.name}")
    for inner in message.nested_type:
        _leave_as_bytes(inner)


_SMALLEST_ITEM = 2  # bytes: a tag and a length of 0
_OBJECTS_PER_ITEM = 25  # an attribute of OTLP/JSON takes two objects


def has_more_items_than(body: bytes, limit: int) -> bool:
    """Whether a protobuf request holds more than `limit` items, resources and scopes together.

    Unreadable parts count as nothing: decoding it fails on the same bytes.
    """
    if len(body) <= limit * _SMALLEST_ITEM:
        return False
    outline = item_holders()
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
    """The value of an object under any of these keys: if two name one field, a sender may use both."""
    entries: list[object] = []
    if isinstance(holder, dict):
        for key in keys:
            value = cast("dict[str, object]", holder).get(key)
            if isinstance(value, list):
                entries += cast("list[object]", value)
    return entries


class ItemHolders(NamedTuple):
    """A request's messages as far as items, with every member left as bytes."""

    request: Any
    holder: Any


@cache
def item_holders() -> ItemHolders:
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
    return ItemHolders(
        *(GetMessageClass(pool.FindMessageTypeByName(f"evalstream.{name}")) for name in ("Request", "Holder"))
    )
