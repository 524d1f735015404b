"""A table of every evaluator that is installed, made from the classes themselves."""

from __future__ import annotations

import inspect
from importlib.metadata import entry_points
from typing import Any, cast

from evaluators.evaluator import Evaluator

GROUP = "evalstream.evaluators"
"""The entry points under which evaluators are found, ours and other people's alike."""

_HEAD = ("evaluator", "scores a", "needs", "range", "better", "asks a judge", "how it is calculated")


def classes() -> dict[str, type[Evaluator[Any]]]:
    """Every installed evaluator by its kind, in alphabetical order. Imports them all."""
    found = {point.name: point.load() for point in entry_points(group=GROUP)}
    return {kind: cast("type[Evaluator[Any]]", found[kind]) for kind in sorted(found)}


def example(cls: type[Evaluator[Any]]) -> Evaluator[Any]:
    """An evaluator of this class in its smallest sensible configuration, named after its kind."""
    return cls(name=cls.kind, **cls.example)


def table() -> str:
    """The catalogue as a Markdown table: turn evaluators first, then those of conversations.

    What depends on the configuration (the needed fields, the range) is that of the class's example.
    """
    ordered = sorted(classes().values(), key=lambda cls: (cls.scope != "turn", cls.kind))
    rows = [_HEAD, tuple("---" for _ in _HEAD), *(_row(cls) for cls in ordered)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in rows) + "\n"


def _row(cls: type[Evaluator[Any]]) -> tuple[str, ...]:
    shown = example(cls)
    lowest, highest = shown.score_range
    return (
        f"`{cls.kind}`",
        cls.scope,
        ", ".join(f"`{name}`" for name in sorted(shown.requires)) or "–",
        f"{lowest:g} to {highest:g}",
        "higher" if cls.direction == "higher_is_better" else "lower",
        "yes" if cls.needs_judge else "no",
        " ".join(inspect.cleandoc(cls.__doc__ or "").split()).replace("|", "\\|"),
    )
