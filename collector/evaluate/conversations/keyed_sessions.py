"""Session windows by conversation id: a state machine driven by records and their times. No clock, no I/O.

A window opens with its first turn. It closes when a turn says so, after `idle_gap` without a turn, or at a limit of
age, turns or bytes. A window that closed after a gap or by an end marker waits for late turns: a turn less than
`idle_gap` + `allowed_lateness` before or after one of its turns belongs to it and reopens it, and its next result is
revision n+1. It is removed `allowed_lateness` after that time, so turns at most that late find the same windows as if
in order. A late turn that connects two windows of one id merges them.

A turn that belongs to no window opens one, however old it is: a sender that was cut off for a day delivers whole
conversations afterwards, and each is judged. The age of a window is the span of its turns plus the wait since the last
one came, so a backlog does not look like a long conversation.

A turn that comes twice defers the removal, as any turn does, and changes nothing else. If its window is gone, it is
left out, as long as its id is remembered. A replay that begins between the two, and does not remember the first, takes
the second for a new turn. The state that such a replay builds for the conversation is wrong, and must be gone when the
conversation is removed; otherwise it would enter the next conversation with the same id.

A window that closed at a limit is purged: its texts are released at once, only the ids of its turns remain to recognize
duplicates, and later turns open a new window. The order of arrival decides which turns come before a limit.

Eviction and snapshots always take all windows of a conversation id. The windows depend on each other (a purged window
sends later turns to the next one), so a replay that begins between them could not rebuild one alone.
"""

import heapq
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count, islice, takewhile

from collector.evaluate.conversations.packed_turn import IncomingTurn
from collector.evaluate.conversations.session_window import (
    NO_RETRIES,
    ConversationWindows,
    SessionWindow,
    SessionWindowSettings,
    WindowResult,
)
from collector.evaluate.recovery.replay_point import ReplayPoint

_STALE_TIMERS = 1000
"""The timers of removed windows that the heap may hold before it is rebuilt, so that removal is cheap."""


