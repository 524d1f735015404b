"""What is remembered of a conversation: its turns, and what is known about when and how it was judged."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from collector.evaluate.kept import NOTHING, Arrival, Kept
from collector.evaluate.marks import Mark

TURN_BYTES = 400
"""What a kept turn costs beside its packed text: ids, numbers, its place in a dictionary."""


class Closing(NamedTuple):
    """That a conversation closed: which turns (by a digest over their ids) and with what chance it was to be judged.

    The chance is `rate` times `boost`; evaluators that a budget does not hold back have `boost` alone.
    """

    digest: str
    rate: float
    boost: float
    fallback: bool


@dataclass(frozen=True, slots=True)
class Closed:
    """A conversation that is over, with its turns in the order of their start.

    `supersedes` are all earlier closings that had a part of these turns, as it is not known here which of them were
    judged. `needs` is the mark of its episode. `gaps` is how many messages of the user its histories tell of that came
    in no turn.
    """

    conversation_id: str
    turns: tuple[tuple[str, Kept], ...]
    closed_by: str
    revision: int
    closing: Closing
    supersedes: tuple[Closing, ...]
    stratum: str
    upstream: float | None
    gaps: int
    needs: Mark


@dataclass(slots=True, eq=False)
class Session:
    """A remembered conversation: open, closed and waiting for late turns, or sealed: over, its texts let go.

    Times are seconds since the epoch. `touched` is the fold's time at the last turn that came, never before a turn's
    own. `unheard` are the user's messages that histories told of and no turn had brought when they did.
    """

    conversation_id: str
    first_at: float
    last_at: float
    touched: float
    turns: dict[str, Kept | None] = field(default_factory=dict[str, "Kept | None"])
    size: int = 0
    newest: tuple[float, str] = (0.0, "")
    ends: bool = False
    unheard: frozenset[int] = NOTHING
    oldest: tuple[float, str] = (0.0, "")
    told_at_first: frozenset[int] = NOTHING
    rate: float = 0.0
    boost: float = 0.0
    stratum: str = "all"
    upstream: float | None = None
    closed: bool = False
    sealed: bool = False
    gone: bool = False
    revision: int = 0
    closings: tuple[Closing, ...] = ()
    timer: float = 0.0

    def take(self, arrival: Arrival) -> None:
        """Take a turn that is new to it."""
        key = (arrival.kept.start, arrival.turn_id)
        if not self.turns:
            self.first_at = self.last_at = arrival.kept.at
            self.newest = self.oldest = key
            self.ends, self.told_at_first, self.upstream = arrival.ends, arrival.heard, arrival.upstream
        elif arrival.upstream != self.upstream:
            self.upstream = None
        self.turns[arrival.turn_id] = arrival.kept
        self.size += len(arrival.kept.packed) + TURN_BYTES
        self._order(key, arrival)
        self._rank(arrival.rate, arrival.boost, arrival.stratum)
        if arrival.heard:
            self.unheard |= arrival.heard - self._said()
        self.closed = False

    def _order(self, key: tuple[float, str], arrival: Arrival) -> None:
        self.first_at = min(self.first_at, arrival.kept.at)
        self.last_at = max(self.last_at, arrival.kept.at)
        if key > self.newest:
            self.newest, self.ends = key, arrival.ends
        if key < self.oldest:
            self.oldest, self.told_at_first = key, arrival.heard

    def _rank(self, rate: float, boost: float, stratum: str) -> None:
        """Its chance is that of its most favoured turn: that is when it would have been taken in at the latest.

        So `rate` times `boost` is the largest product of any turn. The largest rate of one with the boost of another
        would be a chance that no turn had.
        """
        chance = max(self.rate * self.boost, rate * boost)
        self.boost, self.stratum = max((self.boost, self.stratum), (boost, stratum))
        self.rate = chance / self.boost

    def absorb(self, other: Session) -> None:
        """Take in a conversation that a turn has shown to be a part of this one."""
        if other.newest > self.newest:
            self.newest, self.ends = other.newest, other.ends
        if other.oldest < self.oldest:
            self.oldest, self.told_at_first = other.oldest, other.told_at_first
        self.first_at, self.last_at = min(self.first_at, other.first_at), max(self.last_at, other.last_at)
        self.turns |= other.turns
        self.size += other.size
        self.unheard |= other.unheard
        self._rank(other.rate, other.boost, other.stratum)
        if other.upstream != self.upstream:
            self.upstream = None
        self.revision = max(self.revision, other.revision)
        self.closings += other.closings

    def close(self, by: str, *, needs: Mark, fallback: bool) -> Closed:
        """Close it; the next closing is another revision and supersedes this one."""
        turns = sorted(
            ((turn_id, kept) for turn_id, kept in self.turns.items() if kept is not None),
            key=lambda item: (item[1].start, item[0]),
        )
        closing = Closing(digest_of(self.turns), self.rate, self.boost, fallback)
        earlier = tuple(each for each in self.closings if each.digest != closing.digest)
        self.closings = (*earlier, closing)
        self.closed = True
        self.revision += 1
        return Closed(
            conversation_id=self.conversation_id,
            turns=tuple(turns),
            closed_by=by,
            revision=self.revision,
            closing=closing,
            supersedes=earlier,
            stratum=self.stratum,
            upstream=self.upstream,
            gaps=len(self.unheard - self._said() - self.told_at_first),
            needs=needs,
        )

    def seal(self) -> None:
        """Let the texts go; the turns' ids stay, so that a turn that comes again is known."""
        self.turns = dict.fromkeys(self.turns)
        self.size = TURN_BYTES * len(self.turns) // 2
        self.unheard = self.told_at_first = NOTHING
        self.sealed = True

    def _said(self) -> set[int]:
        return {kept.said for kept in self.turns.values() if kept is not None and kept.said is not None}


@dataclass(slots=True, eq=False)
class Episode:
    """All conversations of one id that are remembered, for as long as any is.

    `mark` is that of the record it began with: a replay from there, or from before, finds every one of them again. A
    replay from behind it does not, and what it makes of the id means nothing until the episode is over, or is carried.
    `changed` is the position of the last record that changed anything.
    """

    mark: Mark
    sessions: list[Session]
    changed: int
    carried: bool = False
    """Whether a record that carries it is on its way through the log."""


def digest_of(turn_ids: Iterable[str]) -> str:
    """32 hex digits that stand for a set of turns, in whatever order they came."""
    return hashlib.blake2b("\x1f".join(sorted(turn_ids)).encode(), digest_size=16).hexdigest()
