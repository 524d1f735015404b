"""The envelopes that pipelines put around a message in Kafka: Confluent's five bytes, Kafka Connect's, CloudEvents'."""

from __future__ import annotations

import base64
import binascii
from typing import Any, cast

import orjson

from collector.otlp.json import without_mark

_MAGIC, _REGISTERED = b"\x00", 5
"""Begins a message whose schema is registered: this byte, and the schema's id in four more."""
_DATA = (b'"payload"', b'"specversion"')


def unwrapped(message: bytes) -> bytes:
    """The request in a message; one without an envelope is returned as it is, and so is one that cannot be read."""
    if message[:1] == _MAGIC and len(message) > _REGISTERED:
        body = message[_REGISTERED:]
        return body[1:] if body[:1] == _MAGIC else body  # which message of the schema: the first
    message = without_mark(message)
    if message[:1] != b"{" or not any(name in message for name in _DATA):
        return message
    try:
        document: Any = orjson.loads(message)
    except orjson.JSONDecodeError:
        return message
    envelope = cast("dict[str, Any]", document)
    if envelope.keys() == {"schema", "payload"}:
        return _encoded(envelope["payload"], message)
    if "specversion" in envelope:
        return _encoded(envelope.get("data_base64", envelope.get("data")), message)
    return message


def _encoded(content: Any, message: bytes) -> bytes:
    """The bytes of what an envelope holds: an object, its JSON as a text, or bytes in base64."""
    if isinstance(content, dict | list):
        return orjson.dumps(content)
    if not isinstance(content, str):
        return message
    if content[:1] in {"{", "["}:
        return content.encode()
    try:
        return base64.b64decode(content, validate=True)
    except (ValueError, binascii.Error):
        return message
