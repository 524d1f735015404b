"""Two judges of one evaluator: one that writes what has to be written, and one that decides."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from collector.wording import unknown


class JudgePair(NamedTuple):
    """Names from `judges`."""

    extract: str
    decide: str

    @property
    def name(self) -> str:
        """The name of the pair, used like a judge's in metrics, plans and reports."""
        return f"{self.decide}+{self.extract}"


def pair_named(name: str, judges: Collection[str]) -> JudgePair | None:
    """The pair with this name, if it is one of these judges'."""
    pairs = (JudgePair(extract, decide) for extract in judges for decide in judges if extract != decide)
    return next((pair for pair in pairs if pair.name == name), None)


def pair_mistakes(where: str, value: Mapping[object, object], judges: Collection[str]) -> Iterator[str]:
    """The mistakes in `judge: {extract: …, decide: …}`."""
    known = sorted(judges)
    if set(value) != {"extract", "decide"}:
        yield f"{where}: give the name of a judge, or two as {{extract: …, decide: …}}"
        return
    for key in ("extract", "decide"):
        if value[key] not in judges:
            yield f"{where}.{key}: {unknown('judge', str(value[key]), known)}"
    if value["extract"] == value["decide"]:
        yield f"{where}: extract and decide are the same judge; write its name alone"
