"""Cache of turns for reading: bounded; those of listed evaluations stay longest. No clock, no I/O."""

from collections import OrderedDict
from dataclasses import dataclass, field

from collector.records.turns import conversation_key
from evaluators.cases import Turn

OVERHEAD = 500
"""Bytes that a cached turn costs beside its text, about."""
_SCAN_EVERY = 256
"""Changes between two scans for the oldest cached offset of a partition. Why not at each: a scan reads every turn. In
between the offset may be too low, which only makes a restart read more."""


@dataclass(slots=True)
class _CachedTurn:
    """A turn, and where in the turns log it lies."""

    turn: Turn
    size: int
    partition: int
    position: int


@dataclass(slots=True)
class _CachedConversation:
    """The cached turns of a conversation, by their id."""

    turns: dict[str, _CachedTurn] = field(default_factory=dict[str, _CachedTurn])


class TurnCache:
    """Turns by conversation, within a number of bytes.

    A conversation is pinned while evaluations of it are listed; unpinned ones (not evaluated yet, or never) are evicted
    first, the oldest before the newest.
    """

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._bytes = 0
        self._pins: dict[str, int] = {}
        self._pinned: OrderedDict[str, _CachedConversation] = OrderedDict()
        self._unpinned: OrderedDict[str, _CachedConversation] = OrderedDict()
        self._lowest: dict[int, int] = {}
        self._changes = 0

    def add(self, turn: Turn, size: int, partition: int, position: int) -> None:
        """A turn of `size` bytes was assembled; the same turn again takes the place of the first."""
        key = conversation_key(turn)
        place = self._pinned if key in self._pins else self._unpinned
        talk = place.setdefault(key, _CachedConversation())
        before = talk.turns.pop(turn.turn_id, None)
        self._bytes += size + OVERHEAD - (before.size + OVERHEAD if before else 0)
        talk.turns[turn.turn_id] = _CachedTurn(turn, size, partition, position)
        self._lowest.setdefault(partition, position)
        self._shrink()
        self._changed()

    def pin(self, key: str) -> None:
        """An evaluation of this conversation is listed."""
        self._pins[key] = self._pins.get(key, 0) + 1
        talk = self._unpinned.pop(key, None)
        if talk is not None:
            self._pinned[key] = talk

    def unpin(self, key: str) -> None:
        """An evaluation of this conversation is listed no more."""
        self._pins[key] -= 1
        if not self._pins[key]:
            del self._pins[key]
            self._drop(self._pinned, key)

    def turns(self, key: str) -> list[Turn]:
        """The cached turns of a conversation, in the order of their start."""
        talk = self._pinned.get(key) or self._unpinned.get(key)
        if talk is None:
            return []
        cached = sorted(talk.turns.values(), key=lambda each: (_start(each.turn), each.position))
        return [turn.turn for turn in cached]

    def turn(self, key: str, turn_id: str) -> Turn | None:
        """One turn, if it is cached."""
        talk = self._pinned.get(key) or self._unpinned.get(key)
        cached = talk.turns.get(turn_id) if talk else None
        return cached.turn if cached else None

    def forget(self, partition: int) -> None:
        """Drop the turns of a partition of the turns log; it is about to be read again."""
        for place in (self._pinned, self._unpinned):
            for key in [key for key, talk in place.items() if self._is_of(talk, partition)]:
                self._drop(place, key)
        self._lowest.pop(partition, None)

    def lowest(self, partition: int) -> int | None:
        """A position at or before that of the oldest cached turn of a partition."""
        return self._lowest.get(partition)

    @staticmethod
    def _is_of(talk: _CachedConversation, partition: int) -> bool:
        return any(turn.partition == partition for turn in talk.turns.values())

    def _shrink(self) -> None:
        while self._bytes > self._budget and (place := self._unpinned or self._pinned):
            self._drop(place, next(iter(place)))

    def _drop(self, place: OrderedDict[str, _CachedConversation], key: str) -> None:
        talk = place.pop(key, None)
        if talk is not None:
            self._bytes -= sum(turn.size + OVERHEAD for turn in talk.turns.values())
            self._changed()

    def _changed(self) -> None:
        self._changes += 1
        if self._changes % _SCAN_EVERY == 0 or not (self._pinned or self._unpinned):
            self._lowest = {}
            for place in (self._pinned, self._unpinned):
                for talk in place.values():
                    for turn in talk.turns.values():
                        self._lowest[turn.partition] = min(
                            turn.position, self._lowest.get(turn.partition, turn.position)
                        )


def _start(turn: Turn) -> float:
    return turn.started_at.timestamp() if turn.started_at else float("inf")
