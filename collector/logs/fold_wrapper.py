"""The base of folds that wrap another fold, to count or check what passes through."""

from collections.abc import Sequence

from collector.logs.log import Fold, StoredRecord


class FoldWrapper:
    """Passes records to the inner fold; a subclass overrides what it adds to.

    Only records pass through every wrapper. The state is read from the stage's fold at once: it is asked for again and
    again, by every look for what is due. So a subclass that overrides a property of the state must be the outermost.
    """

    def __init__(self, fold: Fold) -> None:
        self._fold = fold
        self.stateful: Fold = fold.stateful if isinstance(fold, FoldWrapper) else fold
        self.takes_unreadable: bool = getattr(fold, "takes_unreadable", False)

    @property
    def due_at(self) -> float | None:
        """See `Fold`."""
        return self.stateful.due_at

    @property
    def low_watermark(self) -> int | None:
        """See `Fold`."""
        return self.stateful.low_watermark

    @property
    def metadata(self) -> str:
        """See `Fold`."""
        return self.stateful.metadata

    async def replay(self, records: Sequence[StoredRecord]) -> None:
        """See `Fold`."""
        await self._fold.replay(records)

    async def deliver(self, records: Sequence[StoredRecord]) -> None:
        """See `Fold`."""
        await self._fold.deliver(records)
