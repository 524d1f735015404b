"""Snapshots: conversations written into the log as one record, so that their earlier records are needed no more.

A long conversation, or one whose turns lie far apart, would keep the low watermark from rising, and a restart would
read all records since. So its windows are appended to its own partition of the turns log. When the record is read, it
is valid if the conversation has not changed in between. Only the owner of the partition knows that, so it writes a
control record, which a replay follows.
"""
# Why not a compacted changelog of all windows, as stream processors have it: that writes every turn twice and needs
# compaction from the log. Snapshots cost only where a conversation is long, and work on SQLite and in memory alike.

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import orjson

from collector.errors import BadInput
from collector.evaluate.conversations.packed_turn import PackedTurn
from collector.evaluate.conversations.session_window import (
    NO_RETRIES,
    ClosedRevision,
    ConversationWindows,
    SessionWindow,
)
from collector.logs.log import Headers, Record

SNAPSHOT_HEADERS: Headers = (("carry", b"1"),)
"""The headers of a snapshot."""

_FIELDS = {
    "first_at": "first_at", "last_at": "last_at", "touched": "touched_at", "size": "size", "ends": "ends_conversation",
    "rate": "rate", "boost": "boost", "stratum": "stratum", "upstream": "upstream", "closed": "closed",
    "sealed": "purged", "revision": "revision",
}  # fmt: skip
"""Attributes of a window by their keys in JSON, which are persisted and never change."""
_NEEDED = "needed"
"""The key of `needed_at`, which is there where it is newer than the last turn."""
_RETRIES = "retries"
"""The key of the conversation's retries, which is there where there are any."""


@dataclass(frozen=True, slots=True)
class ConversationSnapshot:
    """The windows of a monitor's conversation that began at `first_offset`, after the records below `next_offset`."""

    monitor: str
    conversation_id: str
    first_offset: int
    next_offset: int
    windows: tuple[SessionWindow, ...]
    retries: Mapping[str, str] = field(default_factory=lambda: NO_RETRIES)


def snapshot_record(
    monitor: str, conversation_id: str, conversation: ConversationWindows, next_offset: int, partition: int
) -> Record:
    """The record with a conversation's snapshot."""
    plain: dict[str, Any] = {
        "monitor": monitor,
        "conversation_id": conversation_id,
        "first": conversation.replay_point.offset,
        "since": next_offset,
        "sessions": [_to_json(each) for each in conversation.windows],
    }
    if conversation.retries:
        plain[_RETRIES] = conversation.retries
    return Record(conversation_id.encode(), orjson.dumps(plain), SNAPSHOT_HEADERS, partition)


def _to_json(window: SessionWindow) -> dict[str, Any]:
    needed = {_NEEDED: window.needed_at} if window.needed_at > window.touched_at else {}
    return (
        {key: getattr(window, name) for key, name in _FIELDS.items()}
        | needed
        | {
            "newest": window.newest,
            "oldest": window.oldest,
            "unheard": sorted(window.missing_user_hashes),
            "told_at_first": sorted(window.hashes_before_first),
            "closings": [tuple(each) for each in window.closed_revisions],
            "turns": {
                turn_id: None if packed is None else (*packed[:3], b64encode(packed.data).decode())
                for turn_id, packed in window.turns.items()
            },
        }
    )


def parse_snapshot(value: bytes) -> ConversationSnapshot:
    """Read a snapshot.

    Raises:
        BadInput: it is not a snapshot that this version can read.
    """
    try:
        plain = cast("dict[str, Any]", orjson.loads(value))
        conversation_id = plain["conversation_id"]
        sessions = tuple(_window(conversation_id, each) for each in plain["sessions"])
        retries = dict(plain.get(_RETRIES, NO_RETRIES))
        return ConversationSnapshot(
            plain["monitor"], conversation_id, plain["first"], plain["since"], sessions, retries
        )
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise BadInput(f"not a snapshot of a conversation: {type(error).__name__}") from None


def _window(conversation_id: str, plain: dict[str, Any]) -> SessionWindow:
    window = SessionWindow(conversation_id, **{name: plain[key] for key, name in _FIELDS.items()})
    window.needed_at = plain.get(_NEEDED, 0.0)
    window.newest = (plain["newest"][0], plain["newest"][1])
    window.oldest = (plain["oldest"][0], plain["oldest"][1])
    window.missing_user_hashes, window.hashes_before_first = (
        frozenset(plain["unheard"]),
        frozenset(plain["told_at_first"]),
    )
    window.closed_revisions = tuple(ClosedRevision(*each) for each in plain["closings"])
    window.turns = {turn_id: _packed_turn(each) for turn_id, each in plain["turns"].items()}
    return window


def _packed_turn(plain: list[Any] | None) -> PackedTurn | None:
    return None if plain is None else PackedTurn(plain[0], plain[1], plain[2], b64decode(plain[3]))
