"""When a conversation is over: a state machine driven by records and the time they carry. No clock, no I/O.

A conversation opens with its first turn. It closes when a turn says so, when nothing of it came for `idle`, or at a
limit of age, turns or bytes. Closed for its silence or by its own word it waits for late turns: what happened less
than `idle` + `lateness` before or after one of its turns belongs to it, reopens it, and its next closing is revision
n+1. It is forgotten when `lateness` more has passed, so that turns which come late by up to that find the same
conversations as if they had come in order. Two conversations of one id that a late turn shows to be one become one.

Closed at a limit it is sealed: its texts are let go at once, only the ids of its turns are kept to know them again, and
what comes later opens a conversation afresh. Which turns come before a limit depends on the order in which they come.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count, islice
from typing import Literal, NamedTuple

from collector.evaluate.kept import Arrival
from collector.evaluate.marks import Mark
from collector.evaluate.session import Closed, Session


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """When conversations end; times in seconds."""

    idle: float = 900.0
    lateness: float = 600.0
    max_age: float = 86_400.0
    max_turns: int = 200
    max_bytes: int = 1 << 20


Taken = Literal["new", "duplicate", "late"]
"""What became of a turn: `late` ones came when their conversation was forgotten."""


class Victim(NamedTuple):
    """A conversation to be evicted: the positions of its oldest record, and of the last that changed it."""

    conversation_id: str
    opened: int
    changed: int


class Conversations:
    """The open and remembered conversations of one partition, seen by one monitor.

    Feed it in log order: `advance` to a record's time first, then `add` the record's turn. Both give the same results
    on a replay, because the only time they know is the records'. `fallback` says whether cheaper judges are asked now.
    """

    def __init__(self, ends: Ends, *, fallback: Callable[[], bool] = lambda: False) -> None:
        self._ends = ends
        self._apart = ends.idle + ends.lateness
        self._fallback = fallback
        self._sessions: dict[str, list[Session]] = {}
        self._by_age: dict[Session, None] = {}  # in the order in which they opened
        self._timers: list[tuple[float, int, Session]] = []
        self._marks: list[tuple[int, int, Session]] = []
        self._number = count()
        self._left: list[Mark] = []
        self.open = 0
        """How many are open."""
        self.size = 0
        """Bytes of all that is remembered, roughly."""

    def __len__(self) -> int:
        return len(self._by_age)

    def add(self, conversation_id: str, arrival: Arrival, mark: Mark, time: float) -> tuple[Taken, list[Closed]]:
        """Take a turn that stands at `mark`, at the fold's `time`; says what became of it and what closed by it."""
        known = self._sessions.get(conversation_id, [])
        if any(arrival.turn_id in session.turns for session in known):
            return "duplicate", []
        at = arrival.kept.at
        fitting = [each for each in known if self._fits(each, at)]
        if not fitting:
            if at + self._apart <= time:
                return "late", []
            session = self._open(Session(conversation_id, mark, at, at, time))
        else:
            session = fitting[0]
            for other in fitting[1:]:
                self._merge(session, other)
        self._take(session, arrival, mark, time)
        return "new", self._over(session)

    def _fits(self, session: Session, at: float) -> bool:
        return not session.sealed and session.first_at - self._apart < at < session.last_at + self._apart

    def _open(self, session: Session) -> Session:
        self._sessions.setdefault(session.conversation_id, []).append(session)
        self._by_age[session] = None
        self.open += not session.closed
        self.size += session.size
        heapq.heappush(self._marks, (session.mark.position, next(self._number), session))
        self._set_timer(session)
        return session

    def _merge(self, session: Session, other: Session) -> None:
        self._forget(other)
        was_closed, size = session.closed, session.size
        session.absorb(other)
        session.closed, session.carried = was_closed, False
        self.size += session.size - size
        heapq.heappush(self._marks, (session.mark.position, next(self._number), session))

    def _take(self, session: Session, arrival: Arrival, mark: Mark, time: float) -> None:
        size = session.size
        self.open += session.closed
        session.take(arrival)
        self.size += session.size - size
        session.touched = time
        session.changed = mark.position
        if self._due(session) < session.timer:
            self._set_timer(session)

    def _over(self, session: Session) -> list[Closed]:
        """Close a conversation that a turn has ended."""
        ends = self._ends
        if len(session.turns) >= ends.max_turns:
            return [self._close(session, "max_turns", seal=True)]
        if session.size >= ends.max_bytes:
            return [self._close(session, "max_bytes", seal=True)]
        if session.last_at - session.first_at >= ends.max_age:
            return [self._close(session, "max_age", seal=True)]
        return [self._close(session, "explicit")] if session.ends else []

    def advance(self, time: float, position: int) -> Iterator[Closed]:
        """Let time pass before the record at `position`: close what is over, forget what was remembered long enough."""
        while self._timers and self._timers[0][0] <= time:
            at, _, session = heapq.heappop(self._timers)
            if session.gone or session.timer != at:
                continue
            if self._due(session) > at:  # turns came since the timer was set
                self._set_timer(session)
            elif session.closed:
                self._forget(session)
                self._left.append(session.mark)
            else:
                session.changed = position
                aged = session.first_at + self._ends.max_age <= time
                yield self._close(session, "max_age" if aged else "idle", seal=aged)
                self._set_timer(session)

    def _due(self, session: Session) -> float:
        if session.closed:
            return session.touched + self._apart + self._ends.lateness
        return max(session.touched, min(session.touched + self._ends.idle, session.first_at + self._ends.max_age))

    def _close(self, session: Session, by: str, *, seal: bool = False) -> Closed:
        closed = session.close(by, fallback=self._fallback())
        self.open -= 1
        if seal:
            size = session.size
            session.seal()
            self.size += session.size - size
        return closed

    def _forget(self, session: Session) -> None:
        session.gone = True
        del self._by_age[session]
        siblings = self._sessions[session.conversation_id]
        siblings.remove(session)
        if not siblings:
            del self._sessions[session.conversation_id]
        self.open -= not session.closed
        self.size -= session.size

    def _set_timer(self, session: Session) -> None:
        session.timer = self._due(session)
        heapq.heappush(self._timers, (session.timer, next(self._number), session))

    def oldest(self, number: int) -> list[Victim]:
        """Those that opened first, to be evicted."""
        return [Victim(each.conversation_id, each.mark.position, each.changed) for each in islice(self._by_age, number)]

    def evict(self, victim: Victim, start: int) -> list[Closed]:
        """Close a conversation early and forget it. This fold's reading began at position `start`."""
        closed: list[Closed] = []
        within = start > victim.opened
        for session in list(self._sessions.get(victim.conversation_id, ())):
            position = session.mark.position
            if position != victim.opened and not (within and position <= victim.changed):
                continue  # only where the reading began within the conversation can it stand elsewhere
            if not session.closed:
                closed.append(self._close(session, "evicted"))
            self._forget(session)
            self._left.append(session.mark)
        return closed

    def behind(self, position: int, time: float, number: int) -> list[Session]:
        """At most `number` of those that need records before `position` or from before `time`, to be carried."""
        found: list[Session] = []
        passed: list[tuple[int, int, Session]] = []
        while self._oldest_mark() is not None and len(passed) < 2 * number and len(found) < number:
            session = self._marks[0][2]
            if session.mark.position >= position and session.mark.time >= time:
                break
            passed.append(heapq.heappop(self._marks))
            if not session.carried and session not in found:
                found.append(session)
        for entry in passed:
            heapq.heappush(self._marks, entry)
        return found

    def take_back(self, carried: Session, since: int, first: int, start: int, time: float) -> None:
        """Read a conversation that was carried: from here on it needs none of the records before.

        It was written when records below `since` had been taken, and its oldest record stood at `first`. What changed
        after that has made it void. This fold's own reading began at `start`: where that lies behind `first`, what it
        knows of the conversation is not all, and what was carried is.
        """
        if carried.touched + self._apart + self._ends.lateness <= time:
            return
        known = self._sessions.get(carried.conversation_id, [])
        for session in known:
            if session.mark.position == first:
                session.carried = False
        whole = start <= first
        if whole and not any(each.mark.position == first for each in known):
            return  # it is forgotten, or a part of another by now
        same = [each for each in known if each.turns.keys() & carried.turns.keys() or each.mark.position == first]
        if any(each.changed >= since and (whole or self._fed(each, carried)) for each in same):
            return
        for session in same:
            self._forget(session)
            self._left.append(session.mark)
        self._open(carried)

    @staticmethod
    def _fed(known: Session, carried: Session) -> bool:
        return not known.turns.keys() <= carried.turns.keys()

    @property
    def due_at(self) -> float | None:
        """When time alone may next change something (s since the epoch)."""
        return self._timers[0][0] if self._timers else None

    def _oldest_mark(self) -> Mark | None:
        while self._marks:
            position, _, session = self._marks[0]
            if not session.gone and session.mark.position == position:
                return session.mark
            heapq.heappop(self._marks)
        return None

    @property
    def low_watermark(self) -> Mark | None:
        """The mark of the oldest turn of any conversation that is remembered."""
        return self._oldest_mark()

    def left(self) -> list[Mark]:
        """The marks that conversations needed until now and need no more, since this was last asked."""
        left, self._left = self._left, []
        return left
