"""The page's folds: they keep the view up to date with the logs of turns, evaluations and labels.

The low watermarks are the offsets of the oldest turn and evaluation on the page, so that a restart reads them back. The
contents of a partition are forgotten when it is opened again, not when it is closed: at a stop its fold would commit
that it needs nothing any more. The counts leave out records that are read again, and texts stay until their
evaluations are read. Labels are all read again.
"""

import asyncio
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial

from collector.errors import BadInput
from collector.logs.log import Committed, StoredRecord, UntimedFold
from collector.page.score_series import MINUTE, SumsHistory
from collector.page.view import View
from collector.records.feedback import is_joined_feedback, parse_joined_feedback
from collector.records.json import evaluation_from_json, label_from_json, turn_from_json

TURNS_GROUP, EVALUATIONS_GROUP, LABELS_GROUP = "page.turns", "page.evaluations", "page.labels"
"""The groups under which the page's cursors are stored: one for each log, as a consumer group belongs to one topic."""
_SAVED_WITHIN = 2.0
"""Seconds that a partition's unsaved sums may take to be stored when it closes. If they take longer, the next owner
stores them.
"""


class PageStage:
    """Opens the folds that feed a view; `changed` is called when it has changed."""

    def __init__(
        self, view: View, changed: Callable[[], None] = lambda: None, history: SumsHistory | None = None
    ) -> None:
        self._view = view
        self._changed = changed
        self._history = history
        self._begun = False
        self.partitions: set[int] = set()
        """Those of the evaluations log that this process reads."""
        self._read_back_to: dict[int, int] = {}

    @property
    def reads_back(self) -> bool:
        """Whether evaluations that were read before the start are still missing."""
        return not self._begun or bool(self._read_back_to)

    def _note_position(self, record: StoredRecord) -> None:
        if self._read_back_to and record.offset + 1 >= self._read_back_to.get(record.partition, math.inf):
            del self._read_back_to[record.partition]

    @asynccontextmanager
    async def open_turns(self, partition: int, _committed: Committed | None) -> "AsyncGenerator[_Fold]":
        """Open the fold of a partition of the turns log."""
        self._view.turn_cache.forget(partition)
        yield _Fold(self._add_turn, lambda: self._view.turn_cache.lowest(partition), self._changed)

    @asynccontextmanager
    async def open_evaluations(self, partition: int, committed: Committed | None) -> "AsyncGenerator[_Fold]":
        """Open the fold of a partition of the evaluations log. Another process may have had it before."""
        for stretch in await self._history.read_on(0.0) if self._history is not None else ():
            self._view.restore(stretch)
        self._view.forget(partition)
        self._begun = True
        self.partitions.add(partition)
        if committed is not None and committed.low_watermark < committed.offset:
            self._read_back_to[partition] = committed.offset
        try:
            yield _Fold(
                self._add_evaluation, lambda: self._view.needed(partition), self._changed,
                partial(self._save, partition), self._note_position,
            )  # fmt: skip
        finally:
            self.partitions.discard(partition)
            self._read_back_to.pop(partition, None)
            with suppress(TimeoutError):
                async with asyncio.timeout(_SAVED_WITHIN):
                    await self._save(partition, math.inf)

    async def _save(self, partition: int, now: float) -> None:
        """Store what a partition has added to the series: once a minute, and when it closes. Until it is stored, it is
        read again at a start.
        """
        stretch = self._view.unsaved(partition, now, after=MINUTE)
        if stretch is not None:
            if self._history is not None:
                await self._history.append(stretch)
            self._view.note_saved(partition)

    @asynccontextmanager
    async def open_labels(self, _partition: int, _committed: Committed | None) -> "AsyncGenerator[_Fold]":
        """Open the fold of a partition of the labels."""
        yield _Fold(self._add_label, lambda: 0, self._changed)

    def _add_label(self, record: StoredRecord) -> None:
        if is_joined_feedback(record):
            self._view.add_feedback(parse_joined_feedback(record.value))
        elif not record.headers:
            self._view.add_label(label_from_json(record.value))

    def _add_turn(self, record: StoredRecord) -> None:
        if record.headers:
            return  # what the evaluate stage carries forward there
        turn, place = turn_from_json(record.value), (record.partition, record.offset, record.timestamp)
        self._view.add_turn(turn, len(record.value), *place)

    def _add_evaluation(self, record: StoredRecord) -> None:
        if record.headers:
            return  # a decision of the evaluate stage
        self._view.add_evaluation(evaluation_from_json(record.value), record.partition, record.offset, record.timestamp)


@dataclass(eq=False, repr=False)
class _Fold(UntimedFold):
    """One partition's way into the view."""

    add: Callable[[StoredRecord], None]
    lowest: Callable[[], int | None]
    changed: Callable[[], None]
    save: Callable[[float], Awaitable[None]] | None = None
    note_position: Callable[[StoredRecord], None] = lambda _record: None

    @property
    def low_watermark(self) -> int | None:
        """The oldest record that is on the page, or whose part of the series is not stored yet."""
        return self.lowest()

    async def replay(self, records: Sequence[StoredRecord]) -> None:
        """The same as new ones, but nothing is stored."""
        self._add_all(records)

    async def deliver(self, records: Sequence[StoredRecord]) -> None:
        """Take records into the view; other stages report those that cannot be read."""
        self._add_all(records)
        if self.save is not None:
            await self.save(records[-1].timestamp)

    def _add_all(self, records: Sequence[StoredRecord]) -> None:
        for record in records:
            if not record.is_tick:
                with suppress(BadInput):
                    self.add(record)
        if records:
            self.note_position(records[-1])
        self.changed()
