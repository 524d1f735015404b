"""When a conversation is over: a state machine driven by records and the time they carry. No clock, no I/O.

A conversation opens with its first turn. It closes when a turn says so, when nothing of it came for `idle`, or at a
limit of age, turns or bytes. Closed for its silence or by its own word it waits for late turns: what happened less
than `idle` + `lateness` before or after one of its turns belongs to it, reopens it, and its next closing is revision
n+1. It is forgotten when `lateness` more has passed, so that turns which come late by up to that find the same
conversations as if they had come in order. Two conversations of one id that a late turn shows to be one become one.

Closed at a limit it is sealed: its texts are let go at once, only the ids of its turns are kept to know them again, and
what comes later opens a conversation afresh. Which turns come before a limit depends on the order in which they come.

What is evicted, or carried forward in the log, is always a whole episode: all that is remembered of an id.
Conversations of one id depend on each other (a sealed one sends later turns on to the next): no replay that begins
within an episode could rebuild a part of it.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice, takewhile
from typing import Literal

from collector.evaluate.kept import Arrival
from collector.evaluate.marks import Mark
from collector.evaluate.session import Closed, Episode, Session


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """When conversations end; times in seconds."""

    idle: float = 900.0
    lateness: float = 600.0
    max_age: float = 86_400.0
    max_turns: int = 200
    max_bytes: int = 1 << 20


_TIMERS = 1000
"""So many timers of the forgotten are let stand, so that they are not looked through each time."""

Taken = Literal["new", "duplicate", "late"]
"""What became of a turn: `late` ones came when their conversation was forgotten."""


class Conversations:
    """The open and remembered conversations of one partition, seen by one monitor.

    Feed it in log order: `advance` to a record's time first, then `add` the record's turn. Both give the same results
    on a replay, because the only time they know is the records'. `fallback` says whether cheaper judges are asked now.
    """

    def __init__(self, ends: Ends, *, fallback: Callable[[], bool] = lambda: False) -> None:
        self._ends = ends
        self._apart = ends.idle + ends.lateness
        self._fallback = fallback
        self._episodes: OrderedDict[str, Episode] = OrderedDict()  # by conversation id, in the order of their marks
        self._timers: list[tuple[float, int, Session]] = []
        self._number = count()
        self._left: list[Mark] = []
        self._remembered = 0
        self.open = 0
        """How many are open."""
        self.size = 0
        """Bytes of all that is remembered, roughly."""

    def __len__(self) -> int:
        return self._remembered

    def add(self, conversation_id: str, arrival: Arrival, mark: Mark, time: float) -> tuple[Taken, list[Closed]]:
        """Take a turn that stands at `mark`, at the fold's `time`; says what became of it and what closed by it."""
        episode = self._episodes.get(conversation_id)
        known = episode.sessions if episode else []
        if any(arrival.turn_id in session.turns for session in known):
            return "duplicate", []
        at = arrival.kept.at
        fitting = [each for each in known if self._fits(each, at)]
        if not fitting and at + self._apart <= time:
            return "late", []
        if episode is None:
            episode = self._episodes[conversation_id] = Episode(mark, [], mark.position)
        if not fitting:
            fitting = [self._open(episode, Session(conversation_id, at, at, time))]
        session = fitting[0]
        for other in fitting[1:]:
            self._merge(episode, session, other)
        self._take(session, arrival, time)
        episode.changed = mark.position
        return "new", self._over(episode, session)

    def _fits(self, session: Session, at: float) -> bool:
        return not session.sealed and session.first_at - self._apart < at < session.last_at + self._apart

    def _open(self, episode: Episode, session: Session) -> Session:
        episode.sessions.append(session)
        self._remembered += 1
        self.open += not session.closed
        self.size += session.size
        self._set_timer(session)
        return session

    def _merge(self, episode: Episode, session: Session, other: Session) -> None:
        was_closed, size = session.closed, session.size
        session.absorb(other)
        session.closed = was_closed
        self.size += session.size - size
        self._drop(episode, other)

    def _take(self, session: Session, arrival: Arrival, time: float) -> None:
        size = session.size
        self.open += session.closed
        session.take(arrival)
        self.size += session.size - size
        session.touched = time
        if self._due(session) < session.timer:
            self._set_timer(session)

    def _over(self, episode: Episode, session: Session) -> list[Closed]:
        """Close a conversation that a turn has ended."""
        ends = self._ends
        if len(session.turns) >= ends.max_turns:
            return [self._close(episode, session, "max_turns", seal=True)]
        if session.size >= ends.max_bytes:
            return [self._close(episode, session, "max_bytes", seal=True)]
        if session.last_at - session.first_at >= ends.max_age:
            return [self._close(episode, session, "max_age", seal=True)]
        return [self._close(episode, session, "explicit")] if session.ends else []

    def advance(self, time: float, position: int) -> Iterator[Closed]:
        """Let time pass before the record at `position`: close what is over, forget what was remembered long enough."""
        while self._timers and self._timers[0][0] <= time:
            at, _, session = heapq.heappop(self._timers)
            if session.gone or session.timer != at:
                continue
            if self._due(session) > at:  # turns came since the timer was set
                self._set_timer(session)
                continue
            episode = self._episodes[session.conversation_id]
            episode.changed = position
            if session.closed:
                self._drop(episode, session)
                self._end_if_empty(session.conversation_id, episode)
            else:
                aged = session.first_at + self._ends.max_age <= time
                closed = self._close(episode, session, "max_age" if aged else "idle", seal=aged)
                self._set_timer(session)
                yield closed

    def _due(self, session: Session) -> float:
        if session.closed:
            return session.touched + self._apart + self._ends.lateness
        return max(session.touched, min(session.touched + self._ends.idle, session.first_at + self._ends.max_age))

    def _close(self, episode: Episode, session: Session, by: str, *, seal: bool = False) -> Closed:
        closed = session.close(by, needs=episode.mark, fallback=self._fallback())
        self.open -= 1
        if seal:
            size = session.size
            session.seal()
            self.size += session.size - size
        return closed

    def _drop(self, episode: Episode, session: Session) -> None:
        """Forget one conversation of an episode."""
        episode.sessions.remove(session)
        self._remembered -= 1
        self.open -= not session.closed
        self.size -= session.size
        session.gone = True
        session.turns = {}  # its timer may refer to it for long
        if len(self._timers) > 2 * self._remembered + _TIMERS:
            self._timers = [entry for entry in self._timers if not entry[2].gone and entry[2].timer == entry[0]]
            heapq.heapify(self._timers)

    def _end_if_empty(self, conversation_id: str, episode: Episode) -> None:
        if not episode.sessions:
            del self._episodes[conversation_id]
            self._left.append(episode.mark)

    def _set_timer(self, session: Session) -> None:
        session.timer = self._due(session)
        heapq.heappush(self._timers, (session.timer, next(self._number), session))

    def oldest(self, number: int) -> list[str]:
        """The ids whose episodes have the oldest marks, to be evicted."""
        return list(islice(self._episodes, number))

    def evict(self, conversation_id: str) -> list[Closed]:
        """Close early whatever is open of an id, and forget all of it."""
        episode = self._episodes.get(conversation_id)
        if episode is None:
            return []
        closed = [self._close(episode, each, "evicted") for each in episode.sessions if not each.closed]
        for session in list(episode.sessions):
            self._drop(episode, session)
        self._end_if_empty(conversation_id, episode)
        return closed

    def behind(self, position: int, time: float, number: int) -> list[tuple[str, Episode]]:
        """At most `number` of those that need records before `position` or from before `time`, to be carried."""
        oldest = islice(self._episodes.items(), 2 * number)
        needing = takewhile(lambda item: item[1].mark.position < position or item[1].mark.time < time, oldest)
        return [item for item in needing if not item[1].carried][:number]

    def unchanged(self, conversation_id: str, first: int, since: int) -> bool:
        """Whether an episode that began at `first` has not changed since records below `since` had been taken."""
        episode = self._episodes.get(conversation_id)
        return episode is not None and episode.mark.position == first and episode.changed < since

    def passed(self, conversation_id: str) -> None:
        """A record that carries the episode was read, and does not hold."""
        episode = self._episodes.get(conversation_id)
        if episode is not None:
            episode.carried = False

    def take_back(self, conversation_id: str, sessions: Sequence[Session], mark: Mark) -> None:
        """Read an episode that was carried by the record at `mark`: none of the records before is needed any more.

        Only for one that is `unchanged`, or that was when this record was first read.
        """
        episode = self._episodes.pop(conversation_id, None)
        if episode is not None:
            self._left.append(episode.mark)
            for session in list(episode.sessions):
                self._drop(episode, session)
        episode = self._episodes[conversation_id] = Episode(mark, [], mark.position)
        for session in sessions:
            self._open(episode, session)

    @property
    def due_at(self) -> float | None:
        """When time alone may next change something (s since the epoch)."""
        return self._timers[0][0] if self._timers else None

    @property
    def low_watermark(self) -> Mark | None:
        """The oldest mark of an episode."""
        return next((each.mark for each in self._episodes.values()), None)

    def left(self) -> list[Mark]:
        """The marks that episodes needed until now and need no more, since this was last asked."""
        left, self._left = self._left, []
        return left
