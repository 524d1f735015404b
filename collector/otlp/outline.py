"""OTLP messages in outline: as they are, but with attributes and values left as their bytes.

To get at a span's attributes as messages takes several times as long as to get at their bytes, which tell most of what
is asked of them: whether they are known, and whether anything in them may have to be redacted.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, Literal, TypeAlias

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
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


def resource_attributes(encoded: bytes) -> Iterable[bytes]:
    """The attributes of a serialized resource, each the bytes of a KeyValue."""
    return _class_of(resource_pb2.Resource.DESCRIPTOR.full_name).FromString(encoded).attributes


@cache
def _class_of(name: str) -> Any:
    return GetMessageClass(_pool().FindMessageTypeByName(name))


@cache
def _pool() -> DescriptorPool:
    """OTLP's own descriptors, but for those fields."""
    pool = DescriptorPool()
    for module_type in _FILES:
        file = FileDescriptorProto()
        module_type.DESCRIPTOR.CopyToProto(file)
        for message in file.message_type:
            _leave_as_bytes(message)
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
