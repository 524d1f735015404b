"""A group's commit as Kafka stores it: the low watermark as the offset, the rest as JSON in the metadata.

The offset is the low watermark, not the offset up to which records were delivered: `topics.truncate` and whoever knows
only Kafka then keep what a replay needs, and without readable metadata too much is read rather than too little.
"""

from __future__ import annotations

import orjson
from kafka.structs import OffsetAndMetadata

from collector.logs.log import Committed, LogError

MAX_METADATA = 4000
"""Bytes of metadata; a broker accepts 4,096 by default."""


def to_kafka(state: Committed) -> OffsetAndMetadata:
    """A state as offset and metadata.

    Raises:
        LogError: the metadata are too long; a fold may have 2,000 characters.
    """
    metadata = orjson.dumps({"p": state.offset, "n": state.metadata})
    if len(metadata) > MAX_METADATA:
        raise LogError(f"the metadata of a fold have {len(state.metadata)} characters; 2,000 of ASCII are the most")
    return OffsetAndMetadata(state.low_watermark, metadata.decode(), -1)


def from_kafka(committed: OffsetAndMetadata) -> Committed:
    """The state that was committed; of a commit that is not ours only the offset, so all from there is new."""
    offset: int = committed.offset
    try:
        stored = orjson.loads(committed.metadata or "")
        return Committed(offset, max(offset, int(stored["p"])), str(stored["n"]))
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        return Committed(offset, offset)
