"""The note in a definitions log that its logs were copied: services on both would judge, and pay, twice."""

from typing import NamedTuple

import orjson

from collector.errors import ConfigError
from collector.evaluate.recovery.ledger import RETRY
from collector.logs.log import Log, LogUnavailable, Record
from collector.logs.whole_log import read_records

COPIED = b"log copied"
"""The key of the note; the last one counts."""


class CopyNote(NamedTuple):
    """The configuration of the copy, and a name of what was erased from it; empty if nothing was."""

    to: str
    erased: str


async def note_copied(definitions: Log, to: str, erased: str) -> None:
    """Write down that the logs are copied. Raises LogUnavailable."""
    await definitions.append([Record(COPIED, orjson.dumps([to, erased]), partition=0)])


async def copy_note(definitions: Log) -> CopyNote | None:
    """The last note; None if the logs were never copied. Retries while the log is unavailable."""
    return await RETRY.repeat(lambda: _last(definitions), LogUnavailable, action="reading the definitions log")


async def _last(definitions: Log) -> CopyNote | None:
    note: CopyNote | None = None
    async for record in read_records(definitions):
        if record.key == COPIED:
            note = CopyNote(*orjson.loads(record.value))
    return note


async def require_not_copied(definitions: Log) -> None:
    """See that no copy of these logs is used instead.

    Raises:
        ConfigError: they were copied.
    """
    if note := await copy_note(definitions):
        raise ConfigError(
            f"log: these logs were copied for {note.to}, and both services would judge: start with that file; "
            "to go on with these logs after all, copy them to a new log.path or log.kafka.prefix"
        )
