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


def document() -> str:
    """A table of all kinds, the keys that many share, and a section for each kind.

    Needed fields and ranges that depend on the configuration are those of the class's example.
    """
    kinds = sorted(load_evaluators().values(), key=lambda cls: (cls.scope != "turn", cls.kind))
    counted = Counter(row for cls in kinds for row in own_keys(cls.kind))
    shared = {row for row, count in counted.items() if count >= SHARED_BY}
    named = sorted(shared, key=lambda row: row.key)
    parts = [_index(kinds), "### Keys of several kinds\n", table(named), *(_section(cls, shared) for cls in kinds)]
    return "\n".join(parts)


def _index(kinds: list[type[Evaluator[Any]]]) -> str:
    lines = ["| scores a | | |", "|---|---|---|"]
    for scope in ("turn", "conversation"):
        for needs_judge, by in ((True, "by a judge"), (False, "in code")):
            links = (
                f"[{cls.kind}](#{cls.kind})" for cls in kinds if (cls.scope, cls.needs_judge) == (scope, needs_judge)
            )
            lines.append(f"| {scope} | {by} | {', '.join(links)} |")
    return "\n".join(lines) + "\n"


def _section(cls: type[Evaluator[Any]], shared: set[Row]) -> str:
    evaluator = make_example(cls)
    lowest, highest = evaluator.score_range
    needs = ", ".join(f"`{name}`" for name in sorted(evaluator.requires)) or "nothing"
    better = "higher" if cls.direction == "higher_is_better" else "lower"
    facts = f"Needs {needs} · {lowest:g} to {highest:g}, {better} is better"
    return "\n".join(
        [f"### {cls.kind}\n\n{inspect.cleandoc(cls.__doc__ or '')}\n\n{facts}\n", *_keys(cls.kind, shared)]
    )


def _keys(kind: str, shared: set[Row]) -> Iterator[str]:
    rows = own_keys(kind)
    if common := [f"`{row.key}`" for row in rows if row in shared]:
        yield f"Shared keys: {', '.join(common)}\n"
    if own := [row for row in rows if row not in shared]:
        yield table(own)
