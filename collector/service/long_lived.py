"""State that a restart rebuilds is passed over by garbage collection: it stays for hours, and none of it is garbage."""

from __future__ import annotations

import gc
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from collector.logs.fold_wrapper import FoldWrapper
from collector.logs.log import Committed, Fold, OpenFold, StoredRecord


def long_lived(open_fold: OpenFold) -> OpenFold:
    """Open the same folds, whose replayed state is no longer looked through until one of them closes."""
    # What is released is freed by its reference count as before; only cycles that are garbage during the replay wait.

    @asynccontextmanager
    async def open_long_lived(partition: int, committed: Committed | None) -> AsyncGenerator[Fold]:
        async with open_fold(partition, committed) as fold:
            try:
                yield _LongLivedFold(fold)
            finally:
                gc.unfreeze()

    return open_long_lived


class _LongLivedFold(FoldWrapper):
    """Freezes with every batch: else a million turns are gone through each time that they have grown by a quarter."""

    async def replay(self, records: Sequence[StoredRecord]) -> None:
        await self._fold.replay(records)
        gc.freeze()
