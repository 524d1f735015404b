"""The installed dialects, as a table and sections for the documentation."""

from collector.dialects.dialect import Dialect
from collector.dialects.registry import Dialects

_COLUMNS = ("messages", "tools", "retrieval", "conversation", "user", "feedback")


def table() -> str:
    """A Markdown table of every dialect: the libraries that write it, and what it delivers."""
    heads = ("dialect", "written by", "read besides messages")
    return "\n".join(f"| {' | '.join(line)} |" for line in [heads, ("---",) * len(heads), *map(_row, _sorted())]) + "\n"


def sections() -> str:
    """A Markdown section for each dialect: where it has what it delivers."""
    return "\n".join(map(_section, _sorted()))


def _sorted() -> list[Dialect]:
    return sorted(Dialects.installed().all, key=lambda each: each.name)


def _row(dialect: Dialect) -> tuple[str, str, str]:
    places = ((column, getattr(dialect.coverage, column)) for column in _COLUMNS[1:])
    delivered = (column for column, place in places if place and not place.startswith("none"))
    return (f"[`{dialect.name}`](#{dialect.name})", dialect.coverage.libraries, ", ".join(delivered))


def _section(dialect: Dialect) -> str:
    places = ((column, getattr(dialect.coverage, column)) for column in _COLUMNS)
    return "\n".join([f"### {dialect.name}", "", *[f"- {column}: {place}" for column, place in places if place], ""])
