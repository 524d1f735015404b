"""The second reading of a request that cannot be read as it is: one bad span or log record costs itself alone.

Texts that were cut within a character get the replacement character. Only a request that was refused comes here, so
the first reading costs no more.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError

from collector.errors import BadInput
from collector.otlp.outline import item_holders, with_bytes_for_texts


class Mended(NamedTuple):
    """The rest of a request: its bytes or document, the number of rejected items, and why the first one was
    rejected.
    """

    request: Any
    rejected: int
    reason: str


def mend_protobuf(data: bytes, descriptor: Descriptor) -> Mended | None:
    """Mend an encoded request of this kind; None if nothing of it can be read."""
    reader = with_bytes_for_texts(descriptor.full_name)
    rejected = 0
    try:
        message = reader.FromString(data)
    except DecodeError:
        left, rejected = _without_broken_items(data, descriptor)
        if not left:
            return None
        message = reader.FromString(left)
    _replace_halves(message, descriptor)
    return Mended(message.SerializeToString(), rejected, "cannot be read as protobuf")


def _without_broken_items(data: bytes, descriptor: Descriptor) -> tuple[bytes, int]:
    """The request without the items that cannot be read by themselves, and how many there were; b"" if none is left."""
    item: Any = descriptor.fields[0].message_type
    for _ in ("scopes", "items"):
        item = item.fields_by_number[2].message_type
    reader, holders = with_bytes_for_texts(item.full_name), item_holders()
    rejected = whole_items = 0
    try:
        request = holders.request.FromString(data)
        for index, encoded in enumerate(request.members):
            resource = holders.holder.FromString(encoded)
            for place, inner in enumerate(resource.members):
                scope = holders.holder.FromString(inner)
                whole = [member for member in scope.members if _can_be_read(member, reader)]
                rejected += len(scope.members) - len(whole)
                whole_items += len(whole)
                scope.members[:] = whole
                resource.members[place] = scope.SerializeToString()
            request.members[index] = resource.SerializeToString()
        encoded = request.SerializeToString()
        with_bytes_for_texts(descriptor.full_name).FromString(encoded)
    except DecodeError:
        return b"", 0
    return (encoded, rejected) if whole_items else (b"", 0)


def _can_be_read(encoded: bytes, reader: Any) -> bool:
    try:
        reader.FromString(encoded)
    except DecodeError:
        return False
    return True


def _replace_halves(message: Any, descriptor: Descriptor) -> None:
    """Replace bytes that are not UTF-8 in the texts of a message; this reading has texts as bytes."""
    for field, value in message.ListFields():
        known = descriptor.fields_by_name[field.name]
        if known.type == FieldDescriptor.TYPE_STRING:
            whole = [text.decode("utf-8", "replace").encode() for text in (value if known.is_repeated else (value,))]
            if known.is_repeated:
                value[:] = whole
            else:
                setattr(message, field.name, whole[0])
        elif known.message_type is not None:
            for inner in value if known.is_repeated else (value,):
                _replace_halves(inner, known.message_type)


_HOLDERS = (("resourceSpans", "scopeSpans", "spans"), ("resourceLogs", "scopeLogs", "logRecords"))
_OTHER_NAMES = {
    "resourceSpans": "resource_spans", "scopeSpans": "scope_spans", "resourceLogs": "resource_logs",
    "scopeLogs": "scope_logs", "logRecords": "log_records",
}  # fmt: skip


def mend_document(document: object, read: Callable[[object], object]) -> Mended | None:
    """Mend a document of OTLP/JSON, in place, given what reads it: items that are wrong by themselves are taken out.

    None if something around them is wrong, or nothing is left.
    """
    rejected, good, reason = 0, 0, ""
    for around, items, place in _items_of(document):
        for index in reversed(range(len(items))):
            try:
                read(around(items[index]))
                good += 1
            except BadInput as error:
                reason = f"{place}[{index}].{str(error).split('].', 3)[-1]}"
                rejected += 1
                del items[index]
    return Mended(document, rejected, reason) if rejected and good else None


def _items_of(document: object) -> Iterator[tuple[Callable[[object], object], list[Any], str]]:
    """The lists of items in a document, each with its place and a function that makes a document of one item."""
    for names in _HOLDERS:
        for first, resource, key in _members(document, names[0]):
            for second, scope, scope_key in _members(resource, names[1]):
                for name in (names[2], _OTHER_NAMES.get(names[2], "")):
                    items = scope.get(name)
                    if isinstance(items, list):
                        yield (
                            _around(key, scope_key, name),
                            cast("list[Any]", items),
                            f"{key}[{first}].{scope_key}[{second}].{name}",
                        )


def _around(key: str, scope_key: str, name: str) -> Callable[[object], object]:
    return lambda item: {key: [{scope_key: [{name: [item]}]}]}


def _members(holder: object, name: str) -> Iterator[tuple[int, dict[str, Any], str]]:
    fields = cast("dict[str, Any]", holder) if isinstance(holder, dict) else {}
    for key in (name, _OTHER_NAMES[name]):
        members = fields.get(key)
        for index, member in enumerate(cast("list[Any]", members) if isinstance(members, list) else ()):
            if isinstance(member, dict):
                yield index, cast("dict[str, Any]", member), key
