"""The provider of batches of a cluster under fire: it outlives all workers, and knows what was submitted how often."""

from __future__ import annotations

import zlib
from typing import Any

from batch_server import BatchServer, StubBatch, content_of

_LOOKS = 3
_FAILING = 20
"""One of so many requests fails in its first batch, for a reason that may pass."""


class BatchingJudge(BatchServer):
    """Ends a batch when it was looked at a few times."""

    def __init__(self) -> None:
        super().__init__(looks=_LOOKS, outcome=self._outcome)
        self._first_batch: dict[str, str] = {}

    def _batch(self, items: dict[str, dict[str, Any]], metadata: Any) -> StubBatch:
        batch = super()._batch(items, metadata)
        for body in items.values():
            self._first_batch.setdefault(content_of(body), batch.id)
        return batch

    def _outcome(self, body: dict[str, Any], number: int) -> str:
        content = content_of(body)
        failing = fails_once(content) and self._first_batch[content] == list(self.batches)[number]
        return "500" if failing else "ok"

    @property
    def submitted_again(self) -> int:
        """How often a request was in one more batch although nothing had failed."""
        return sum(max(0, times - 1 - fails_once(content)) for content, times in self.submitted.items())

    @property
    def at_once_again(self) -> int:
        """How often a request that went out at once was sent once more, or in a batch besides."""
        both = len(set(self.at_once) & set(self.submitted))
        return both + sum(times - 1 for times in self.at_once.values())


def fails_once(content: str) -> bool:
    return zlib.crc32(content.encode()) % _FAILING == 0
