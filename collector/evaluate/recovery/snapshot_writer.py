"""Writes snapshots of the conversations that keep the low watermark of a partition from rising."""

from collections.abc import Iterable, Iterator, Sequence, Sized
from math import ceil

from collector.backoff import FailureLog
from collector.evaluate.conversations.session_window import ConversationWindows
from collector.evaluate.conversations.snapshot import snapshot_record
from collector.evaluate.partition_state import PartitionState, StateLimits
from collector.evaluate.recovery.replay_point import ReplayPoint, ReplayWork
from collector.logs.log import Log, LogUnavailable, RecordTooLarge

SNAPSHOTS_AT_ONCE = 64
"""The conversations that may be snapshotted at any delivery, and the most snapshots that are written together."""
SNAPSHOT_BYTES_AT_ONCE = 1 << 20
TURNS_PER_SNAPSHOT_TURN = 4
"""With n open turns, a restart may read n / 4 turns outside snapshots. So each turn is written into at most four
snapshots."""
CATCHING_UP = 2
"""Snapshots are written so many times faster than needed in the long run, which spreads those that are due at once."""


class SnapshotWriter:
    """Writes the snapshots of one partition of the turns log. `partitions` are open in this process."""

    def __init__(
        self, turns: Log, state: PartitionState, partition: int, limits: StateLimits, partitions: Sized
    ) -> None:
        self._turns = turns
        self._state = state
        self._partition = partition
        self._limits = limits
        self._partitions = partitions
        self._failures = FailureLog("writing snapshots of conversations")
        self._work = ReplayWork()
        self._snapshotted_at = state.work
        self.note_work()

    def note_work(self) -> None:
        """Note the cost of applying records so far."""
        self._work.note(self._state.work, self._state.next_offset, self._unsnapshotted_work)

    @property
    def _unsnapshotted_work(self) -> float:
        """The work of a restart in this partition without reading snapshots; reading a turn that is judged costs 1."""
        # Snapshots of open turns are what costs. With very many open turns, a longer restart is better than writing
        # each of them again and again.
        turns = sum(sessions.turns for sessions in self._state.sessions_by_monitor.values())
        return max(self._limits.snapshot_turns / max(1, len(self._partitions)), turns / TURNS_PER_SNAPSHOT_TURN, 1.0)

    async def write(self, done_below: int) -> Sequence[tuple[str, str]]:
        """Write the snapshots that are due, after records were delivered.

        Returns conversations, each with its monitor, that must be closed early: they are too large for a snapshot and
        hold the low watermark too far back.
        """
        self.note_work()
        state, limits = self._state, self._limits
        # Not `snapshot_records` alone: if more windows are open than that, the snapshots of some would push the others
        # beyond the limit, and the log would grow by snapshots of snapshots.
        records = max(limits.snapshot_records, 2 * sum(map(len, state.sessions_by_monitor.values())))
        latest = ReplayPoint(state.next_offset - records, state.time - limits.snapshot_seconds)
        # Snapshots count as no work, so that none can cause another one.
        work = self._unsnapshotted_work
        offset = self._work.offset_behind(work)
        if done_below <= offset:
            offset = 0  # pending or waiting evaluations hold the low watermark, so snapshots would be useless
        done, self._snapshotted_at = state.work - self._snapshotted_at, state.work
        too_large: list[tuple[str, str]] = []
        for monitor, sessions in state.sessions_by_monitor.items():
            number = max(SNAPSHOTS_AT_ONCE, ceil(CATCHING_UP * len(sessions) * done / work))
            needing = sessions.needing_snapshot(max(offset, latest.offset), latest.time, number)
            for group in _written_together(needing, latest):
                too_large += await self._write(monitor, group, latest)
        return too_large

    async def _write(
        self, monitor: str, conversations: Sequence[tuple[str, ConversationWindows]], latest: ReplayPoint
    ) -> Sequence[tuple[str, str]]:
        """Write snapshots; returns conversations that are too large for one and need a record from before `latest`."""
        try:
            next_offset = self._state.next_offset
            await self._turns.append(
                [snapshot_record(monitor, *named, next_offset, self._partition) for named in conversations]
            )
        except LogUnavailable as error:
            self._failures.failed(error)
        except RecordTooLarge:
            if len(conversations) > 1:
                return [key for named in conversations for key in await self._write(monitor, [named], latest)]
            conversation_id, conversation = conversations[0]
            if conversation.replay_point.lies_before(latest.offset, latest.time):
                return [(monitor, conversation_id)]
            conversation.too_large = True
        else:
            self._failures.succeeded()
            for _, conversation in conversations:
                conversation.snapshot_pending = True
        return ()


def _written_together(
    conversations: Iterable[tuple[str, ConversationWindows]], latest: ReplayPoint
) -> Iterator[list[tuple[str, ConversationWindows]]]:
    """Conversations in groups that are quick to write, without those that are too large and need no record before
    `latest`.
    """
    group: list[tuple[str, ConversationWindows]] = []
    size = 0
    for name, conversation in conversations:
        if conversation.too_large and not conversation.replay_point.lies_before(latest.offset, latest.time):
            continue
        group.append((name, conversation))
        size += sum(window.size for window in conversation.windows)
        if len(group) == SNAPSHOTS_AT_ONCE or size > SNAPSHOT_BYTES_AT_ONCE:
            yield group
            group, size = [], 0
    if group:
        yield group
