"""Snapshots: conversations written into the log as one record, so that their earlier records are needed no more.

A long conversation, or one whose turns lie far apart, would keep the low watermark from rising, and a restart would
read all records since, of which each takes some ten times as long as a turn in a snapshot. So a conversation's windows
are appended to its own partition of the turns log. When the record is read, it is valid if the conversation has these
windows and has not changed in between. The windows can be others although nothing changed: if an owner dies before it
commits, the next one decides again at which rates the same turns are sampled. Only the owner of the partition knows
whether a snapshot is valid, so it writes a control record, which a replay follows.
"""
# Why not a compacted changelog of all windows, as stream processors have it: that writes every turn twice and needs
# compaction from the log. Snapshots cost only where a restart would be long, and work on SQLite and in memory alike.

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType

from collector.errors import BadInput
from collector.evaluate.conversations import session_window
from collector.evaluate.conversations.packed_turn import PackedTurn
from collector.logs.log import Headers, Record

SNAPSHOT_HEADERS: Headers = (("carry", b"1"),)
"""The headers of a snapshot."""


class WindowOutline(Struct, kw_only=True, gc=False):
    """A window's record without its turns. Names and their order are persisted and never change."""

    first_at: float
    last_at: float
    touched: float
    size: int
    ends: bool
    rate: float
    boost: float
    stratum: str
    upstream: float | None
    closed: bool
    sealed: bool
    revision: int
    needed: float | UnsetType = UNSET  # only if newer than the last turn
    newest: tuple[float, str]
    oldest: tuple[float, str]
    missing: Sequence[int] = msgspec.field(name="unheard")
    before_first: Sequence[int] = msgspec.field(name="told_at_first")
    closings: tuple[session_window.ClosedRevision, ...]


class _WrittenWindow(WindowOutline, kw_only=True, gc=False):
    """A window's record."""

    turns: dict[str, PackedTurn | None]


class _WrittenConversation(Struct, gc=False):
    """A snapshot's record."""

    monitor: str
    conversation_id: str
    first: int
    since: int
    sessions: list[_WrittenWindow]
    retries: Mapping[str, str] | UnsetType = UNSET


class SnapshotOutline(Struct, gc=False):
    """The part of a snapshot that decides whether it is valid, and the times that a replay may not know: see the
    fields.
    """

    monitor: str
    conversation_id: str
    first: int
    since: int
    sessions: tuple[WindowOutline, ...]
    retries: Mapping[str, str] = msgspec.field(default_factory=lambda: session_window.NO_RETRIES)

    @property
    def last_ignored_at(self) -> tuple[float, ...]:
        """The `last_ignored_at` of each window; 0.0 where it is not newer than the last turn."""
        return tuple(0.0 if outline.needed is UNSET else outline.needed for outline in self.sessions)

    def equals(self, windows: Iterable[session_window.SessionWindow]) -> bool:
        """Whether the snapshot has these windows. They may have ignored turns since; the turns' texts are not read."""
        return [_compared(outline) for outline in self.sessions] == [_compared(_written(window)) for window in windows]


_Read = TypeVar("_Read")
_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(_WrittenConversation)
_OUTLINE_DECODER = msgspec.json.Decoder(SnapshotOutline)


@dataclass(frozen=True, slots=True)
class ConversationSnapshot:
    """The windows of a monitor's conversation that began at `first_offset`, after the records below `next_offset`."""

    monitor: str
    conversation_id: str
    first_offset: int
    next_offset: int
    windows: tuple[session_window.SessionWindow, ...]
    retries: Mapping[str, str] = field(default_factory=lambda: session_window.NO_RETRIES)


def snapshot_record(
    monitor: str,
    conversation_id: str,
    conversation: session_window.ConversationWindows,
    next_offset: int,
    partition: int,
) -> Record:
    """The record with a conversation's snapshot."""
    written = _WrittenConversation(
        monitor,
        conversation_id,
        conversation.replay_point.offset,
        next_offset,
        [_written(window) for window in conversation.windows],
        conversation.retries or UNSET,
    )
    return Record(conversation_id.encode(), _ENCODER.encode(written), SNAPSHOT_HEADERS, partition)


def _written(window: session_window.SessionWindow) -> _WrittenWindow:
    return _WrittenWindow(
        first_at=window.first_at, last_at=window.last_at, touched=window.touched_at,
        needed=window.last_ignored_at if window.last_ignored_at > window.touched_at else UNSET,
        turns=window.turns, size=window.size, newest=window.newest, oldest=window.oldest, ends=window.ends_conversation,
        missing=sorted(window.missing_user_hashes), before_first=sorted(window.hashes_before_first),
        rate=window.rate, boost=window.boost, stratum=window.stratum, upstream=window.upstream,
        closed=window.closed, sealed=window.purged, revision=window.revision, closings=window.closed_revisions,
    )  # fmt: skip


def _compared(window: WindowOutline) -> Sequence[object]:
    return [getattr(window, name) for name in WindowOutline.__struct_fields__ if name != "needed"]


def outline_snapshot(value: bytes) -> SnapshotOutline:
    """Read the part of a snapshot that tells whether it is valid, at a tenth of the cost of reading its turns.

    Raises:
        BadInput: it is not a snapshot that this version can read.
    """
    return _decode(_OUTLINE_DECODER, value)


def parse_snapshot(value: bytes) -> ConversationSnapshot:
    """Read a snapshot.

    Raises:
        BadInput: it is not a snapshot that this version can read.
    """
    read = _decode(_DECODER, value)
    windows = tuple(_window(read.conversation_id, window) for window in read.sessions)
    retries = session_window.NO_RETRIES if read.retries is UNSET else read.retries
    return ConversationSnapshot(read.monitor, read.conversation_id, read.first, read.since, windows, retries)


def _decode(decoder: msgspec.json.Decoder[_Read], value: bytes) -> _Read:
    try:
        return decoder.decode(value)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadInput(f"not a snapshot of a conversation: {type(error).__name__}") from None


def _window(conversation_id: str, read: _WrittenWindow) -> session_window.SessionWindow:
    return session_window.SessionWindow(
        conversation_id, read.first_at, read.last_at, touched_at=read.touched,
        last_ignored_at=0.0 if read.needed is UNSET else read.needed,
        turns=read.turns, size=read.size, newest=read.newest, oldest=read.oldest, ends_conversation=read.ends,
        missing_user_hashes=frozenset(read.missing), hashes_before_first=frozenset(read.before_first),
        rate=read.rate, boost=read.boost, stratum=read.stratum, upstream=read.upstream,
        closed=read.closed, purged=read.sealed, revision=read.revision, closed_revisions=read.closings,
    )  # fmt: skip
