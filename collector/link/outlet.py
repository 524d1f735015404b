"""Where turns go: into the turns log, or first to where those are linked that name no conversation."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from collector.link.histories import history_of
from collector.logs.log import Log, Record
from collector.records import turn_to_json
from collector.turn_records import turn_record
from evaluators.cases import Turn

EVERY = "*"
"""Stands for all services."""


class Outgoing(NamedTuple):
    """A record on its way, and whether it names its conversation, or is still to be linked."""

    record: Record
    unlinked: bool = False


def nameless(turn: Turn, services: frozenset[str]) -> bool:
    """Whether the turn names no conversation and comes from one of the services whose turns are linked."""
    return bool(services) and turn.conversation_id is None and (EVERY in services or turn.service in services)


class Outlet:
    """Sends turns on. Those of `services` that name no conversation go to the log `unlinked`."""

    def __init__(self, turns: Log, unlinked: Log | None = None, services: Collection[str] = ()) -> None:
        self._turns = turns
        self._unlinked = unlinked
        self._services = frozenset(services) if unlinked is not None else frozenset[str]()

    def routed(self, turns: Sequence[Turn], whole: Iterable[Turn] | None = None) -> Iterator[Outgoing]:
        """The records of some turns of one trace, or of what else belongs together; `whole` are all there are of it.

        They go the way of the first that has an answer, so that turns of a trace stay together.
        """
        if not any(nameless(each, self._services) for each in turns):
            yield from (Outgoing(turn_record(turn)) for turn in turns)
            return
        opening = next(filter(None, (history_of(each).opening for each in whole or turns)), None)
        for turn in turns:
            if opening is not None and nameless(turn, self._services):
                yield Outgoing(Record(opening.hex().encode(), turn_to_json(turn)), unlinked=True)
            else:
                yield Outgoing(turn_record(turn))

    async def append(self, made: Sequence[Outgoing]) -> None:
        """Append records; they are durable on return.

        Raises:
            LogUnavailable: some were not appended; the same may be appended again.
        """
        for log, unlinked in ((self._turns, False), (self._unlinked, True)):
            records = [each.record for each in made if each.unlinked is unlinked]
            if log is not None and records:
                await log.append(records)
