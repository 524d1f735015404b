"""Lines of `check` about traces in files: text that no dialect reads, with the remedy in the configuration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from collector.assemble.collect_trace import TracePiece
from collector.assemble.unread.examination import examine
from collector.commands.normalize import pieces_in
from collector.config.configured import Config
from collector.errors import ConfigError
from collector.service.assembly_builder import build_assembler

MOST_TRACES = 200
"""Traces that are examined; the first of them."""
_LARGEST = 20_000_000
"""Bytes of a file of `receive.files` that is examined without being named."""
_NO_TRACES = (".references", ".feedback")


def trace_lines(config: Config, named: Sequence[Path] = ()) -> Iterator[str]:
    """The findings about the named files; without any, of those that `receive.files` has, and only what is wrong.

    Raises:
        ConfigError: a named file does not exist or has other content.
    """
    settings = config.settings
    traces = pieces_in(named) if named else _pieces_of_received(map(Path, settings.receive.files))
    first = list(islice(traces.values(), MOST_TRACES))
    examination = examine(first, build_assembler(settings.assemble, settings.dialects)) if first else None
    if examination:
        yield ""
        yield f"traces     of {len(first)} traces:"
        yield from (f"           {line}" for line in examination.lines())
    elif named:
        yield f"traces     of {len(first)} traces no text is unread" if first else "traces     there are none"


def _pieces_of_received(paths: Iterable[Path]) -> dict[str, list[TracePiece]]:
    """The pieces of traces in files that may also hold other things, or not be there yet: those are passed over."""
    traces: dict[str, list[TracePiece]] = {}
    for path in paths:
        files = sorted(path.iterdir()) if path.is_dir() else [path]
        for file in files:
            if not file.is_file() or file.stat().st_size > _LARGEST or file.stem.endswith(_NO_TRACES):
                continue
            with suppress(ConfigError):
                for trace_id, pieces in pieces_in([file]).items():
                    traces.setdefault(trace_id, []).extend(pieces)
    return traces
