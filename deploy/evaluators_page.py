"""The catalogue of evaluators, made from the classes themselves."""

# ruff: noqa: INP001 - scripts beside the pages that they write

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterator
from typing import Any

from deploy.configuration_page import Row, own_keys, table
from evaluators.catalogue import load_evaluators, make_example
from evaluators.evaluator import Evaluator

SHARED_BY = 3
"""A key that so many kinds have in the same words is explained once, above all of them."""
LONG = 5
"""Shared keys of a kind that are this many are named once, where a later kind has the same."""
OF_JUDGED_KINDS = "longest_text"
"""The key that every kind has that asks a judge: the page says so once."""


def document() -> str:
    """A table of all kinds, the keys that many share, and a section for each kind.

    Needed fields and ranges that depend on the configuration are those of the class's example.
    """
    kinds = sorted(load_evaluators().values(), key=lambda cls: (cls.scope != "turn", cls.kind))
    counted = Counter(row for cls in kinds for row in own_keys(cls.kind))
    shared = {row for row, count in counted.items() if count >= SHARED_BY}
    named = sorted(shared)
    shown: dict[Row, str] = {}
    lists: dict[tuple[Row, ...], str] = {}
    sections = [_section(cls, shared, shown, lists) for cls in kinds]
    return "\n".join([_index(kinds), "### Keys of several kinds\n", table(named), *sections])


def _index(kinds: list[type[Evaluator[Any]]]) -> str:
    lines = ["| scores a | | |", "|---|---|---|"]
    for scope in ("turn", "conversation"):
        for by in ("by a judge", "in code", "by its members"):
            links = (f"[{cls.kind}](#{cls.kind})" for cls in kinds if (cls.scope, _scored(cls)) == (scope, by))
            lines.append(f"| {scope} | {by} | {', '.join(links)} |")
    return "\n".join(lines) + "\n"


def _scored(cls: type[Evaluator[Any]]) -> str:
    """How a kind comes to its score; whether a composite asks a judge is a property, known only of its instances."""
    return {True: "by a judge", False: "in code"}.get(cls.needs_judge, "by its members")


def _section(
    cls: type[Evaluator[Any]], shared: set[Row], shown: dict[Row, str], lists: dict[tuple[Row, ...], str]
) -> str:
    evaluator = make_example(cls)
    low, high = evaluator.score_range
    needs = ", ".join(f"`{name}`" for name in sorted(evaluator.requires)) or "nothing"
    better = "" if cls.direction == "higher_is_better" else " · lower is better"
    own_range = "" if (low, high) == (0, 1) or low > high else f" · {low:g}..{high:g}, scaled to 0..1"
    verb = "Needs" if cls.requires is Evaluator.requires else "Usually needs"
    facts = f"{verb} {needs}{own_range}{better}"
    keys = _keys(cls.kind, shared, shown, lists)
    return "\n".join([f"### {cls.kind}\n\n{inspect.cleandoc(cls.__doc__ or '')}\n\n{facts}\n", *keys])


def _keys(kind: str, shared: set[Row], shown: dict[Row, str], lists: dict[tuple[Row, ...], str]) -> Iterator[str]:
    """The keys of a kind: those of several kinds by name, those of an earlier kind by its name, its own in a table."""
    rows = own_keys(kind)
    if common := tuple(row for row in rows if row in shared and row.key != OF_JUDGED_KINDS):
        first = lists.setdefault(common, kind)
        keys = ", ".join(f"`{row.key}`" for row in common)
        yield f"Shared keys: {keys if first == kind or len(common) < LONG else f'as [{first}](#{first})'}\n"
    for other in dict.fromkeys(shown[row] for row in rows if row in shown):
        names = (f"`{row.key.strip('*')}`" for row in rows if shown.get(row) == other)
        yield f"As in [{other}](#{other}): {', '.join(names)}\n"
    if own := [row for row in rows if row not in shared and row not in shown]:
        yield table(own)
        shown |= dict.fromkeys(own, kind)
