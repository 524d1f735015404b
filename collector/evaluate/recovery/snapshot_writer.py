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
"""Conversations that may be snapshotted at a delivery, however small it is; and most that are written together."""
SNAPSHOT_BYTES_AT_ONCE = 1 << 20
TURNS_PER_SNAPSHOT_TURN = 4
"""A restart of n open turns has n / 4 to read that are not in snapshots: so each turn is written into four at most."""
CATCHING_UP = 2
"""How much faster than needed in the long run snapshots are written, so that many that are due at once are spread."""


class SnapshotWriter:
    """The snapshots of one partition of the turns log. `partitions` are those that are open in this process."""

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
        """Note what applying records has cost so far."""
        self._work.note(self._state.work, self._state.next_offset, self._unsnapshotted_work)

    @property
    def _unsnapshotted_work(self) -> float:
        """The work of a restart in this partition beside reading snapshots, in turns that are judged."""
        # Of the snapshots that this takes, only those of open turns cost much: where there are very many of these, a
        # restart takes longer rather than that each of them is written again and again.
        turns = sum(sessions.turns for sessions in self._state.conversations.values())
        return max(self._limits.snapshot_turns / max(1, len(self._partitions)), turns / TURNS_PER_SNAPSHOT_TURN, 1.0)

    async def write(self, done_below: int) -> Sequence[tuple[str, str]]:
        """Write the snapshots that are due, after records were delivered.

        Returns the conversations, each with its monitor, that are too large for one and hold the low watermark too far
        back: they have to be closed early.
        """
        self.note_work()
        state, limits = self._state, self._limits
        windows = sum(map(len, state.conversations.values()))
        # Not `snapshot_records` alone: where more windows are open than that, the snapshots of some would push the
        # others beyond the limit, and the log would grow by snapshots of snapshots.
        records = max(limits.snapshot_records, 2 * windows)
        latest = ReplayPoint(state.next_offset - records, state.time - limits.snapshot_seconds)
        # By work snapshots count nothing, so that none can be the reason of another one.
        work = self._unsnapshotted_work
        offset = self._work.offset_behind(work)
        if done_below <= offset:
            offset = 0  # what is pending or waits holds the low watermark: they would be in vain
        done, self._snapshotted_at = state.work - self._snapshotted_at, state.work
        too_large: list[tuple[str, str]] = []
        for monitor, sessions in state.conversations.items():
            number = max(SNAPSHOTS_AT_ONCE, ceil(CATCHING_UP * len(sessions) * done / work))
            needing = sessions.needing_snapshot(max(offset, latest.offset), latest.time, number)
            for group in _written_together(needing, latest):
                too_large += await self._write(monitor, group, latest)
        return too_large

    async def _write(
        self, monitor: str, conversations: Sequence[tuple[str, ConversationWindows]], latest: ReplayPoint
    ) -> Sequence[tuple[str, str]]:
        """Write snapshots; returns what is too large for one and needs a record from before `latest`."""
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
    """Conversations in groups that keep nobody waiting; without those too large that need nothing before `latest`."""
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
