"""The link stage: a fold over turns that name no conversation, which gives them one and hands them to the turns log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from collector.errors import BadInput
from collector.link.links import Links
from collector.logs.log import Committed, Log, Record, Stored
from collector.records import turn_from_json
from collector.turn_records import turn_record
from evaluators.cases import Turn

_BATCH = 256
"""Turns appended at once, and records replayed before others get their turn on the event loop."""


class LinkStage:
    """Opens the folds of the unlinked log's partitions: one holds all turns that opened with the same words.

    `links` makes the state of a partition, with nothing in it.
    """

    def __init__(
        self,
        turns: Log,
        links: Callable[[], Links],
        *,
        on_bad_record: Callable[[Stored, BadInput], None] = lambda _record, _error: None,
    ) -> None:
        self._turns = turns
        self._links = links
        self._on_bad_record = on_bad_record

    @asynccontextmanager
    async def open_fold(self, partition: int, _committed: Committed | None) -> AsyncGenerator[LinkFold]:
        """Open the fold of a partition; its state comes by replay."""
        del partition
        yield LinkFold(self._turns, self._links(), self._on_bad_record)


class LinkFold:
    """What one partition of the unlinked log leads to. Time is that of the records."""

    due_at = None
    note = ""

    def __init__(self, turns: Log, links: Links, on_bad_record: Callable[[Stored, BadInput], None]) -> None:
        self._turns = turns
        self._links = links
        self._on_bad_record = on_bad_record

    @property
    def low_watermark(self) -> int | None:
        """The first turn of the oldest conversation that may go on."""
        return self._links.low_watermark

    async def replay(self, records: Sequence[Stored]) -> None:
        """Rebuild what is known of conversations."""
        for number, _ in enumerate(self._conversations(records, _ignore_bad)):
            if number % _BATCH == 0:
                await asyncio.sleep(0)

    async def deliver(self, records: Sequence[Stored]) -> None:
        """Hand turns on, each with its conversation; they are durable on return."""
        made: list[Record] = []
        for turn, conversation_id in self._conversations(records, self._on_bad_record):
            made.append(turn_record(replace(turn, conversation_id=conversation_id)))
            if len(made) >= _BATCH:
                await self._turns.append(made)
                made = []
        if made:
            await self._turns.append(made)

    def _conversations(
        self, records: Sequence[Stored], on_bad: Callable[[Stored, BadInput], None]
    ) -> Iterator[tuple[Turn, str]]:
        for record in records:
            if record.is_tick:
                continue
            try:
                turn = turn_from_json(record.value)
            except BadInput as error:
                on_bad(record, error)
                continue
            yield turn, self._links.conversation_of(turn, record.position, record.timestamp)


def _ignore_bad(_record: Stored, _error: BadInput) -> None:
    """Bad records were reported when they came."""
