"""The conversations that scores belong to, on a stream: which scores depend on each other, and for how long.

A conversation lasts until a day passes without a score of it, and at most seven days, so it stays the same if its user
returns after hours. Memory is bounded: beyond `capacity`, the conversation whose last score is oldest is forgotten, and
its next score begins a new one. So the errors and the evidence of this package hold for conversations whose pauses are
shorter than the time in which `capacity` other conversations have scores.

The error of a mean over a window includes the products of scores of one conversation. Two scores that lie s apart are
both within a window of length T with probability 1 - s / T. On a stream the window is not known yet. So a product
counts e^(-s / F), which needs only two fading sums for each conversation. With F about T / 2 both weights have the same
integral, so the result is exact where scores depend on each other for much longer or shorter than T (the kernel
estimators of a long-run variance: Newey and West 1987, Andrews 1991). Counting whole conversations instead would double
the error of 6 h where conversations last for days. Counting one hour, as an earlier version did, understates the error
of 24 h by a third. `tests/unit/statistics/test_long_conversations.py` measures it.
"""

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Generic, TypeVar

DAY = 86_400.0
PAUSE, LONGEST = DAY, 7.0 * DAY
"""Seconds without a score after which a conversation ends, and the most seconds that it lasts."""
FADE_DAY, FADE_WEEK = 0.5 * DAY, 4.0 * DAY
"""F (s) for windows of up to a day (the shorter the window, the more the error is overstated), and for a week."""

State = TypeVar("State")


def fading(passed: float | None, fade: float = FADE_DAY) -> float:
    """The weight of a score `passed` seconds ago; 0 if there is none."""
    return 0.0 if passed is None else math.exp(-passed / fade)


@dataclass(slots=True)
class _KnownConversation(Generic[State]):
    start: float
    last: float
    state: State


@dataclass(eq=False, repr=False)
class Conversations(Generic[State]):
    """The states of recent conversations: see the module. `pause` and `longest` in seconds."""

    new: Callable[[], State]
    _: KW_ONLY
    capacity: int = 100_000
    pause: float = PAUSE
    longest: float = LONGEST

    def __post_init__(self) -> None:
        self._known: OrderedDict[Hashable, _KnownConversation[State]] = OrderedDict()
        """In the order of the last scores."""

    def __len__(self) -> int:
        return len(self._known)

    def visit(self, key: Hashable, time: float) -> tuple[State, float | None]:
        """The state of a conversation with a score at `time` (s), and the seconds since its last score, None if it
        begins.
        """
        known = self._known.get(key)
        if known is not None and time - known.last <= self.pause and time - known.start <= self.longest:
            passed, known.last = max(0.0, time - known.last), max(known.last, time)
            self._known.move_to_end(key)
            return known.state, passed
        self._known[key] = new = _KnownConversation(time, time, self.new())
        self._known.move_to_end(key)
        while len(self._known) > self.capacity or time - next(iter(self._known.values())).last > self.pause:
            self._known.popitem(last=False)
        return new.state, None


Item = TypeVar("Item")


def by_conversation(items: Iterable[Item]) -> list[list[Item]]:
    """The items of each `conversation`; an item without one is a conversation of its own."""
    conversations: dict[Hashable, list[Item]] = {}
    for number, item in enumerate(items):
        conversations.setdefault(getattr(item, "conversation", "") or number, []).append(item)
    return list(conversations.values())
