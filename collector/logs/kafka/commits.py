"""A group's commit as Kafka stores it: the low watermark as the offset, the rest as JSON in the metadata.

The offset is the low watermark, not the offset up to which records were delivered: `topics.truncate` and whoever knows
only Kafka then keep what a replay needs, and without readable metadata too much is read rather than too little.
"""

import orjson
from kafka.structs import OffsetAndMetadata

from collector.logs.log import Committed, LogError

MAX_METADATA = 4000
"""Bytes of metadata; a broker accepts 4,096 by default."""


def to_kafka(state: Committed, topic_id: str | None = None) -> OffsetAndMetadata:
    """A state as offset and metadata. `topic_id` is that of the topic that was read, for topics of others.

    Raises:
        LogError: the metadata are too long; a fold may have 2,000 characters.
    """
    parts = {"p": state.offset, "n": state.metadata}
    metadata = orjson.dumps(parts if topic_id is None else parts | {"t": topic_id})
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


def topic_id_in(committed: OffsetAndMetadata) -> str | None:
    """The id of the topic that was read; None if it was not noted."""
    try:
        topic_id = orjson.loads(committed.metadata or "").get("t")
    except (orjson.JSONDecodeError, AttributeError):
        return None
    return topic_id if isinstance(topic_id, str) else None
