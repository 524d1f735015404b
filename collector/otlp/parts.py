"""The parts of messages as bytes: to get at attributes as messages takes several times as long."""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

_OF_BYTES = (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES, FieldDescriptor.TYPE_MESSAGE)


def parts_of(message: Message) -> Any:
    """A message's texts, ids and messages under their own names, each as its bytes in UTF-8 or in protobuf."""
    kind = type(message)
    reader = _READERS.get(kind)
    if reader is None:
        reader = _READERS[kind] = _reader(kind)
    return reader.FromString(message.SerializeToString())


_READERS: dict[type[Message], Any] = {}


def _reader(kind: type[Message]) -> Any:
    """A kind of message with the fields of another that hold bytes: a walk of our own over them would be slower."""
    file = FileDescriptorProto(name="evalstream/parts.proto", package="evalstream", syntax="proto3")
    outline = file.message_type.add(name="Parts")
    for field in kind.DESCRIPTOR.fields:
        if field.type in _OF_BYTES:
            outline.field.add(
                name=field.name,
                number=field.number,
                type=FieldDescriptorProto.TYPE_BYTES,
                label=FieldDescriptorProto.LABEL_REPEATED if field.is_repeated else FieldDescriptorProto.LABEL_OPTIONAL,
            )
    pool = DescriptorPool()
    pool.Add(file)  # pyright: ignore[reportUnknownMemberType]
    return GetMessageClass(pool.FindMessageTypeByName("evalstream.Parts"))
