"""A store of generated evaluation steps. A judge writes the steps once per definition, and all processes share them.

All processes read the same log. If two of them generated steps at the same time, the first in the log counts
everywhere.
"""

from collections.abc import Mapping

from collector.backoff import Backoff
from collector.evaluate.recovery.ledger import RETRY, append_with_retry
from collector.logs.log import Log, LogUnavailable, Record, records_from
from evaluators.cases import Json
from evaluators.mechanisms.rating import STEPS_HASH, hash_of_steps, steps_in


class GeneratedStepsStore:
    """Answers by key, in partition 0 of a log. Open it with `GeneratedStepsStore.open`.

    While the log is unavailable, `load` and `save` retry, because their callers cannot proceed without it.
    """

    def __init__(self, log: Log, *, backoff: Backoff = RETRY) -> None:
        self._log = log
        self._backoff = backoff
        self._answers: dict[str, str] = {}
        self._next_offset = 0
        self.added = 0
        """The number of answers that this process stored."""

    @classmethod
    async def open(cls, log: Log, *, backoff: Backoff = RETRY) -> "GeneratedStepsStore":
        """Open what the log holds; retries while it is unavailable."""
        store = cls(log, backoff=backoff)
        await store._catch_up_with_retry()
        return store

    async def load(self, key: str) -> str | None:
        """The answer stored under the key, None if there is none yet."""
        if key not in self._answers:
            await self._catch_up_with_retry()
        return self._answers.get(key)

    async def save(self, key: str, text: str) -> str:
        """Store an answer; returns the first one in the log, which another process may have stored."""
        self.added += 1
        await append_with_retry(self._log, Record(key.encode(), text.encode(), partition=0), backoff=self._backoff)
        await self._catch_up_with_retry()
        return self._answers[key]

    async def steps_of(self, details: Mapping[str, Json]) -> tuple[str, ...]:
        """The steps that a judge wrote for an evaluation with these details; () if there are none."""
        wanted = details.get(STEPS_HASH)
        if wanted is None:
            return ()
        await self._catch_up_with_retry()
        return next((steps for steps in map(steps_in, self._answers.values()) if hash_of_steps(steps) == wanted), ())

    async def _catch_up_with_retry(self) -> None:
        await self._backoff.repeat(self._catch_up, LogUnavailable, action="reading the definitions log")

    async def _catch_up(self) -> None:
        async for record in records_from(self._log, 0, self._next_offset):
            self._next_offset = record.offset + 1
            if record.key is not None:
                self._answers.setdefault(record.key.decode(), record.value.decode())
