"""The link stage: a fold over turns without a conversation id, which appends them to the turns log with one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY, dataclass, replace

from collector.errors import BadInput
from collector.link.conversation_linker import ConversationLinker
from collector.logs.appending import append_until_durable
from collector.logs.log import Committed, Log, Record, StoredRecord
from collector.records.json import turn_from_json
from collector.records.turns import turn_record
from evaluators.cases import Turn

_BATCH = 256
"""Turns appended at once, and records replayed before other tasks may run."""


@dataclass(eq=False, repr=False)
class LinkStage:
    """Opens the folds of the unlinked log's partitions: one has all turns that started with the same words.

    `new_linker` creates the empty state of a partition.
    """

    turns: Log
    new_linker: Callable[[], ConversationLinker]
    _: KW_ONLY
    on_bad_record: Callable[[StoredRecord, BadInput], None] = lambda _record, _error: None

    @asynccontextmanager
    async def open_fold(self, partition: int, _committed: Committed | None) -> AsyncGenerator[LinkFold]:
        """Open the fold of a partition; its state comes by replay."""
        del partition
        yield LinkFold(self.turns, self.new_linker(), self.on_bad_record)


class LinkFold:
    """One partition of the unlinked log. Time is that of the records."""

    due_at = None
    metadata = ""

    def __init__(
        self, turns: Log, linker: ConversationLinker, on_bad_record: Callable[[StoredRecord, BadInput], None]
    ) -> None:
        self._turns = turns
        self._linker = linker
        self._on_bad_record = on_bad_record

    @property
    def low_watermark(self) -> int | None:
        """The first turn of the oldest conversation that may continue."""
        return self._linker.low_watermark

    async def replay(self, records: Sequence[StoredRecord]) -> None:
        """Rebuild the conversations."""
        for number, _ in enumerate(self._conversations(records, _ignore_bad)):
            if number % _BATCH == 0:
                await asyncio.sleep(0)

    async def deliver(self, records: Sequence[StoredRecord]) -> None:
        """Append turns to the turns log, each with its conversation; they are durable on return. Waits for that log."""
        linked: list[Record] = []
        for turn, conversation_id in self._conversations(records, self._on_bad_record):
            linked.append(turn_record(replace(turn, conversation_id=conversation_id)))
            if len(linked) >= _BATCH:
                await append_until_durable(self._turns, linked)
                linked = []
        if linked:
            await append_until_durable(self._turns, linked)

    def _conversations(
        self, records: Sequence[StoredRecord], on_bad: Callable[[StoredRecord, BadInput], None]
    ) -> Iterator[tuple[Turn, str]]:
        for record in records:
            if record.is_tick:
                continue
            try:
                turn = turn_from_json(record.value)
            except BadInput as error:
                on_bad(record, error)
                continue
            yield turn, self._linker.conversation_of(turn, record.offset, record.timestamp)


def _ignore_bad(_record: StoredRecord, _error: BadInput) -> None:
    """Bad records were reported when they came."""
