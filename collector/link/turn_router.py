"""The routing of turns: into the turns log, or first into the log where those without a conversation are linked."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import NamedTuple

from collector.backoff import Backoff
from collector.link.conversation_linker import follows_responses, history_of, is_pointer
from collector.logs.log import RETRY, Log, Record, append_until_durable
from collector.records.json import turn_to_json
from collector.records.shared_records import append_shared
from collector.records.tenants import conversation_key_in_tenant, with_conversation
from collector.records.turns import bare_turn_record, turn_key, without_content
from evaluators.cases import Turn

EVERY = "*"
"""Stands for all services."""


class RoutedRecord(NamedTuple):
    """A record to append; whether its turn has to be linked to a conversation first, and whether no monitor can want
    it.
    """

    record: Record
    unlinked: bool = False
    unwanted: bool = False


def has_no_conversation(turn: Turn, services: frozenset[str]) -> bool:
    """Whether the turn names no conversation and comes from one of the services whose turns are linked.

    A turn that names only the previous response counts as naming no conversation. The history of an agent's run inside
    a turn is not its user's, so a run is never linked.
    """
    if turn.agent_run_of is not None:
        return False
    is_unnamed = turn.conversation_id is None or is_pointer(turn.conversation_id)
    return bool(services) and is_unnamed and (EVERY in services or turn.service in services)


def _unlinked_key(turns: Sequence[Turn]) -> bytes | None:
    """The key that turns share with the turns that continue them; None if nothing may continue them.

    The key is the words of their first exchange, or the service if its turns name the previous response.
    """
    if (service := next((turn.service or "" for turn in turns if follows_responses(turn)), None)) is not None:
        return f"responses of {service}".encode(errors="replace")
    opening = next(filter(None, (history_of(turn).opening for turn in turns)), None)
    return None if opening is None else opening.hex().encode()


@dataclass(eq=False, repr=False)
class TurnRouter:
    """Appends turns to their log. Those of `services` that name no conversation go to the log `unlinked`.

    With `wants_key`, turns of other keys are stored without their content, and those in one append to a partition share
    a record; `may_refuse` says whether there may be any. Turns that have to be linked first keep their content.
    """

    turns: Log
    unlinked: Log | None = None
    services: Collection[str] = ()
    _: KW_ONLY
    backoff: Backoff = RETRY
    wants_key: Callable[[str], bool] | None = None
    may_refuse: Callable[[], bool] = lambda: True

    def __post_init__(self) -> None:
        self._services = frozenset(self.services) if self.unlinked is not None else frozenset[str]()

    @property
    def selects(self) -> bool:
        """Whether there are turns that are stored without their content."""
        return self.wants_key is not None and self.may_refuse()

    def is_key_wanted(self, conversation: str, tenant: str) -> bool:
        """Whether the content of the turns of a tenant's conversation is stored."""
        return self.wants_key is None or self.wants_key(conversation_key_in_tenant(conversation, tenant))

    def is_wanted(self, turn: Turn) -> bool:
        """Whether the content of a turn is stored."""
        return self.wants_key is None or self._wants(turn, turn_key(with_conversation(turn)))

    def _wants(self, turn: Turn, key: bytes) -> bool:
        if self.wants_key is None or (self._services and has_no_conversation(turn, self._services)):
            return True
        return self.wants_key(key.decode(errors="replace"))  # as a reader does: a key need not be valid text

    def route(self, turns: Sequence[Turn], whole: Iterable[Turn] = ()) -> Sequence[RoutedRecord]:
        """The records of turns that belong together, as in a trace. `whole` has all of them, `turns` may be some.

        All records get the key of the first turn with an answer, so that turns of a trace stay together.
        """
        common: bytes | None = None
        if self._services and any(has_no_conversation(turn, self._services) for turn in turns):
            common = _unlinked_key([*whole] or turns)
        routed: list[RoutedRecord] = []
        for turn in turns:
            if common is not None and has_no_conversation(turn, self._services):
                routed.append(RoutedRecord(Record(common, turn_to_json(turn)), unlinked=True))
                continue
            named = turn if turn.conversation_id else with_conversation(turn)
            key, unread = turn_key(named), named.incomplete == "unwanted"
            if not unread and self._wants(named, key):
                routed.append(RoutedRecord(Record(key, turn_to_json(named))))
            else:
                record = bare_turn_record(named if unread else without_content(named))
                routed.append(RoutedRecord(record, unwanted=self.selects))
        return routed

    async def append(self, routed: Iterable[RoutedRecord]) -> None:
        """Append records; they are durable on return. Waits while a log cannot be written."""
        turns: list[Record] = []
        unlinked: list[Record] = []
        unwanted: set[Record] = set()
        for record, is_unlinked, is_unwanted in routed:
            (unlinked if is_unlinked else turns).append(record)
            if is_unwanted:
                unwanted.add(record)
        if turns:
            append = partial(append_shared, self.turns, may_share=unwanted.__contains__) if unwanted else None
            await append_until_durable(self.turns, turns, self.backoff, append)
        if self.unlinked is not None and unlinked:
            await append_until_durable(self.unlinked, unlinked, self.backoff)
