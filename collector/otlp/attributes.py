"""Attributes of OTLP, decoded from their bytes."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from math import isfinite

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from evaluators.cases import Json

MAX_DEPTH = 64
"""Deepest nesting of arrays and maps in an attribute; what lies deeper is left out."""

_LONGEST_KNOWN, _MOST_KNOWN = 128, 20_000
"""Bytes of an attribute that is remembered, and how many are: most of a span's were on another span before."""


def names_of(pairs: Iterable[bytes]) -> list[str]:
    """The names of attributes, each given by its KeyValue's bytes."""
    return [_known(pair)[0] if len(pair) <= _LONGEST_KNOWN else KeyValue.FromString(pair).key for pair in pairs]


def attributes_of(pairs: Iterable[bytes]) -> dict[str, Json]:
    """Decode attributes, each given by its KeyValue's bytes; of several of one name the last. A tight loop."""
    decoded: dict[str, Json] = {}
    for pair in pairs:
        name, value = _known(pair) if len(pair) <= _LONGEST_KNOWN else _decode(pair)
        decoded[name] = value
    return decoded


def _decode(pair: bytes) -> tuple[str, Json]:
    message = KeyValue.FromString(pair)
    value = message.value
    text = value.string_value
    return message.key, text or any_value(value)


_known = lru_cache(_MOST_KNOWN)(_decode)


_SIMPLE = frozenset({"string_value", "int_value", "bool_value"})


def any_value(value: AnyValue, depth: int = MAX_DEPTH) -> Json:
    """Decode one value: text, number, bool, list, dict.

    Bytes become hex; a number that JSON does not have, and nesting below `depth`, become None.
    """
    kind = value.WhichOneof("value")
    return getattr(value, kind) if kind in _SIMPLE else _other(value, kind, depth)


def _other(value: AnyValue, kind: str | None, depth: int) -> Json:
    if kind == "double_value":
        return value.double_value if isfinite(value.double_value) else None
    if depth <= 0:
        return None
    if kind == "array_value":
        return [any_value(each, depth - 1) for each in value.array_value.values]
    if kind == "kvlist_value":
        return {pair.key: any_value(pair.value, depth - 1) for pair in value.kvlist_value.values}
    if kind == "bytes_value":
        return value.bytes_value.hex()
    return None
