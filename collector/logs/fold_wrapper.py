"""The base of folds that wrap another fold, to count or check what passes through."""

from __future__ import annotations

from collections.abc import Sequence

from collector.logs.log import Fold, StoredRecord


class FoldWrapper:
    """Passes everything to the inner fold; a subclass overrides what it adds to."""

    def __init__(self, fold: Fold) -> None:
        self._fold = fold

    @property
    def due_at(self) -> float | None:
        """See `Fold`."""
        return self._fold.due_at

    @property
    def low_watermark(self) -> int | None:
        """See `Fold`."""
        return self._fold.low_watermark

    @property
    def metadata(self) -> str:
        """See `Fold`."""
        return self._fold.metadata

    async def replay(self, records: Sequence[StoredRecord]) -> None:
        """See `Fold`."""
        await self._fold.replay(records)

    async def deliver(self, records: Sequence[StoredRecord]) -> None:
        """See `Fold`."""
        await self._fold.deliver(records)
