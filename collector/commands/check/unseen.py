"""Values that a configuration selects by and that no recent turn in the service's log has: a misspelt service is valid,
and matches nothing.
"""

import asyncio
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from collector.config.attribute_names import selectors
from collector.config.configured import Config
from collector.errors import ConfigError, EvalstreamError
from collector.logs.log import LogUnavailable
from collector.logs.whole_log import end_offsets, read_partitions
from collector.past.turns import readable_turn
from collector.records.attributes import FIELDS, RECORDED, text_at
from collector.records.shared_records import divide_records
from collector.service.app import require_startable
from collector.service.open_logs import open_stored_logs
from collector.wording import is_like

_NEWEST = 2000
"""Records of each partition of the log that are read."""


def unseen_lines(config: Config) -> Iterator[str]:
    """A note for each value that no recent turn has. Of those that may be rare only what looks like a slip.

    Raises:
        ConfigError: a start would refuse the service's file.
    """
    log, texts = config.settings.log, dict[str, Counter[str]]()
    path = Path(log.path)
    # A service of another user may start with a file that this user cannot open.
    is_usable = all(os.access(each, os.R_OK | os.W_OK) for each in (path, path.parent))
    if log.kind == "sqlite" and is_usable and path.is_file() and path.stat().st_size:
        try:
            texts = asyncio.run(_count_texts(config, {field for _, field, _, _ in _selectors(config)}))
        except EvalstreamError as error:
            if isinstance(error.__cause__, LogUnavailable):
                return  # a start waits for it
            raise ConfigError(f"{config.source}: {error}") from error
    for where, field, values, is_needed in _selectors(config) if any(texts.values()) else ():
        known = [text for text, _ in texts[field].most_common() if text]
        absent = [value for value in values if value not in known]
        if not is_needed or len(absent) < len(values):
            absent = [value for value in absent if is_like(value, known)]
        if absent and (known or field.removeprefix("attributes.") in (*FIELDS, *RECORDED)):
            examples = ", ".join(repr(text[:50]) for text in known[:5]) or "none"
            count = f"none of the log's newest {texts[field].total():,} turns has {field} {' or '.join(absent)}"
            yield f"note       {where}: {count}; these turns have {examples}"


def _selectors(config: Config) -> Iterator[tuple[str, str, list[str], bool]]:
    """The places, fields and values; whether nothing is selected without one of the values."""
    for name, monitor in config.settings.monitors.items():
        for where, field, values in selectors(name, monitor):
            if field.startswith("attributes.") or field in (*FIELDS, "tenant", "language"):
                yield where, field, values, where.endswith("match")
        for attribute, compared in monitor.compare.items() if isinstance(monitor.compare, Mapping) else ():
            yield f"monitors.{name}.compare", _field(attribute), compared, False
    if link := config.settings.assemble.link:
        yield "assemble.link.services", "service", [name for name in link.services if name != "*"], True
    for dimension in config.dimensions:
        yield "export.prometheus.segment_by", _field(dimension.attribute), list(dimension.values), False


def _field(attribute: str) -> str:
    return attribute if attribute in (*FIELDS, "tenant", "language") else f"attributes.{attribute}"


async def _count_texts(config: Config, fields: set[str]) -> dict[str, Counter[str]]:
    """How many of the newest turns have each text, by field."""
    texts = {field: Counter[str]() for field in fields}
    async with open_stored_logs(config.settings.log) as logs:
        await require_startable(await logs.generated_steps(), config.settings.log, noted=False)
        starts = [max(0, end - _NEWEST) for end in await end_offsets(logs.turns)]
        async for batch in read_partitions(logs.turns, starts):
            for turn in filter(None, map(readable_turn, divide_records(batch))):
                for field in fields:
                    texts[field][text_at(turn, field)] += 1
    return texts
