"""A table of every evaluator that is installed, made from the classes themselves."""

from __future__ import annotations

import inspect
from importlib.metadata import entry_points
from typing import Any, cast

from evaluators.evaluator import Evaluator

GROUP = "evalstream.evaluators"
"""The entry points under which evaluators are found, ours and other people's alike."""

_HEAD = ("evaluator", "scores a", "asks a judge", "better", "what it measures")


def load_evaluators() -> dict[str, type[Evaluator[Any]]]:
    """Every installed evaluator by its kind, in alphabetical order. Imports them all."""
    loaded = {point.name: point.load() for point in entry_points(group=GROUP)}
    return {kind: cast("type[Evaluator[Any]]", loaded[kind]) for kind in sorted(loaded)}


def make_example(cls: type[Evaluator[Any]]) -> Evaluator[Any]:
    """An evaluator of this class in its smallest sensible configuration, named after its kind."""
    return cls(name=cls.kind, **cls.example)


def markdown_table() -> str:
    """The catalogue as a Markdown table: turn evaluators first, then those of conversations."""
    rows = [_HEAD, tuple("---" for _ in _HEAD), *(_row(cls) for cls in _ordered())]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in rows) + "\n"


def markdown_sections() -> str:
    """A Markdown section for each evaluator: what it needs, its range, and how its score is calculated.

    Needed fields and ranges that depend on the configuration are those of the class's example.
    """
    return "\n".join(_section(cls) for cls in _ordered())


def _ordered() -> list[type[Evaluator[Any]]]:
    return sorted(load_evaluators().values(), key=lambda cls: (cls.scope != "turn", cls.kind))


def _row(cls: type[Evaluator[Any]]) -> tuple[str, ...]:
    summary = inspect.cleandoc(cls.__doc__ or "").partition("\n\n")[0]
    judge = "yes" if cls.needs_judge else "no"
    return f"[`{cls.kind}`](#{cls.kind})", cls.scope, judge, _better(cls), " ".join(summary.split()).replace("|", "\\|")


def _section(cls: type[Evaluator[Any]]) -> str:
    evaluator = make_example(cls)
    lowest, highest = evaluator.score_range
    needs = ", ".join(f"`{name}`" for name in sorted(evaluator.requires)) or "nothing"
    facts = f"Scores a {cls.scope} · needs {needs} · {lowest:g} to {highest:g}, {_better(cls)} is better"
    return f"### {cls.kind}\n\n{facts}\n\n{inspect.cleandoc(cls.__doc__ or '')}\n"


def _better(cls: type[Evaluator[Any]]) -> str:
    return "higher" if cls.direction == "higher_is_better" else "lower"
