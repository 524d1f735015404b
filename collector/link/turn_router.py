"""The routing of turns: into the turns log, or first into the log where those without a conversation are linked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from collector.backoff import Backoff
from collector.link.history_digest import history_of
from collector.logs.durable_append import RETRY, append_until_durable
from collector.logs.log import Log, Record
from collector.records.json import turn_to_json
from collector.records.tenants import with_conversation
from collector.records.turns import turn_key, turn_record, without_content
from evaluators.cases import Turn

EVERY = "*"
"""Stands for all services."""


class RoutedRecord(NamedTuple):
    """A record to append, and whether its turn is still to be linked to a conversation."""

    record: Record
    unlinked: bool = False


def has_no_conversation(turn: Turn, services: frozenset[str]) -> bool:
    """Whether the turn names no conversation and comes from one of the services whose turns are linked.

    An agent's run inside a turn has another history than its user's, and is never linked by it.
    """
    if turn.agent_run_of is not None:
        return False
    return bool(services) and turn.conversation_id is None and (EVERY in services or turn.service in services)


class TurnRouter:
    """Appends turns to their log. Those of `services` that name no conversation go to the log `unlinked`.

    With `is_key_wanted` the turns of other keys are stored without their content; those to be linked are not.
    """

    def __init__(
        self,
        turns: Log,
        unlinked: Log | None = None,
        services: Collection[str] = (),
        *,
        backoff: Backoff = RETRY,
        is_key_wanted: Callable[[str], bool] | None = None,
    ) -> None:
        self._is_key_wanted = is_key_wanted
        self._turns = turns
        self._unlinked = unlinked
        self._backoff = backoff
        self._services = frozenset(services) if unlinked is not None else frozenset[str]()

    @property
    def selects(self) -> bool:
        """Whether there are turns that are stored without their content."""
        return self._is_key_wanted is not None

    def is_wanted(self, turn: Turn) -> bool:
        """Whether the content of a turn is stored."""
        if self._is_key_wanted is None or has_no_conversation(turn, self._services):
            return True
        # As the reader of the log sees the key, which need not be valid text.
        return self._is_key_wanted(turn_key(with_conversation(turn)).decode(errors="replace"))

    def _record(self, turn: Turn) -> Record:
        named = with_conversation(turn)
        unread = named.incomplete == "unwanted"
        return turn_record(named if unread or self.is_wanted(named) else without_content(named))

    def route(self, turns: Sequence[Turn], whole: Iterable[Turn] | None = None) -> Iterator[RoutedRecord]:
        """The records of some turns of one trace, or of other turns that belong together; `whole` are all of these.

        All get the key of the first that has an answer, so that turns of a trace stay together. A generator: a replay
        discards them, and they need not be serialized for that.
        """
        if not any(has_no_conversation(each, self._services) for each in turns):
            yield from (RoutedRecord(self._record(turn)) for turn in turns)
            return
        opening = next(filter(None, (history_of(each).opening for each in whole or turns)), None)
        for turn in turns:
            if opening is not None and has_no_conversation(turn, self._services):
                yield RoutedRecord(Record(opening.hex().encode(), turn_to_json(turn)), unlinked=True)
            else:
                yield RoutedRecord(self._record(turn))

    async def append(self, routed: Sequence[RoutedRecord]) -> None:
        """Append records; they are durable on return. Waits while a log cannot be written."""
        for log, unlinked in ((self._turns, False), (self._unlinked, True)):
            records = [each.record for each in routed if each.unlinked is unlinked]
            if log is not None and records:
                await append_until_durable(log, records, self._backoff)
