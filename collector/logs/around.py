"""A fold around a fold, for those who look at what passes."""

from __future__ import annotations

from collections.abc import Sequence

from collector.logs.log import Fold, Stored


class FoldAround:
    """Does what the fold does that it is around; what a subclass has to add, it adds in its own methods."""

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
    def note(self) -> str:
        """See `Fold`."""
        return self._fold.note

    async def replay(self, records: Sequence[Stored]) -> None:
        """See `Fold`."""
        await self._fold.replay(records)

    async def deliver(self, records: Sequence[Stored]) -> None:
        """See `Fold`."""
        await self._fold.deliver(records)
