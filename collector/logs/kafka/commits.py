"""What a group has committed, as Kafka keeps it: the low watermark as the offset, the rest in the metadata."""

from __future__ import annotations

import orjson
from kafka.structs import OffsetAndMetadata

from collector.logs.log import Committed, LogError

MAX_METADATA = 4000
"""Bytes of metadata; a broker takes 4,096 unless told otherwise."""


def to_kafka(state: Committed) -> OffsetAndMetadata:
    """A state as offset and metadata.

    Raises:
        LogError: the note is too long; it may have 2,000 characters.
    """
    metadata = orjson.dumps({"p": state.position, "n": state.note})
    if len(metadata) > MAX_METADATA:
        raise LogError(f"the note of a fold has {len(state.note)} characters; 2,000 of ASCII are the most")
    return OffsetAndMetadata(state.low_watermark, metadata.decode(), -1)


def from_kafka(committed: OffsetAndMetadata) -> Committed:
    """The state that was committed; of a commit that is not ours only the offset is known."""
    offset: int = committed.offset
    try:
        found = orjson.loads(committed.metadata or "")
        return Committed(offset, max(offset, int(found["p"])), str(found["n"]))
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        return Committed(offset, offset)
