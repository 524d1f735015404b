"""An append that waits for its log."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from collector.backoff import Backoff
from collector.logs.log import Log, LogUnavailable, Record

RETRY = Backoff(cap=1.0)
"""How the appends of a stage are retried: without end, since it cannot continue without them."""


async def append_until_durable(
    log: Log,
    records: Sequence[Record],
    backoff: Backoff = RETRY,
    append: Callable[[Sequence[Record]], Awaitable[None]] | None = None,
) -> None:
    """Append records; retries while the log cannot be written, so that its caller waits: the back-pressure.

    `append` is how, unless as they are.

    An append that was not acknowledged may have been made all the same: then the records are in the log twice. Turns
    that arrive twice are recognized by the stage that consumes them.

    Raises:
        RecordTooLarge: a record can never be appended; nothing was.
    """
    write = append or log.append
    await backoff.repeat(lambda: write(records), LogUnavailable, action=f"writing to {log.name}")
