"""When the settings by which traces become turns changed: records of the definitions log, one for each change."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

import orjson

from collector.config.section_hashes import hash_of
from collector.config.settings import Settings
from evaluators.judges.definition_cache import AnswerStore

_ASSEMBLE = ""
"""The name of the section `assemble` among the names of dialects."""

_NOT_READING = {"idle_timeout", "allowed_lateness", "keep", "link"}
"""Settings of `assemble` by which the same turns are made of a trace."""


@dataclass(frozen=True, slots=True)
class ReadSince:
    """Since when (s since the epoch) settings read traces: 0 if they always did, infinity if they do not yet."""

    times: Mapping[str, float]

    def of(self, dialect: str) -> float:
        """Since when turns of a dialect are made like this."""
        return max(self.times[_ASSEMBLE], self.times.get(dialect, 0.0))


async def note_assembly(definitions: AnswerStore, settings: Settings, now: float) -> None:
    """Write what traces are read by from `now` on, unless it is the newest."""
    entries, parts = await _entries(definitions), _parts(settings)
    while not entries or entries[-1]["parts"] != parts:
        await definitions.save(f"assembly/{len(entries) + 1}", orjson.dumps({"at": now, "parts": parts}).decode())
        entries = await _entries(definitions)  # another process may have been the first


async def read_since(definitions: AnswerStore, settings: Settings) -> ReadSince:
    """Since when traces are read by such settings. Nothing is known of the time before the first entry."""
    entries = await _entries(definitions)
    return ReadSince({name: _since(entries, name, part) for name, part in _parts(settings).items()})


def _since(entries: list[dict[str, Any]], name: str, part: str) -> float:
    others = [number for number, entry in enumerate(entries) if entry["parts"].get(name) != part]
    if not others:
        return 0.0
    return inf if others[-1] == len(entries) - 1 else entries[others[-1] + 1]["at"]


def _parts(settings: Settings) -> dict[str, str]:
    """A hash of each part; a written-out default is no change."""
    return {
        name: hash_of(part.model_dump(mode="json", exclude_defaults=True, exclude=_NOT_READING if not name else None))
        for name, part in {_ASSEMBLE: settings.assemble, **settings.dialects}.items()
    }


async def _entries(definitions: AnswerStore) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = []
    while (text := await definitions.load(f"assembly/{len(entries) + 1}")) is not None:
        entries.append(orjson.loads(text))
    return entries
