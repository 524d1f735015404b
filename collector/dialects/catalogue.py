"""The dialects that are installed, as a table for people."""

from __future__ import annotations

from collector.dialects.dialect import Dialect
from collector.dialects.registry import Dialects

_COLUMNS = ("messages", "tools", "retrieval", "conversation", "user", "feedback")


def table() -> str:
    """A Markdown table of every dialect: which libraries write it, and what it carries."""
    heads = ("dialect", "written by", *_COLUMNS)
    lines = [heads, ("---",) * len(heads), *map(_row, sorted(Dialects.installed().all, key=lambda each: each.name))]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _row(dialect: Dialect) -> tuple[str, ...]:
    carries = dialect.carries
    return (f"`{dialect.name}`", carries.libraries, *(getattr(carries, column) or "–" for column in _COLUMNS))
