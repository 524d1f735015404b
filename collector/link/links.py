"""Which conversation a turn belongs to that names none: the one whose words it repeats. Pure: no clock, no log.

A conversation begins with a turn that has no history, and each turn takes it further. Two people who opened with the
same words and got the same answer have two conversations; who goes on takes up the younger, which tells the same. A
turn whose beginning was never seen, because it is older, cut off or made of examples, is a conversation of its own.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from dataclasses import dataclass, field

from collector.link.histories import Told, grown, history_of
from evaluators.cases import Turn

MOST = 200_000
"""Conversations that are known of at once, in a partition; the oldest are forgotten first."""


@dataclass(slots=True, eq=False)
class _Chat:
    """A conversation that may go on. `first` is the position of its first turn, times are in seconds."""

    conversation_id: str
    first: int
    began: float
    touched: float
    told: Told
    turns: list[str] = field(default_factory=list[str])
    traces: set[str] = field(default_factory=set[str])


class Links:
    """The conversations of one partition that may go on.

    One is known for `window` seconds after its last turn, and for `max_age` after its first, so that a replay need not
    begin further back. Feed it in the order of the log, whose times never fall.
    """

    def __init__(self, *, window: float = 3600.0, max_age: float = 21_600.0, most: int = MOST) -> None:
        self._window = window
        self._max_age = max_age
        self._most = most
        self._chats: OrderedDict[int, _Chat] = OrderedDict()  # by their first positions, which grow
        self._touched: OrderedDict[int, _Chat] = OrderedDict()  # the same, the last touched at the end
        self._told: dict[Told, list[_Chat]] = {}  # those that are told alike, by their first positions
        self._turns: dict[str, _Chat] = {}
        self._traces: dict[str, _Chat] = {}

    def __len__(self) -> int:
        return len(self._chats)

    @property
    def low_watermark(self) -> int | None:
        """The first turn of the oldest conversation that is known."""
        return next(iter(self._chats), None)

    def conversation_of(self, turn: Turn, position: int, time: float) -> str:
        """The conversation that the turn at a position belongs to. Its id is that of its first turn's trace.

        A turn that comes again is given the same answer; so are all turns of one trace.
        """
        self._forget(time)
        known = self._turns.get(turn.turn_id)
        if known is not None:
            return known.conversation_id
        history = history_of(turn)
        chat = self._traces.get(turn.trace_id) if turn.trace_id else None
        if chat is None and history.before is None:
            chat = self._begin(turn, position, time)
        elif chat is None:
            chat = next(reversed(self._told.get(history.before or b"", ())), None)
        if chat is None:
            return _own_id(turn)
        self._take(chat, turn, history.before, history.after, time)
        return chat.conversation_id

    def _begin(self, turn: Turn, position: int, time: float) -> _Chat:
        chat = _Chat(_own_id(turn), position, time, time, b"")
        self._chats[position] = self._touched[position] = chat
        self._told.setdefault(b"", []).append(chat)
        return chat

    def _take(self, chat: _Chat, turn: Turn, before: Told | None, after: Told | None, time: float) -> None:
        chat.turns.append(turn.turn_id)
        self._turns[turn.turn_id] = chat
        if turn.trace_id:
            chat.traces.add(turn.trace_id)
            self._traces[turn.trace_id] = chat
        chat.touched = time
        self._touched.move_to_end(chat.first)
        if after is None:
            return
        if not chat.told or before == chat.told:
            self._go_on(chat, after)
        elif before is None:  # of the same trace, which need not repeat itself
            self._go_on(chat, grown(chat.told, turn.input or "", turn.actual_output or ""))

    def _go_on(self, chat: _Chat, told: Told) -> None:
        self._untell(chat)
        chat.told = told
        insort(self._told.setdefault(told, []), chat, key=_first)

    def _untell(self, chat: _Chat) -> None:
        alike = self._told[chat.told]
        del alike[bisect_left(alike, chat.first, key=_first)]
        if not alike:
            del self._told[chat.told]

    def _forget(self, time: float) -> None:
        while self._touched and (oldest := next(iter(self._touched.values()))).touched + self._window < time:
            self._drop(oldest)
        while self._chats:
            oldest = next(iter(self._chats.values()))
            if oldest.began + self._max_age >= time and len(self._chats) < self._most:
                break
            self._drop(oldest)

    def _drop(self, chat: _Chat) -> None:
        del self._chats[chat.first], self._touched[chat.first]
        self._untell(chat)
        for turn_id in chat.turns:
            del self._turns[turn_id]
        for trace_id in chat.traces:
            del self._traces[trace_id]


def _first(chat: _Chat) -> int:
    return chat.first


def _own_id(turn: Turn) -> str:
    return turn.trace_id or turn.turn_id
