"""OTLP/JSON to protobuf messages.

Protobuf's own JSON reader cannot be used as it is: OTLP writes ids in hex where protobuf's mapping wants base64, and
it takes four times as long. The rules of each message are read off its descriptor, so no field is listed here.
"""

import base64
import binascii
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from collector.errors import BadInput
from evaluators.texts.exact_json import parse_json, place_in_json

M = TypeVar("M", bound=Message)
Convert = Callable[[Any, int], Any]
"""From a JSON value, and how deep it may still nest, to what the message's constructor takes; raises _Wrong.

A message inside another stays a dict until all is made at once: a Python object for each takes ten times the memory.
"""

MAX_NESTING = 80
"""Messages inside messages; protobuf itself reads no more than 100."""

_RANGES = {
    FieldDescriptor.CPPTYPE_INT32: range(-(2**31), 2**31),
    FieldDescriptor.CPPTYPE_INT64: range(-(2**63), 2**63),
    FieldDescriptor.CPPTYPE_UINT32: range(2**32),
    FieldDescriptor.CPPTYPE_UINT64: range(2**64),
}
_ID_SIZES = {"trace_id": 16, "span_id": 8, "parent_span_id": 8}


class _Wrong(Exception):
    """A value is not what its field holds. `path` grows while the error rises."""

    def __init__(self, what: str, path: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.path = path


_MARK = b"\xef\xbb\xbf"


def without_mark(data: bytes) -> bytes:
    """A document without the byte order mark that Windows' programs put in front."""
    return data.removeprefix(_MARK)


def load_document(data: bytes) -> object:
    """Parse JSON; half a character becomes U+FFFD, for exporters cut long texts by UTF-16's units.

    Raises:
        BadInput: it is not JSON.
    """
    try:
        return parse_json(data)
    except ValueError as error:  # orjson limits the depth itself
        raise BadInput(f"not a JSON document{place_in_json(error)}") from None


def message_from_document(document: object, message: type[M]) -> M:
    """Make a request of OTLP/JSON, in camelCase or snake_case; unknown keys are left out.

    Raises:
        BadInput: it is not of the message's shape; says where.
    """
    try:
        return message(**_message(message.DESCRIPTOR)(document, MAX_NESTING))
    except _Wrong as error:
        raise BadInput(f"{error.path.lstrip('.')[:200] or 'the document'} {error.what}") from None
    except (ValueError, TypeError):
        raise BadInput("the document has a value out of range") from None


@cache
def _message(descriptor: Descriptor) -> Convert:
    fields: dict[str, tuple[str, Callable[[], Convert], bool]] = {}
    for field in descriptor.fields:
        rule = (field.name, _lazily(field), bool(field.is_repeated))
        fields[field.name] = fields[field.json_name] = rule

    def convert(value: Any, depth: int) -> Any:
        if not isinstance(value, dict):
            raise _Wrong("is not an object")
        if depth <= 0:
            raise _Wrong("is nested too deeply")
        arguments: dict[str, Any] = {}
        key = ""
        try:
            for key, item in cast("dict[str, Any]", value).items():
                if item is not None and key in fields:
                    name, rule, repeated = fields[key]
                    arguments[name] = _each(rule(), item, depth) if repeated else rule()(item, depth - 1)
                elif key == "Value" and isinstance(item, dict):  # Go's JSON for a message with one of several fields
                    item = cast("dict[str, Any]", item)
                    arguments |= convert({name[:1].lower() + name[1:]: inner for name, inner in item.items()}, depth)
        except _Wrong as error:
            error.path = f".{key}{error.path}"
            raise
        return arguments

    return convert


def _each(rule: Convert, value: Any, depth: int) -> list[Any]:
    if not isinstance(value, list):
        raise _Wrong("is not an array")
    done: list[Any] = []
    try:
        for item in cast("list[Any]", value):
            done.append(rule(item, depth - 1))  # noqa: PERF401 - its length says which item was wrong
    except _Wrong as error:
        error.path = f"[{len(done)}]{error.path}"
        raise
    return done


def _lazily(field: FieldDescriptor) -> Callable[[], Convert]:
    @cache
    def rule() -> Convert:  # a message may hold itself, as AnyValue does
        return _rule(field)

    return rule


def _rule(field: FieldDescriptor) -> Convert:
    kind = field.cpp_type
    if kind == FieldDescriptor.CPPTYPE_MESSAGE:
        return _message(field.message_type)
    if kind == FieldDescriptor.CPPTYPE_ENUM:
        return _enum({value.name: value.number for value in (field.enum_type.values if field.enum_type else ())})
    if kind == FieldDescriptor.CPPTYPE_STRING:
        return _bytes(_ID_SIZES.get(field.name)) if field.type == FieldDescriptor.TYPE_BYTES else _string
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        return _bool
    return _float if kind in {FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT} else _ranged(_RANGES[kind])


def _string(value: Any, _depth: int) -> str:
    if not isinstance(value, str):
        raise _Wrong("is not a string")
    return value


def _bool(value: Any, _depth: int) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value in {"true", "false"}:
        return value == "true"
    raise _Wrong("is not true or false")


def _int(value: Any, _depth: int) -> int:
    """64-bit numbers are strings in proto3 JSON; many senders nevertheless write numbers."""
    try:
        if isinstance(value, (int, str)) and not isinstance(value, bool):
            return int(value)
        if isinstance(value, float) and value.is_integer():
            return int(value)
    except ValueError:
        pass
    raise _Wrong("is not a whole number")


def _ranged(numbers: range) -> Convert:
    def convert(value: Any, depth: int) -> int:
        number = _int(value, depth)
        if number not in numbers:
            raise _Wrong("has a value out of range")
        return number

    return convert


def _float(value: Any, _depth: int) -> float:
    try:
        if isinstance(value, (int, float, str)) and not isinstance(value, bool):
            return float(value)
    except (ValueError, OverflowError):
        pass
    raise _Wrong("is not a number")


def _enum(numbers: dict[str, int]) -> Convert:
    other = _ranged(_RANGES[FieldDescriptor.CPPTYPE_INT32])

    def convert(value: Any, depth: int) -> int:
        return numbers[value] if isinstance(value, str) and value in numbers else other(value, depth)

    return convert


def _bytes(size: int | None) -> Convert:
    """Bytes are base64, but ids (`size` bytes) are hex; some senders write base64 for those too."""

    def convert(value: Any, depth: int) -> bytes:
        text = _string(value, depth)
        try:
            if size is not None and len(text) == 2 * size:
                return bytes.fromhex(text)
            raw = base64.b64decode(text, altchars=b"-_" if {"-", "_"} & set(text) else None, validate=True)
            if size is not None and len(raw) == 2 * size:  # of the hex
                raw = bytes.fromhex(raw.decode())
        except (ValueError, binascii.Error):
            raw = None
        if raw is None or (size is not None and len(raw) not in {0, size}):
            raise _Wrong("is not an id" if size else "is not base64")
        return raw

    return convert
