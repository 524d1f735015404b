"""The turns that are kept for reading: bounded, those of listed evaluations longest. No clock, no I/O."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from collector.evaluate.plan import conversation_key
from evaluators.cases import Turn

OVERHEAD = 500
"""Bytes that a kept turn costs beside its text, about."""
_LOOK_EVERY = 256
"""Changes between two looks for the oldest kept position of a partition; between them it may be given too low."""


@dataclass(slots=True)
class _Kept:
    """A turn, and where in the turns log it lies."""

    turn: Turn
    size: int
    partition: int
    position: int


@dataclass(slots=True)
class _Talk:
    """The kept turns of a conversation, by their id."""

    turns: dict[str, _Kept] = field(default_factory=dict[str, _Kept])


class Texts:
    """Turns by conversation, within a number of bytes.

    A conversation is kept while listed evaluations want it; what nobody wants (not judged yet, or never) goes first,
    the oldest before the newest.
    """

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._bytes = 0
        self._wanted: dict[str, int] = {}
        self._kept: OrderedDict[str, _Talk] = OrderedDict()
        self._others: OrderedDict[str, _Talk] = OrderedDict()
        self._lowest: dict[int, int] = {}
        self._changes = 0

    def add(self, turn: Turn, size: int, partition: int, position: int) -> None:
        """A turn of `size` bytes was assembled; the same turn again takes the place of the first."""
        key = conversation_key(turn)
        place = self._kept if key in self._wanted else self._others
        talk = place.setdefault(key, _Talk())
        before = talk.turns.pop(turn.turn_id, None)
        self._bytes += size + OVERHEAD - (before.size + OVERHEAD if before else 0)
        talk.turns[turn.turn_id] = _Kept(turn, size, partition, position)
        self._lowest.setdefault(partition, position)
        self._shrink()
        self._changed()

    def want(self, key: str) -> None:
        """An evaluation of this conversation is listed."""
        self._wanted[key] = self._wanted.get(key, 0) + 1
        talk = self._others.pop(key, None)
        if talk is not None:
            self._kept[key] = talk

    def release(self, key: str) -> None:
        """An evaluation of this conversation is listed no more."""
        self._wanted[key] -= 1
        if not self._wanted[key]:
            del self._wanted[key]
            self._drop(self._kept, key)

    def turns(self, key: str) -> list[Turn]:
        """The kept turns of a conversation, in the order of their start."""
        talk = self._kept.get(key) or self._others.get(key)
        if talk is None:
            return []
        kept = sorted(talk.turns.values(), key=lambda each: (_start(each.turn), each.position))
        return [each.turn for each in kept]

    def turn(self, key: str, turn_id: str) -> Turn | None:
        """One turn, if it is kept."""
        talk = self._kept.get(key) or self._others.get(key)
        kept = talk.turns.get(turn_id) if talk else None
        return kept.turn if kept else None

    def forget(self, partition: int) -> None:
        """Let go of what a partition of the turns log gave; it is about to be read again."""
        for place in (self._kept, self._others):
            for key in [key for key, talk in place.items() if self._is_of(talk, partition)]:
                self._drop(place, key)
        self._lowest.pop(partition, None)

    def lowest(self, partition: int) -> int | None:
        """A position at or before that of the oldest kept turn of a partition."""
        return self._lowest.get(partition)

    @staticmethod
    def _is_of(talk: _Talk, partition: int) -> bool:
        return any(each.partition == partition for each in talk.turns.values())

    def _shrink(self) -> None:
        while self._bytes > self._budget and (place := self._others or self._kept):
            self._drop(place, next(iter(place)))

    def _drop(self, place: OrderedDict[str, _Talk], key: str) -> None:
        talk = place.pop(key, None)
        if talk is not None:
            self._bytes -= sum(each.size + OVERHEAD for each in talk.turns.values())
            self._changed()

    def _changed(self) -> None:
        self._changes += 1
        if self._changes % _LOOK_EVERY == 0 or not (self._kept or self._others):
            self._lowest = {}
            for place in (self._kept, self._others):
                for talk in place.values():
                    for each in talk.turns.values():
                        self._lowest[each.partition] = min(
                            each.position, self._lowest.get(each.partition, each.position)
                        )


def _start(turn: Turn) -> float:
    return turn.started_at.timestamp() if turn.started_at else float("inf")