class KeyedSessions:
    """The session windows of one partition, as one monitor sees them.

    Feed it in log order: `advance` to a record's time first, then `add` the record's turn. Both give the same results
    on a replay, because they use the times of records alone. `fallback` says whether fallback judges are in use.
    """

    def __init__(self, settings: SessionWindowSettings, *, fallback: Callable[[], bool] = lambda: False) -> None:
        self._settings = settings
        self._reach = settings.idle_gap + settings.allowed_lateness
        self._fallback = fallback
        # By conversation id, in the order of replay points, so that the first one is the low watermark. A new or
        # restored conversation has the newest replay point: insertion order is sorted order, and no heap is needed.
        self._conversations: OrderedDict[str, ConversationWindows] = OrderedDict()
        # By age, for eviction: a snapshot gives a conversation a newer replay point, but does not make it younger.
        self._by_age: dict[str, None] = {}
        self._timers: list[tuple[float, int, SessionWindow]] = []
        self._number = count()
        self._released: list[ReplayPoint] = []
        self._window_count = 0
        self.open = 0
        """The number of open windows."""
        self.size = 0
        """The approximate bytes of all windows."""
        self.turns = 0
        """The number of turns in all windows."""

    def __len__(self) -> int:
        return self._window_count

    def reconfigure(self, settings: SessionWindowSettings) -> None:
        """Use these settings from now on, also for windows that are open."""
        if settings == self._settings:
            return
        self._settings = settings
        self._reach = settings.idle_gap + settings.allowed_lateness
        self._timers = []
        for conversation in self._conversations.values():
            for window in conversation.windows:
                self._set_timer(window)

    def abandon(self) -> list[ReplayPoint]:
        """Remove all windows without closing them; returns the replay points that are no longer needed."""
        points = [conversation.replay_point for conversation in self._conversations.values()]
        self._conversations.clear()
        self._by_age.clear()
        return [*self.take_released(), *points]

    def add(
        self, conversation_id: str, incoming: IncomingTurn, replay_point: ReplayPoint, time: float
    ) -> tuple[SessionWindow | None, list[WindowResult]]:
        """Add the turn of the record at `replay_point`, which came at `time`. Returns the window that it is in, None if
        the turn was known to the conversation; and the windows that it closed.
        """
        conversation = self._conversations.get(conversation_id)
        windows = conversation.windows if conversation else []
        for window in windows:
            if incoming.turn_id in window.turns:
                window.last_ignored_at = time
                return None, []
        at = incoming.packed.happened_at
        begin, end = at - self._reach, at + self._reach
        matching = [other for other in windows if not other.purged and other.first_at < end and other.last_at > begin]
        if incoming.is_copy and not matching:  # its window has ended: by itself it would be a second conversation
            return None, []
        if conversation is None:
            conversation = self._conversations[conversation_id] = ConversationWindows(
                replay_point, [], replay_point.offset
            )
            self._by_age[conversation_id] = None
        if not matching:
            matching = [self._open(conversation, SessionWindow(conversation_id, at, at, time))]
        window = matching[0]
        for other in matching[1:]:
            self._merge(conversation, window, other)
        self._add_turn(window, incoming, time)
        conversation.last_change = replay_point.offset
        return window, self._close_if_ended(conversation, window)

    def _open(self, conversation: ConversationWindows, window: SessionWindow) -> SessionWindow:
        conversation.windows.append(window)
        self._window_count += 1
        self.open += not window.closed
        self.size += window.size
        self.turns += len(window.turns)
        self._set_timer(window)
        return window

    def _merge(self, conversation: ConversationWindows, window: SessionWindow, other: SessionWindow) -> None:
        was_closed, size = window.closed, window.size
        window.merge(other)
        window.closed = was_closed
        self.size += window.size - size
        self.turns += len(other.turns)
        self._remove(conversation, other)

    def _add_turn(self, window: SessionWindow, incoming: IncomingTurn, time: float) -> None:
        size = window.size
        self.open += window.closed
        window.add(incoming)
        self.size += window.size - size
        self.turns += 1
        window.touched_at = time
        if self._deadline(window) < window.timer_at:
            self._set_timer(window)

    def _close_if_ended(self, conversation: ConversationWindows, window: SessionWindow) -> list[WindowResult]:
        """Close a window that its newest turn ends."""
        settings = self._settings
        if len(window.turns) >= settings.max_turns:
            return [self._close(conversation, window, "max_turns", purge=True)]
        if window.size >= settings.max_bytes:
            return [self._close(conversation, window, "max_bytes", purge=True)]
        if window.last_at - window.first_at >= settings.max_age:
            return [self._close(conversation, window, "max_age", purge=True)]
        return [self._close(conversation, window, "explicit")] if window.ends_conversation else []

    def advance(self, time: float, offset: int) -> Iterator[WindowResult]:
        """Let time pass before the record at `offset`: close windows that are due, and remove those past their
        lateness.
        """
        while self._timers and self._timers[0][0] <= time:
            at, _, window = heapq.heappop(self._timers)
            if window.removed or window.timer_at != at:
                continue
            if self._deadline(window) > at:  # turns came since the timer was set
                self._set_timer(window)
                continue
            conversation = self._conversations[window.conversation_id]
            conversation.last_change = offset
            if window.closed:
                self._remove(conversation, window)
                self._remove_if_empty(window.conversation_id, conversation)
            else:
                aged = window.last_at - window.first_at + time - window.touched_at >= self._settings.max_age
                closed = self._close(conversation, window, "max_age" if aged else "idle", purge=aged)
                self._set_timer(window)
                yield closed

    def _deadline(self, window: SessionWindow) -> float:
        if window.closed:
            return max(window.touched_at, window.last_ignored_at) + self._reach + self._settings.allowed_lateness
        until_aged = self._settings.max_age - (window.last_at - window.first_at)
        return window.touched_at + min(self._settings.idle_gap, max(0.0, until_aged))

    def _close(
        self, conversation: ConversationWindows, window: SessionWindow, closed_by: str, *, purge: bool = False
    ) -> WindowResult:
        closed = window.close(closed_by, replay_point=conversation.replay_point, fallback=self._fallback())
        self.open -= 1
        if purge:
            size = window.size
            window.purge()
            self.size += window.size - size
        return closed

    def _remove(self, conversation: ConversationWindows, window: SessionWindow) -> None:
        """Remove one window of a conversation."""
        conversation.windows.remove(window)
        self._window_count -= 1
        self.open -= not window.closed
        self.size -= window.size
        self.turns -= len(window.turns)
        window.removed = True
        window.turns = {}  # a timer may still refer to it
        if len(self._timers) > 2 * self._window_count + _STALE_TIMERS:
            self._timers = [entry for entry in self._timers if not entry[2].removed and entry[2].timer_at == entry[0]]
            heapq.heapify(self._timers)

    def _remove_if_empty(self, conversation_id: str, conversation: ConversationWindows) -> None:
        if not conversation.windows:
            del self._conversations[conversation_id]
            del self._by_age[conversation_id]
            self._released.append(conversation.replay_point)

    def _set_timer(self, window: SessionWindow) -> None:
        window.timer_at = self._deadline(window)
        heapq.heappush(self._timers, (window.timer_at, next(self._number), window))

    def items(self) -> Iterator[tuple[str, ConversationWindows]]:
        """All conversations, in the order of their replay points."""
        yield from self._conversations.items()

    def oldest(self, number: int) -> list[str]:
        """The ids of the oldest conversations, to be evicted."""
        return list(islice(self._by_age, number))

    def evict(self, conversation_id: str) -> list[WindowResult]:
        """Close the open windows of a conversation early, and remove all of them."""
        conversation = self._conversations.get(conversation_id)
        if conversation is None:
            return []
        closed = [self._close(conversation, window, "evicted") for window in conversation.windows if not window.closed]
        for window in list(conversation.windows):
            self._remove(conversation, window)
        self._remove_if_empty(conversation_id, conversation)
        return closed

    def needing_snapshot(self, offset: int, time: float, number: int) -> list[tuple[str, ConversationWindows]]:
        """At most `number` conversations that should be snapshotted: they need records before `offset` or `time`.

        Leaves out conversations whose snapshots are under way, and looks only at the oldest conversations.
        """
        candidates = islice(self._conversations.items(), 2 * number)
        needing = takewhile(lambda item: item[1].replay_point.lies_before(offset, time), candidates)
        return [item for item in needing if not item[1].snapshot_pending][:number]

    def unchanged(self, conversation_id: str, first_offset: int, since: int) -> Sequence[SessionWindow]:
        """The windows of the conversation; none if it does not begin at `first_offset` any more, or if a record from
        offset `since` on changed it.
        """
        conversation = self._conversations.get(conversation_id)
        if conversation is None or conversation.replay_point.offset != first_offset:
            return ()
        return conversation.windows if conversation.last_change < since else ()

    def add_retry(self, conversation_id: str, failed: str, new: str, offset: int) -> None:
        """Note that the record at `offset` asks for an evaluation of the conversation to be made again."""
        conversation = self._conversations.get(conversation_id)
        if conversation is not None:
            conversation.retries = {**conversation.retries, failed: new}
            conversation.last_change = offset  # an earlier snapshot does not know of it

    def discard(self, conversation_id: str) -> None:
        """Drop a snapshot of the conversation that was read but is not valid."""
        conversation = self._conversations.get(conversation_id)
        if conversation is not None:
            conversation.snapshot_pending = False

    def confirm_snapshot(
        self,
        conversation_id: str,
        last_ignored_at: Sequence[float],
        replay_point: ReplayPoint,
        retries: Mapping[str, str] = NO_RETRIES,
    ) -> None:
        """Like `restore`, for a conversation that has not changed since: it keeps its windows, which equal the
        snapshot's.

        A replay from `replay_point` on does not know of turns that were ignored since then, so `last_ignored_at` is
        taken from the snapshot.
        """
        conversation = self._conversations[conversation_id]
        self._conversations.move_to_end(conversation_id)
        self._released.append(conversation.replay_point)
        conversation.replay_point, conversation.last_change = replay_point, replay_point.offset
        conversation.retries, conversation.snapshot_pending = retries, False
        for window, ignored_at in zip(conversation.windows, last_ignored_at, strict=True):
            window.last_ignored_at = ignored_at
            if self._deadline(window) < window.timer_at:
                self._set_timer(window)

    def restore(
        self,
        conversation_id: str,
        windows: Sequence[SessionWindow],
        replay_point: ReplayPoint,
        retries: Mapping[str, str] = NO_RETRIES,
    ) -> None:
        """Replace a conversation by its snapshot in the record at `replay_point`. It then needs no earlier record.

        Only for a valid snapshot: one whose conversation was unchanged when this record was first read.
        """
        conversation = self._conversations.pop(conversation_id, None)
        if conversation is not None:
            self._released.append(conversation.replay_point)
            for window in list(conversation.windows):
                self._remove(conversation, window)
        conversation = self._conversations[conversation_id] = ConversationWindows(
            replay_point, [], replay_point.offset, retries
        )
        self._by_age.setdefault(conversation_id)
        for window in windows:
            self._open(conversation, window)

    @property
    def due_at(self) -> float | None:
        """The next time at which a window closes or is removed without a turn (s since the epoch)."""
        return self._timers[0][0] if self._timers else None

    @property
    def low_watermark(self) -> ReplayPoint | None:
        """The oldest replay point of a conversation."""
        return next((conversation.replay_point for conversation in self._conversations.values()), None)

    @property
    def has_released(self) -> bool:
        """Whether conversations have stopped needing replay points since the last call of `take_released`."""
        return bool(self._released)

    def take_released(self) -> list[ReplayPoint]:
        """The replay points that conversations have stopped needing since the last call."""
        released, self._released = self._released, []
        return released
