"""Looks after a consumer's place in its group: whether it takes long to join, and whether every partition has an owner.

A process that joins under the name of one that has ended gets that one's partitions, without a rebalance. Brokers do
not tell it that it leads the group, and only a leader looks for partitions without an owner. So two kinds of partitions
could be read by no process: partitions that the ended process, as leader, had not assigned, or that were added since;
and partitions that brokers assigned to this name in a response that was lost. Therefore a named process regularly
compares the partitions that brokers assign to its name with those that it reads.
"""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import partial

from kafka.structs import TopicPartition

logger = logging.getLogger(__name__)

LOOK_EVERY = 1.0
"""Seconds between two looks."""

SETTLED = 3.0
"""Seconds after a join until brokers are asked who owns what: during a rebalance partitions have no owner."""

AGAIN = 30.0
"""Seconds until they are asked again."""

LONG = 20.0
"""Seconds of waiting for a group after which the log says so."""


@dataclass(frozen=True, slots=True)
class GroupView:
    """A consumer's knowledge: whether it has joined, which partitions there are, and which are its own."""

    joined: bool
    generation: int
    partitions: frozenset[TopicPartition]
    owned: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class GroupMembers:
    """The brokers' knowledge: whether no rebalance is going on, the members, and their partitions.

    `owned_by` has the partitions of each group instance id.
    """

    settled: bool
    names: tuple[str, ...]
    owned: frozenset[TopicPartition]
    owned_by: Mapping[str, frozenset[TopicPartition]] = field(
        default_factory=dict[str, frozenset[TopicPartition]], hash=False
    )


Answer = GroupMembers | Exception
Ask = Callable[[Callable[[Answer], None]], None]
"""Asks brokers for the members; its argument is called with the answer later, in another thread."""


class JoinWait:
    """Logs why a process takes long to join a group. It outlives a consumer that ends: the next one waits on."""

    def __init__(self) -> None:
        self.long_wait: float | None = None
        """For how many seconds the group has not been joined, once that is long. May be read in other threads."""
        self._since: float | None = None
        self._is_logged = False
        self._answers: list[Answer] | None = None
        """The answer of brokers in this wait, once it comes; None before they are asked."""

    def see(self, now: float, group: str, ask: Ask, *, joined: bool, reached: bool) -> None:
        """Look; `ask` asks for the members of the group."""
        if joined:
            if self._is_logged and self._since is not None:
                logger.info("group %s is joined after %.0f s", group, now - self._since)
            # an answer that comes later is of no wait any more: its line would have no end
            self._since, self._is_logged, self.long_wait, self._answers = None, False, None, None
            return
        if self._since is None or not reached:  # of an outage the log says that no broker answers
            self._since, self.long_wait, self._answers = now, None, None  # the members may have changed meanwhile
        if now - self._since >= LONG:
            self.long_wait = now - self._since
            if self._answers is None:
                self._answers = []
                ask(self._answers.append)
            if self._answers and not self._is_logged:
                self._is_logged = True
                _log_wait(group, self.long_wait, self._answers[0])


def _log_wait(group: str, waited: float, answer: Answer) -> None:
    why = f" ({answer})"
    if not isinstance(answer, Exception):
        why = (
            ": brokers wait until each of its members has joined again, or has been silent for its "
            f"session_timeout; members: {', '.join(answer.names) or 'none'}"
        )
    logger.warning("group %s: could not be joined for %.0f s, so nothing is read%s", group, waited, why)


@dataclass(eq=False, repr=False)
class GroupWatch:
    """Of one consumer, in the thread that polls. `instance` is its group instance id, if it has one."""

    group: str
    ask: Ask
    _: KW_ONLY
    instance: str | None
    wait: JoinWait
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._owners = None if self.instance is None else _Owners(self.group, self.instance, self.ask)
        self._next = self.clock()

    def should_rejoin(self, view: Callable[[], GroupView], *, reached: bool = True) -> bool:
        """Look, if it is time; whether the consumer has to join once more, as a partition has no owner. While no broker
        is `reached`, it does not wait for its group.
        """
        now = self.clock()
        if now < self._next:
            return False
        self._next = now + LOOK_EVERY
        seen = view()
        self.wait.see(now, self.group, self.ask, joined=seen.joined, reached=reached)
        return self._owners is not None and self._owners.misses_one(now, seen)


class _Owners:
    """Whether every partition has an owner that reads it, where no leader can be relied on to know."""

    def __init__(self, group: str, instance: str, ask: Ask) -> None:
        self._group = group
        self._instance = instance
        self._ask = ask
        self._seen: GroupView | None = None
        self._ask_at = 0.0
        self._answered: tuple[object, Answer] | None = None

    def misses_one(self, now: float, view: GroupView) -> bool:
        if not view.joined or (view.partitions and view.partitions <= view.owned):
            self._seen = None
            return False
        if view != self._seen:
            self._seen, self._ask_at, self._answered = view, now + SETTLED, None
        if now >= self._ask_at:
            self._ask_at = now + AGAIN
            self._ask(partial(self._take_answer, view))
        return self._is_unread(view)

    def _take_answer(self, about: object, answer: Answer) -> None:
        """In another thread."""
        self._answered = (about, answer)

    def _is_unread(self, seen: GroupView) -> bool:
        if self._answered is None or self._answered[0] != seen:
            return False
        (_, answer), self._answered = self._answered, None
        if isinstance(answer, Exception):
            logger.debug("who owns the partitions of group %s is not known (%s)", self._group, answer)
            return False
        unread = (seen.partitions - answer.owned) | (answer.owned_by.get(self._instance, frozenset()) - seen.owned)
        if not answer.settled or not unread:
            return False
        logger.warning(
            "group %s: nobody reads %d partitions of %s; joining once more",
            self._group, len(unread), ", ".join(sorted({orphan.topic for orphan in unread})),
        )  # fmt: skip
        return True
